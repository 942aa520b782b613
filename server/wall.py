"""Owns the wall: everything that runs here as tiles, told at a bounded rate in the same bytes to all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spectator.clock import Clock, timestamp
from spectator.episodes.live import LiveEpisode
from spectator.episodes.supervisor import Supervisor
from spectator.events import encode_json
from spectator.merge_patch import make_patch

INTERVAL_S: Final = 0.25
"""Least time between two frames."""

AFTERGLOW_S: Final = 20.0
"""How long an episode stays on the wall after its end, so that its result is seen."""

LINE_LENGTH: Final = 160
"""Characters of the newest line of commentary, and of the headline, that a tile shows."""

Tile = dict[str, Any]


@dataclass(slots=True)
class _Shown:
    live: LiveEpisode
    tile: Tile
    until: float | None = None


class Wall:
    """What runs here, as tiles, for any number of viewers.

    It looks at the episodes only while somebody looks at it, encodes what has changed once for all, and
    keeps nothing for anybody: who has missed a change is given the whole wall again.

    Args:
        supervisor: Who runs the episodes.
        clock: Time.
        tasks: The group that it looks in.
    """

    def __init__(self, supervisor: Supervisor, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self.version = 0
        """Raised by every change."""
        self._supervisor = supervisor
        self._clock = clock
        self._tasks = tasks
        self._shown: dict[str, _Shown] = {}
        self._change = ""
        self._whole = ""
        self._changed = asyncio.Event()
        self._looking = 0
        self._task: asyncio.Task[None] | None = None

    def whole(self) -> str:
        """The frame with every tile, encoded once for all who ask between two changes."""
        if not self._whole:
            self._whole = self._frame("wall", {name: shown.tile for name, shown in self._shown.items()})
        return self._whole

    async def next_after(self, version: int | None) -> str:
        """Wait until there is something newer than ``version``; the change alone where that is enough.

        Args:
            version: What the viewer has; ``None`` when it has nothing.
        """
        if version is None:
            return self.whole()
        while self.version == version:
            await self._changed.wait()
        return self._change if self.version == version + 1 else self.whole()

    def enter(self) -> None:
        """Somebody looks."""
        self._looking += 1
        if self._task is None:
            self.look()
            self._task = self._tasks.create_task(self._keep_looking(), name="wall")

    def leave(self) -> None:
        """Somebody looks no more."""
        self._looking -= 1
        if self._looking == 0 and self._task is not None:
            self._task.cancel()
            self._task = None

    def look(self) -> None:
        """Take in what has happened since the last look; returns at once."""
        changes: dict[str, Any] = {}
        for live in self._supervisor.showing():
            if live.episode_id not in self._shown and live.head_seq:
                self._shown[live.episode_id] = _Shown(live, {})
        for name, shown in tuple(self._shown.items()):
            tile = _tile(shown.live)
            if tile != shown.tile:
                changes[name] = make_patch(shown.tile, tile)
                shown.tile = tile
            if self._is_gone(shown):
                changes[name] = None
                del self._shown[name]
        if changes:
            self._tell(changes)

    def _is_gone(self, shown: _Shown) -> bool:
        if self._supervisor.live(shown.live.episode_id) is not None:
            return False
        now = self._clock.monotonic()
        if shown.until is None:
            shown.until = now + (AFTERGLOW_S if shown.live.ended else 0.0)
        return now >= shown.until

    def _tell(self, changes: Mapping[str, Any]) -> None:
        self.version += 1
        self._change, self._whole = self._frame("wall.changed", changes), ""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _frame(self, name: str, tiles: Mapping[str, Any]) -> str:
        return encode_json({"frame": name, "version": self.version, "tiles": tiles})

    async def _keep_looking(self) -> None:
        while True:
            await self._clock.sleep(INTERVAL_S)
            self.look()


def _tile(live: LiveEpisode) -> Tile:
    """An episode as a tile shows it; without ``None``, so that changes travel as merge patches."""
    state = live.state
    episode, world = state["episode"], state.get("world", {})
    glance = world.get("glance")
    tile: Tile = {
        "environment": episode["environment"],
        "title": episode["title"],
        "seats": [seat["label"] for seat in episode["seats"].values()],
        "seed": episode["seed"],
        "started_at": timestamp(live.started_at),
        "status": episode["status"],
        "pace": episode["pace"],
        "turn": live.turn,
        "headline": str(world.get("headline", ""))[:LINE_LENGTH],
    }
    if isinstance(glance, Mapping):
        tile["glance"] = dict(glance)
    if "parent" in episode:
        tile["parent"] = episode["parent"]["episode_id"]
    if "reason" in episode:
        tile["reason"] = episode["reason"]
    return tile | _newest_line(state.get("feed", {}))


def _newest_line(feed: Mapping[str, Mapping[str, Any]]) -> Tile:
    if not feed:
        return {}
    line = feed[next(reversed(feed))] if isinstance(feed, dict) else feed[max(feed)]
    shown = {"text": str(line["text"])[:LINE_LENGTH], "priority": line["priority"]}
    return {"line": shown | {name: line[name] for name in ("at", "label") if name in line}}
