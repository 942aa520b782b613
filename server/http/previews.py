"""Previews of an episode for links: a summary, a card, a clip of a moment.

Each picture is drawn by a separate process, since the drawing library would stop all our threads.
"""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from starlette.requests import Request

from spectator.catalog import load_world, world_names
from spectator.environments.contract import (
    CHERRY,
    FAINT,
    GRASS,
    GROUND,
    INK,
    LINE,
    NOTHING_DRAWN,
    SKY,
    WILLOW,
    text_svg,
    whole_svg,
)
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import (
    EnvironmentFault,
    EpisodeNotFound,
    JournalError,
    SpectatorError,
)
from spectator.text import clean_text

from ..lru_cache import LruCache
from ..services import Services, services_of
from ..viewers.wall import side_names
from .episodes import summary_of
from .responses import lines_of


def public_root(request: Request) -> str:
    """Return the public URL of the lobby, without a trailing slash.

    It is the canonical one if the settings name it, whatever host was requested. Otherwise, if the host
    belongs to an allowed origin, that origin is used: a proxy may have terminated TLS.
    """
    host, settings = request.url.netloc, services_of(request).settings
    known = [one for one in settings.allowed_origins if one.partition("://")[2] == host]
    origin = settings.canonical_url or (known[0] if known else f"{request.url.scheme}://{host}")
    return f"{origin}{request.scope.get('root_path', '')}"


LONGEST: Final = 160
"""Most characters of a headline and of a line of commentary."""

PATIENCE_S: Final = 0.25
"""Seconds that a page waits for its episode's state, before it omits it."""


@dataclass(frozen=True, slots=True)
class EpisodePreview:
    """A summary of an episode, without hidden names.

    Args:
        status: ``live``, ``paused`` or ``ended``.
        at: Position in the game; empty if unknown.
        progress: Completed share of the game, in [0, 1]; ``None`` if unknown.
        sides: The names of their sides, such as teams, likewise; empty if there are none.
        chances: The agent's chances to win, each in [0, 1], oldest first; empty in worlds without them.
        line: The newest line of commentary that differs from the headline.
        head_seq: Number of the last event it includes.
    """

    episode_id: str
    title: str
    headline: str
    seats: tuple[str, ...]
    sides: tuple[str, ...]
    status: str
    at: str
    progress: float | None
    chances: tuple[float, ...]
    line: str
    head_seq: int


async def preview_of(services: Services, episode_id: str) -> EpisodePreview:
    """Return the current preview of an episode."""
    return read_preview(services, episode_id, *await state_of(services, episode_id))


async def state_of(services: Services, episode_id: str) -> tuple[Mapping[str, Any], int]:
    """Return an episode's current state for viewers, and the number of its last event."""
    live = services.supervisor.live(episode_id)
    if live is not None and live.head_seq:
        await live.open()
        return live.state, live.head_seq
    summary = await summary_of(services, episode_id)
    if not summary.head_seq:
        raise EpisodeNotFound(episode_id)
    frame = await services.snapshots.of(summary)
    return (await asyncio.to_thread(json.loads, frame.text))["state"], summary.head_seq


async def headline_now(services: Services, running: EpisodeHandle) -> str:
    """Return the headline of a running episode, for a page that must not wait.

    Empty before the first event, and if the record cannot be read within :data:`PATIENCE_S`.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            await running.open()
    except (EnvironmentFault, JournalError, TimeoutError):
        return ""  # connected viewers see the problem
    if not running.head_seq:
        return ""
    return read_preview(services, running.episode_id, running.state, running.head_seq).headline


def read_preview(
    services: Services, episode_id: str, state: Mapping[str, Any], head_seq: int
) -> EpisodePreview:
    """Read the preview from a viewer's state."""
    mask = services.operator_orders.mask
    episode, world, feed = mask.value(state["episode"]), state.get("world", {}), state.get("feed", {})
    glance = world.get("glance")
    seen = glance if isinstance(glance, Mapping) else {}
    seats = tuple(clean_text(str(seat["label"]), 60) for seat in episode["seats"].values())
    headline = str(episode.get("result") or world.get("headline") or " against ".join(seats))
    lines = (str(feed[key]["text"]) for key in sorted(feed, reverse=True))
    newest = next((text for text in lines if text.rstrip(".") != headline), "")
    return EpisodePreview(
        episode_id=episode_id,
        title=clean_text(str(episode["title"]), 60),
        headline=clean_text(mask.text(headline), LONGEST),
        seats=seats,
        sides=tuple(clean_text(mask.text(one), 40) for one in _sides(str(episode["environment"]), world)),
        status=str(episode["status"]),
        at=clean_text(mask.text(str(seen.get("at", ""))), 40),
        progress=_share(seen.get("progress")),
        chances=_chances(str(episode["environment"]), world),
        line=clean_text(mask.text(newest), LONGEST),
        head_seq=head_seq,
    )


