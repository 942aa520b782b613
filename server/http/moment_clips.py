"""Clips of moments: a few seconds of an episode as a picture that moves, drawn from its record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from spectator.catalog import load_world, world_names
from spectator.errors import SpectatorError

from ..services import Services
from .archive import summary_of
from .card import Cards
from .downloads import lines_of
from .picture_programs import KeptPictures, output_of

SHORTEST_S: Final = 3
LONGEST_S: Final = 10
USUAL_S: Final = 4

AHEAD: Final = 150
"""Events after the moment that are read, so that what belongs to it and follows it can be drawn."""

PATIENCE_S: Final = 30.0
"""How long one may take; it takes about two seconds of CPU, at low priority."""


class DrawsNothing(SpectatorError):
    """A world draws nothing."""


@dataclass(frozen=True, slots=True)
class WantedClip:
    """A moment that somebody wants to see.

    Args:
        episode_id: Of which episode.
        from_seq: Where the viewer stands.
        seconds: How long it may last.
        still: Whether only a picture of how it came out is wanted.
    """

    episode_id: str
    from_seq: int
    seconds: int
    still: bool


class MomentClips:
    """Draws clips, one after the other, each by a program of its own, and keeps the last few.

    Args:
        cards: Know whether there is a font.
    """

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._pictures: KeptPictures[tuple[WantedClip, int]] = KeptPictures()

    async def of(self, services: Services, wanted: WantedClip) -> bytes:
        """The clip: a WebP that moves, or a PNG.

        Raises:
            EpisodeNotFound: There is no such episode.
            DrawsNothing: Its world draws nothing; the message says so.
            NothingDrawn: Nothing that is drawn has happened yet.
            NoFont: There is no font.
            CannotDraw: It could not be drawn.
        """
        summary = await summary_of(services, wanted.episode_id)
        world = load_world(summary.environment) if summary.environment in world_names() else None
        if world is None or world.scenes is None:
            raise DrawsNothing(f"{summary.title} draws no clips: its world has no scenes")
        key = wanted, min(summary.head_seq, wanted.from_seq + AHEAD)
        return await self._pictures.of(key, partial(self._drawn, services, wanted, world.name))

    async def _drawn(self, services: Services, wanted: WantedClip, world: str) -> bytes:
        await self._cards.need_font()
        asked = {
            "world": world,
            "from_seq": wanted.from_seq,
            "seconds": wanted.seconds,
            "still": wanted.still,
        }
        given = [json.dumps(asked).encode(), b"\n"]
        mask, left = services.orders.mask, wanted.from_seq + AHEAD
        async for piece in lines_of(services.records, wanted.episode_id, 0, services.budget.reading):
            lines = piece.splitlines(keepends=True)[:left]
            given += [mask.json(line.decode()).encode() for line in lines] if mask.names else lines
            left -= len(lines)
            if left <= 0:
                break
        return await output_of(Path(__file__).with_name("clip_drawing.py"), b"".join(given), PATIENCE_S)
