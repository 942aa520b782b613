"""The wall: every episode that runs as a tile, sent at a bounded rate in the same bytes to all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from spectator.clock import Clock
from spectator.episodes.host.episode_view import EpisodeView
from spectator.episodes.host.supervisor import Supervisor
from spectator.errors import EpisodeError
from spectator.merge_patch import make_patch

from ..security.masking import ShowsNames
from . import wire
from .episodes_elsewhere import EpisodesElsewhere
from .patched_frames import PatchedFrames
from .relay import in_turns
from .tile import Tile, TileOf
from .viewer import Viewer
from .wire import Frame

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Least time between two frames."""

RESULT_S: Final = 20.0
"""How long an episode stays on the wall after its end, so that its result is seen."""


@dataclass(slots=True)
class _Shown:
    of: TileOf
    tile: Tile
    until: float | None = None


class Wall:
    """What runs here and at other servers, as tiles, for any number of viewers.

    It reads the episodes, and derives the views of those that are recorded without one, only while somebody
    watches; it encodes what has changed once for all viewers, and
    keeps nothing per viewer: one who missed a change is sent the whole wall again.

    Args:
        supervisor: Who runs the episodes.
        clock: Time.
        tasks: The group that it refreshes in.
        names: Says which names are hidden.
        others: What other servers play on the same journal; nothing if left out.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        names: ShowsNames,
        others: EpisodesElsewhere | None = None,
    ) -> None:
        self._names = names
        self._others = others
        self._frames = PatchedFrames("wall", "tiles")
        self._supervisor = supervisor
        self._clock = clock
        self._tasks = tasks
        self._shown: dict[str, _Shown] = {}
        self._viewers: dict[Viewer, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Raised by every change."""
        return self._frames.version

    def now(self) -> Frame:
        """The frame with every tile; at most :data:`INTERVAL_S` old."""
        if self._task is None:
            self.refresh()
        return self._everything()

    async def look_elsewhere(self) -> None:
        """Follow what other servers play, for whoever asks for :meth:`now` without watching; returns at once
        where it is followed already."""
        if self._others is not None:
            await self._others.follow_all()

    def after(self, version: int) -> Frame:
        """What a viewer of ``version`` needs: the last change where that is enough, else every tile."""
        return self._frames.after(version, self._tiles)

    def _everything(self) -> Frame:
        """Encoded once for all who ask between two changes."""
        return self._frames.whole(self._tiles)

    def _tiles(self) -> dict[str, Tile]:
        return {name: shown.tile for name, shown in self._shown.items()}

    def add(self, viewer: Viewer) -> None:
        """Send ``viewer`` every change."""
        self._viewers[viewer] = None
        if self._task is None:
            self.refresh()
            self._task = self._tasks.create_task(self._keep_refreshing(), name="wall")

    def discard(self, viewer: Viewer) -> None:
        """Send ``viewer`` nothing more; safe to call twice."""
        self._viewers.pop(viewer, None)
        if not self._viewers and self._task is not None:
            self._task.cancel()
            self._task = None

    def refresh(self) -> None:
        """Take in what has happened since the last time; returns at once."""
        changes: dict[str, Any] = {}
        for live in self._on_now():
            shown = self._shown.get(live.episode_id)
            if shown is None:
                self._shown[live.episode_id] = _Shown(TileOf(live), {})
            elif shown.of.live is not live:  # another server plays it now, or this one
                shown.of, shown.until = TileOf(live), None
        for name, shown in tuple(self._shown.items()):
            tile = shown.of.now(self._names.mask)
            if tile != shown.tile:
                changes[name] = make_patch(shown.tile, tile)
                shown.tile = tile
            if self._is_gone(shown):
                changes[name] = None
                del self._shown[name]
        if changes:
            self._frames.note(changes)

    def _on_now(self) -> Iterator[EpisodeView]:
        yield from (live for live in self._supervisor.showing() if live.head_seq)
        if self._others is not None:
            yield from self._others.views()

    def _is_gone(self, shown: _Shown) -> bool:
        name = shown.of.live.episode_id
        followed = self._others is not None and self._others.view(name) is not None
        if followed or self._supervisor.live(name) is not None:
            return False
        now = self._clock.monotonic()
        if shown.until is None:
            shown.until = now + (RESULT_S if shown.of.live.ended else 0.0)
        return now >= shown.until

    async def _keep_refreshing(self) -> None:
        while True:
            await self._clock.sleep(INTERVAL_S)
            before = self.version
            await self._bring_up_to_date()
            self.refresh()
            if self._frames.change is not None and self.version > before:
                (change,) = wire.batches([self._frames.change])
                await in_turns(self._viewers, partial(Viewer.send_lossy, batch=change))

    async def _bring_up_to_date(self) -> None:
        """Derive the views that nobody else watches, so that their tiles show them too."""
        await self.look_elsewhere()
        shown = [tile.of.live for tile in self._shown.values()]
        for live in {one.episode_id: one for one in (*self._supervisor.showing(), *shown)}.values():
            try:
                await live.open()
            except EpisodeError:
                logger.exception("episode %s keeps its tile as it was", live.episode_id)