def _chances(environment: str, seen: Mapping[str, Any]) -> tuple[float, ...]:
    world = load_world(environment) if environment in world_names() else None
    if world is None or world.chances is None:
        return ()
    return tuple(chance for one in world.chances(seen) if (chance := _share(one)) is not None)


def _sides(environment: str, seen: Mapping[str, Any]) -> tuple[str, ...]:
    return side_names(load_world(environment), seen) if environment in world_names() else ()


def _share(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


KEPT: Final = 32
"""Cached pictures of one kind, at most about 250 kB each."""

_Key = TypeVar("_Key")


class NoFont(SpectatorError):
    """This machine has no font, so that pictures cannot be drawn."""


class CannotDraw(SpectatorError):
    """The drawing program failed."""


class NothingToDraw(SpectatorError):
    """There is nothing to draw."""


class PictureCache(Generic[_Key]):
    """Draws pictures of one kind, one at a time, and caches the last few."""

    def __init__(self) -> None:
        self._kept: LruCache[_Key, bytes] = LruCache(KEPT)
        self._turn = asyncio.Lock()

    async def of(self, key: _Key, draw: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the picture of ``key``, drawn if not cached; concurrent calls share it."""
        if (kept := self._kept.get(key)) is not None:
            return kept
        async with self._turn:
            picture = self._kept.get(key)
            if picture is None:
                picture = await draw()
                self._kept.keep(key, picture)
            return picture


async def output_of(program: Path, given: bytes, longest_s: float) -> bytes:
    """Run a program and return its output; it is killed if the call is cancelled.

    Raises:
        NothingToDraw: The program reported that.
        CannotDraw: It failed, or took too long.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(program), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(longest_s):
            picture, _ = await process.communicate(given)
    except TimeoutError:
        raise CannotDraw(f"drawing a picture took longer than {longest_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == NOTHING_DRAWN:
        raise NothingToDraw("no scene has happened there yet")
    if process.returncode:
        raise CannotDraw(f"the drawing program exited with {process.returncode}")
    return picture


WIDTH: Final = 1200
HEIGHT: Final = 630
"""Size in pixels, as social networks and messengers show link previews."""

LONGEST_S: Final = 20.0
"""Time limit of a card in seconds; it takes about 0.2 s of CPU."""

LEFT: Final = 64
RIGHT: Final = WIDTH - LEFT
CHART: Final = (372.0, 540.0)
"""Top and bottom of the chart."""


class Cards:
    """Draws cards, each in a separate process, and caches the last few."""

    def __init__(self) -> None:
        self._pictures: PictureCache[tuple[str, int]] = PictureCache()
        self._can_write: bool | None = None

    async def of(self, glance: EpisodePreview) -> bytes:
        """Return the card as a PNG."""
        return await self._pictures.of((glance.episode_id, glance.head_seq), partial(self._drawn, glance))

    async def require_font(self) -> None:
        """Check once that there is a font; without one pictures lack their text."""
        if self._can_write is None:
            written = await draw(whole_svg(text_svg(4, 40, 30, "Aa", INK), 64, 64))
            self._can_write = written != await draw(whole_svg("", 64, 64))
        if not self._can_write:
            raise NoFont("no font is installed; install a package such as fonts-dejavu-core")

    async def _drawn(self, glance: EpisodePreview) -> bytes:
        await self.require_font()
        return await draw(card(glance))


async def draw(svg: str) -> bytes:
    """Draw SVG as a PNG in a separate process."""
    return await output_of(Path(__file__).with_name("drawing.py"), svg.encode(), LONGEST_S)


def card(glance: EpisodePreview) -> str:
    """Return the card as SVG: world, state, headline, seats and chances."""
    size, lines = _fitted(glance.headline)
    top = 168.0
    lines_svg = "".join(
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
        + lines_svg
        + _seats(
            [", ".join(names) for names in zip(glance.sides, glance.seats, strict=False)] or glance.seats
        )
        + (
            _line(glance.chances, over=glance.status == "ended")
            if len(glance.chances) > 1
            else _progress(glance)
        )
        + text_svg(LEFT, 602, 24, "Spectator", INK, weight=700)
        + text_svg(RIGHT, 602, 24, "every decision next to its result", FAINT, anchor="end"),
        WIDTH,
        HEIGHT,
    )


def _fitted(headline: str) -> tuple[float, list[str]]:
    """Return the largest font size for at most two lines, and the lines."""
    for size in (68, 56, 46):
        lines = textwrap.wrap(headline, int((RIGHT - LEFT) / (0.66 * size)))
        if len(lines) <= 2:
            return size, lines
    return 38, textwrap.wrap(headline, 42, max_lines=3, placeholder=" …")


def _seats(seats: Sequence[str]) -> str:
    """Draw the seats, each in the colour of its half of the chart."""
    shown = []
    for number, (seat, colour) in enumerate(zip(seats[:2], (GRASS, SKY), strict=False)):
        x = LEFT + number * (RIGHT - LEFT) / 2
        shown.append(f'<rect x="{x}" y="304" width="18" height="18" rx="5" fill="{colour}"/>')
        shown.append(text_svg(x + 30, 322, 28, textwrap.shorten(seat, 34, placeholder=" …"), INK))
    return "".join(shown)


def _line(chances: Sequence[float], *, over: bool) -> str:
    """Draw the chances: the first seat leads above the middle."""
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


def _progress(glance: EpisodePreview) -> str:
    done = 1.0 if glance.status == "ended" else (glance.progress or 0.0)
    bar = f'<rect x="{LEFT}" y="430" height="16" rx="8" width="'
    return (
        f'{bar}{RIGHT - LEFT}" fill="{LINE}"/>{bar}{max(16.0, done * (RIGHT - LEFT)):.1f}" fill="{WILLOW}"/>'
    )


SHORTEST_CLIP_S: Final = 3
LONGEST_CLIP_S: Final = 10
DEFAULT_CLIP_S: Final = 4

AHEAD: Final = 150
"""Events read after the moment, so that the rest of it can be drawn."""

CLIP_PATIENCE_S: Final = 30.0
"""Time limit of a clip in seconds; it takes about two seconds of CPU, at low priority."""


class NoClips(SpectatorError):
    """The world has no scenes to draw."""


ClipKind = Literal["webp", "webm", "png"]


@dataclass(frozen=True, slots=True)
class WantedClip:
    """A requested clip.

    Args:
        from_seq: The viewer's position.
        kind: ``webp`` or ``webm``, or ``png`` for only a picture of the outcome.
    """

    episode_id: str
    from_seq: int
    seconds: int
    kind: ClipKind


class MomentClips:
    """Draws clips, one at a time in a separate process, and caches the last few."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._pictures: PictureCache[tuple[WantedClip, int]] = PictureCache()

    async def of(self, services: Services, wanted: WantedClip) -> bytes:
        """Return the clip: an animated WebP, a WebM, or a PNG.

        Raises:
            NoClips: Its world has no scenes.
            NothingToDraw: No scene has happened yet.
        """
        summary = await summary_of(services, wanted.episode_id)
        world = load_world(summary.environment) if summary.environment in world_names() else None
        if world is None or world.scenes is None:
            raise NoClips(f"{summary.title} draws no clips: its world has no scenes")
        key = wanted, min(summary.head_seq, wanted.from_seq + AHEAD)
        return await self._pictures.of(key, partial(self._drawn, services, wanted, world.name))

    async def _drawn(self, services: Services, wanted: WantedClip, world: str) -> bytes:
        await self._cards.require_font()
        asked = {
            "world": world,
            "from_seq": wanted.from_seq,
            "seconds": wanted.seconds,
            "kind": wanted.kind,
        }
        given = [json.dumps(asked).encode(), b"\n"]
        mask, left = services.operator_orders.mask, wanted.from_seq + AHEAD
        async for piece in lines_of(
            services.public_views, wanted.episode_id, 0, services.budget.reading_turn
        ):
            lines = piece.splitlines(keepends=True)[:left]
            given += [mask.json(line.decode()).encode() for line in lines] if mask.names else lines
            left -= len(lines)
            if left <= 0:
                break
        return await output_of(Path(__file__).with_name("clip_drawing.py"), b"".join(given), CLIP_PATIENCE_S)
