"""The HTML templates, and what every page has in common."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .assets import folder, sheet_paths

LOOKS: Final = 12
"""Looks of an emblem; the classes are in card.css, and ui/emblem.js draws the same."""


def emblem(label: str) -> tuple[str, int]:
    """Return the letters and the look of a captain's emblem, from its name for people.

    >>> emblem("Old Pro"), emblem("Asha (trained here)"), emblem("Miser")
    (('OP', 4), ('A', 3), ('M', 10))
    """
    words = [word for word in label.split("(")[0].split() if word[0].isalnum()]
    look = sum(place * ord(letter) for place, letter in enumerate(label, 1)) % LOOKS
    return "".join(word[0].upper() for word in words[:2]) or "?", look


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
