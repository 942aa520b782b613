"""Settings of the pages and of what is shown on them."""

from __future__ import annotations

from pydantic import BaseModel, Field


class PageSettings(BaseModel):
    """How pages are sent; part of ``server.settings.Settings``."""

    join_assets: bool = Field(
        default=True,
        description="Whether each page's scripts and styles are sent as one file each, without comments; "
        "`false` sends them as they are written, for whoever works on them",
    )
