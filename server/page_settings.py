"""Settings of the pages and of what is shown on them."""

from __future__ import annotations

from pydantic import BaseModel, Field


class PageSettings(BaseModel):
    """How pages are sent; part of ``server.settings.Settings``."""

    exhibition: bool = Field(
        default=True,
        description="Whether two captains who cost nothing play while there is no other match and somebody "
        "looks at the lobby or the wall. It gives its slot to anyone who wants one, counts in no limit and "
        "no standings, and keeps 3 records",
    )
    join_assets: bool = Field(
        default=True,
        description="Whether each page's scripts and styles are sent as one file each, without comments; "
        "`false` sends them as they are written, for whoever works on them",
    )
