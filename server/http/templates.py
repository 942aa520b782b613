"""The templates of the HTML pages, and what every page is given."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .assets import folder, sheet_paths


@dataclass(frozen=True, slots=True)
class Page:
    """What every template is given.

    Args:
        root: Relative path from the page to the lobby, right under any prefix.
        static: Relative path to the pages' files.
        title: The page's title.
    """

    root: str
    static: str
    title: str


class Templates:
    """The pages' templates; a context that lacks a field is an error, and everything is escaped.

    Args:
        join: Whether the style sheets that a template names together are sent as one.
    """

    def __init__(self, *, join: bool) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(folder("templates")), autoescape=True, undefined=StrictUndefined
        )
        self._environment.filters["sheet_paths"] = functools.partial(sheet_paths, join=join)

    def render(self, template: str, page: Page, *, status: int = 200) -> HTMLResponse:
        """The page, never kept: it names the digests of the files it needs."""
        html = self._environment.get_template(template).render(page=page)
        return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-cache"})


def static_path(request: Request) -> str:
    """Path of the pages' files under their digest, from the root."""
    path: str = request.app.state.static_path
    return path
