"""The wall: every live episode as a tile, sent to viewers at a bounded rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from spectator.catalog import load_world, world_names
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeError
from spectator.json_values import make_patch

from ..security.masking import NameMask, NameMaskSource
from . import wire
from .boards import PatchedFrames
from .broadcast import in_turns
from .other_servers import RemoteEpisodes
from .viewer import Viewer
from .wire import Frame

LINE_LENGTH: Final = 160
"""Characters of a tile's headline and newest line of commentary."""

MOST_CHANCES: Final = 120
"""Points of a line of chances; longer ones keep every other point, every third, and so on."""

TOGETHER: Final = 10
"""Points per group, so that a new point changes only the last group."""

Tile = dict[str, Any]


class TileOf:
    """The tile of an episode; what its world derives from a state is cached."""

    def __init__(self, live: EpisodeView) -> None:
        self.live = live
        self._read: Tile = {}
        self._read_at = -1

    def now(self, mask: NameMask) -> Tile:
        """Return the current tile, without ``None``, so that changes can be merge patches."""
        if self._read_at != self.live.head_seq:
            self._read, self._read_at = _read_by_world(self.live.state), self.live.head_seq
        read: Tile = mask.value(self._read, free=True)
        return _public_fields(self.live.state, mask) | {"turn": self.live.turn} | read


def tile_of(state: Mapping[str, Any], mask: NameMask) -> Tile:
    """Return the tile of an episode, without its ``turn``."""
    read: Tile = mask.value(_read_by_world(state), free=True)
    return _public_fields(state, mask) | read


def _public_fields(state: Mapping[str, Any], mask: NameMask) -> Tile:
    episode = mask.value(state["episode"])
    world, feed = state.get("world", {}), state.get("feed", {})
    glance = world.get("glance")
    tile: Tile = {
        "environment": episode["environment"],
        "title": episode["title"],
        "seats": [seat["label"] for seat in episode["seats"].values()],
        "seed": episode["seed"],
        "started_at": episode["started_at"],
        "status": episode["status"],
        "pace": episode["pace"],
        "headline": mask.text(str(world.get("headline", "")))[:LINE_LENGTH],
    }
    if isinstance(glance, Mapping):
        tile["glance"] = mask.value(dict(glance), free=True)
    if "parent" in episode:
        tile["parent"] = episode["parent"]["episode_id"]
    if "reason" in episode:
        tile["reason"] = episode["reason"]
    return tile | _newest_line(feed, mask)


def _read_by_world(state: Mapping[str, Any]) -> Tile:
    """Return the agent's chances, the picture's data and the sides' names, if the world has them."""
    name = str(state["episode"]["environment"])
    world = load_world(name) if name in world_names() else None
    if world is None:
        return {}
    own, read = state.get("world", {}), Tile()
    if world.chances is not None and (line := world.chances(own)):
        read |= {"chance": round(line[-1], 3), "chances": reported_chances(line)}
    if world.picture is not None:
        read["picture"] = dict(world.picture(own))
    if sides := side_names(world, own):
        read["sides"] = list(sides)
    return read


def side_names(world: World, own: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the actors' sides, such as teams; empty if there are none.

    Args:
        own: The world's part of the viewers' state.
    """
    return () if world.sides is None else tuple(world.sides(own))


def reported_chances(line: Sequence[float]) -> dict[str, Any]:
    """Encode a line of chances so that a new point makes a small merge patch.

    Args:
        line: Chances in [0, 1], oldest first; at least one.

    Returns:
        Their ``count``, and ``percent`` of every ``every``-th one, :data:`TOGETHER` per member.

    >>> reported_chances([0.5, 0.514, 0.2])
    {'count': 3, 'every': 1, 'percent': {'0': [50, 51, 20]}}
    """
    every = -(-len(line) // MOST_CHANCES)
    percent = [round(100 * chance) for chance in line[::every]]
    parts = range(-(-len(percent) // TOGETHER))
    return {
        "count": len(line),
        "every": every,
        "percent": {str(part): percent[TOGETHER * part : TOGETHER * (part + 1)] for part in parts},
    }


def _newest_line(feed: Mapping[str, Mapping[str, Any]], mask: NameMask) -> Tile:
    if not feed:
        return {}
    line = feed[next(reversed(feed))] if isinstance(feed, dict) else feed[max(feed)]
    shown = {"text": mask.text(str(line["text"]))[:LINE_LENGTH], "priority": line["priority"]}
    return {"line": mask.value(shown | {name: line[name] for name in ("at", "label") if name in line})}


logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Least seconds between two frames."""

RESULT_S: Final = 20.0
"""Seconds that an episode stays on the wall after its end, so that its result is seen."""


@dataclass(slots=True)
class _Shown:
    of: TileOf
    tile: Tile
    until: float | None = None


class Wall:
    """Live episodes of all servers as tiles, for any number of viewers.

    It reads the episodes, and derives missing views, only while it has viewers. It encodes changes once for
    all viewers and keeps no state per viewer: one that missed a change gets the whole wall again.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        names: NameMaskSource,
        others: RemoteEpisodes | None = None,
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
        """Increased by every change."""
        return self._frames.version

    def now(self) -> Frame:
        """Return the frame with every tile, at most :data:`INTERVAL_S` old."""
        if self._task is None:
            self.refresh()
        return self._frames.whole(self._tiles)

    async def look_elsewhere(self) -> None:
        """Follow the episodes of other servers, for :meth:`now` without viewers."""
        if self._others is not None:
            await self._others.follow_all()

    def after(self, version: int) -> Frame:
        """Return what a viewer of ``version`` needs: the last change, or every tile."""
        return self._frames.after(version, self._tiles)

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
        """Update the tiles; returns immediately."""
        changes: dict[str, Any] = {}
        for live in self._on_now():
            shown = self._shown.get(live.episode_id)
            if shown is None:
                self._shown[live.episode_id] = _Shown(TileOf(live), {})
            elif shown.of.live is not live:  # it moved to another server
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
            await self.bring_up_to_date()
            self.refresh()
            if self._frames.change is not None and self.version > before:
                (change,) = wire.batches([self._frames.change])
                await in_turns(self._viewers, partial(Viewer.send_lossy, batch=change))

    async def bring_up_to_date(self) -> None:
        """Derive views without other viewers, so that their tiles are current."""
        await self.look_elsewhere()
        shown = [tile.of.live for tile in self._shown.values()]
        for live in {one.episode_id: one for one in (*self._supervisor.showing(), *shown)}.values():
            try:
                await live.open()
            except EpisodeError:
                logger.exception("cannot update the tile of episode %s", live.episode_id)
