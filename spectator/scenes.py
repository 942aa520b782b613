"""Scenes: how a world draws what happened, for clips of moments, and what all drawings share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from xml.sax.saxutils import escape

from spectator.events import Event

SCENE_WIDTH: Final = 640
SCENE_HEIGHT: Final = 326
"""Units of a scene; below it the chances are drawn."""

NOTHING_DRAWN: Final = 3
"""How a program that draws ends where there is nothing to draw."""

FONT: Final = "'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Arial, Helvetica, sans-serif"
GROUND, INK, FAINT, LINE = "#0c120e", "#f3efe4", "#979b89", "#263228"
GRASS, SKY, WILLOW, CHERRY = "#63b87e", "#79b8e0", "#e2b458", "#f4695f"


@dataclass(frozen=True, slots=True)
class Mover:
    """A dot that moves over a scene.

    Args:
        places: Where it is, ``(x, y)``, at equal steps from the scene's beginning to its end; at least one.
        radius: Its size.
        colour: Its colour.
    """

    places: Sequence[tuple[float, float]]
    radius: float = 5.0
    colour: str = INK


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawing that stands for a while.

    Args:
        svg: What is drawn, without the ``svg`` element, in 640 by 326 units.
        duration_s: How long it stands, seconds.
        mover: What moves over it meanwhile.
    """

    svg: str
    duration_s: float
    mover: Mover | None = None


class SceneArtist(Protocol):
    """Draws what an event of a world was, from what viewers saw."""

    def __call__(self, event: Event, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Scene]:
        """The scenes of ``event``, the last one how it came out; none of an event that is not drawn.

        Args:
            event: Any event of the episode.
            before: The world's part of the viewers' state before it.
            after: The same after it.
        """
        ...


def text_svg(
    x: float, y: float, size: float, text: str, colour: str, *, anchor: str = "start", weight: int = 400
) -> str:
    """A line of text as SVG; whatever is in it is shown as it is.

    >>> text_svg(1, 2, 9, "<b>", "#fff").endswith('fill="#fff">&lt;b&gt;</text>')
    True
    """
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="{FONT}" font-size="{size:g}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def whole_svg(inside: str, width: int, height: int, units: tuple[int, int] | None = None) -> str:
    """A drawing of ``width`` by ``height`` pixels; its own units where they are others."""
    wide, high = units or (width, height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {wide} {high}">{inside}</svg>'
    )
