"""The card of an episode: a picture of how it stands, for where its link is shared."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from spectator.scenes import CHERRY, FAINT, GRASS, GROUND, INK, LINE, SKY, WILLOW, text_svg, whole_svg

from .glance import Glance
from .picture_programs import KeptPictures, NoFont, output_of

WIDTH: Final = 1200
HEIGHT: Final = 630
"""Pixels, as social networks and messengers show the picture of a link."""

LONGEST_S: Final = 20.0
"""How long one may take; it takes about 0.2 s of CPU."""

LEFT: Final = 64
RIGHT: Final = WIDTH - LEFT
CHART: Final = (372.0, 540.0)
"""Top and bottom of the chart."""


class Cards:
    """Draws cards, each by a program of its own, and keeps the last few; who asks for the same shares it."""

    def __init__(self) -> None:
        self._pictures: KeptPictures[tuple[str, int]] = KeptPictures()
        self._can_write: bool | None = None

    async def of(self, glance: Glance) -> bytes:
        """The card as a PNG.

        Raises:
            NoFont: There is none.
            CannotDraw: It could not be drawn.
        """
        return await self._pictures.of((glance.episode_id, glance.head_seq), partial(self._drawn, glance))

    async def need_font(self) -> None:
        """See that there is a font, once: with none, text is left out of pictures silently.

        Raises:
            NoFont: There is none.
            CannotDraw: Nothing can be drawn at all.
        """
        if self._can_write is None:
            written = await draw(whole_svg(text_svg(4, 40, 30, "Aa", INK), 64, 64))
            self._can_write = written != await draw(whole_svg("", 64, 64))
        if not self._can_write:
            raise NoFont("no font is installed; a package such as fonts-dejavu-core has one")

    async def _drawn(self, glance: Glance) -> bytes:
        await self.need_font()
        return await draw(card(glance))


async def draw(svg: str) -> bytes:
    """A picture as a PNG, by a program of its own.

    Raises:
        CannotDraw: It failed, or took longer than :data:`LONGEST_S`.
    """
    return await output_of(Path(__file__).with_name("drawing.py"), svg.encode(), LONGEST_S)


def card(glance: Glance) -> str:
    """The card as SVG: world and state, the headline, who plays, the line of the chances."""
    size, lines = _fitted(glance.headline)
    top = 168.0
    said = "".join(
        text_svg(LEFT, top + number * size * 1.15, size, line, INK, weight=700)
        for number, line in enumerate(lines)
    )
    state = {"live": "LIVE", "paused": "PAUSED"}.get(glance.status, "RESULT")
    head = "  ·  ".join(part for part in (glance.title, glance.at) if part)
    dot = CHERRY if glance.status == "live" else WILLOW
    return whole_svg(
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>'
        f'<rect width="{WIDTH}" height="8" fill="{GRASS}"/>'
        f'<circle cx="{LEFT + 9}" cy="74" r="9" fill="{dot}"/>'
        + text_svg(LEFT + 32, 83, 26, state, dot, weight=700)
        + text_svg(RIGHT, 83, 26, head, FAINT, anchor="end")
        + said
        + _seats(glance.seats)
        + (
            _line(glance.chances, over=glance.status == "ended")
            if len(glance.chances) > 1
            else _progress(glance)
        )
        + text_svg(LEFT, 602, 24, "Spectator", INK, weight=700)
        + text_svg(RIGHT, 602, 24, "every decision beside what it led to", FAINT, anchor="end"),
        WIDTH,
        HEIGHT,
    )


def _fitted(headline: str) -> tuple[float, list[str]]:
    """The largest size at which a headline takes at most two lines, and these."""
    for size in (68, 56, 46):
        lines = textwrap.wrap(headline, int((RIGHT - LEFT) / (0.66 * size)))
        if len(lines) <= 2:
            return size, lines
    return 38, textwrap.wrap(headline, 42, max_lines=3, placeholder=" …")


def _seats(seats: Sequence[str]) -> str:
    """Who plays, each in the colour of their half of the chart."""
    shown = []
    for number, (seat, colour) in enumerate(zip(seats[:2], (GRASS, SKY), strict=False)):
        x = LEFT + number * (RIGHT - LEFT) / 2
        shown.append(f'<rect x="{x}" y="304" width="18" height="18" rx="5" fill="{colour}"/>')
        shown.append(text_svg(x + 30, 322, 28, textwrap.shorten(seat, 30, placeholder=" …"), INK))
    return "".join(shown)


def _line(chances: Sequence[float], *, over: bool) -> str:
    """The chances in the course of the game: above the middle the first one leads, below it the second."""
    top, bottom = CHART
    step, height = (RIGHT - LEFT) / (len(chances) - 1), bottom - top
    places = [(LEFT + number * step, bottom - chance * height) for number, chance in enumerate(chances)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    middle = (top + bottom) / 2
    filled = f"{LEFT},{middle} {path} {RIGHT},{middle}"
    halves = "".join(
        f'<clipPath id="{name}"><rect x="0" y="{y}" width="{WIDTH}" height="{height / 2}"/></clipPath>'
        f'<polygon points="{filled}" fill="{colour}" fill-opacity="0.28" clip-path="url(#{name})"/>'
        for name, y, colour in (("above", top, GRASS), ("below", middle, SKY))
    )
    edges = "".join(
        f'<line x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}" stroke="{LINE}" stroke-width="2"/>'
        for y in (top, middle, bottom)
    )
    x, y = places[-1]
    leads = chances[-1] >= 0.5
    best, colour = f"{100 * max(chances[-1], 1 - chances[-1]):.0f} %", GRASS if leads else SKY
    now = "" if over else text_svg(RIGHT, top - 12, 24, best, colour, anchor="end", weight=700)
    return (
        f'{edges}{halves}<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="4" '
        f'stroke-linejoin="round"/><circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="{WILLOW}"/>'
        + text_svg(LEFT, top - 12, 20, "chance to win", FAINT)
        + now
    )


def _progress(glance: Glance) -> str:
    """How far it has come, where nobody's chances are known."""
    done = 1.0 if glance.status == "ended" else (glance.progress or 0.0)
    bar = f'<rect x="{LEFT}" y="430" height="16" rx="8" width="'
    return (
        f'{bar}{RIGHT - LEFT}" fill="{LINE}"/>{bar}{max(16.0, done * (RIGHT - LEFT)):.1f}" fill="{GRASS}"/>'
    )
