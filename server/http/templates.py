"""The HTML templates, and what every page has in common."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from spectator.text import emblem

from .assets import folder, sheet_paths


@dataclass(frozen=True, slots=True)
class Page:
    """Context of every template.

    Args:
        root: Relative path from the page to the lobby, valid below any prefix.
    """

    root: str
    static: str
    title: str


class Templates:
    """The pages' templates; missing fields are errors, and all values are escaped."""

    def __init__(self, *, join: bool) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(folder("templates")), autoescape=True, undefined=StrictUndefined
        )
        self._environment.filters["sheet_paths"] = functools.partial(sheet_paths, join=join)
        self._environment.filters["emblem"] = emblem

    def render(self, template: str, page: Page, *, status: int = 200) -> HTMLResponse:
        """Render a page; browsers revalidate it, since it names digests of static files."""
        html = self._environment.get_template(template).render(page=page)
        return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-cache"})


def static_path(request: Request) -> str:
    """Return the path of the static files, with their digest, from the root."""
    path: str = request.app.state.static_path
    return path
