"""Viewers that leave at random, reconnect as the page does, to any server, and keep every frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence
from typing import Final

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.nemesis.checker import ShownFrame, ViewerHistory

LOST_CONNECTION: Final = (OSError, WebSocketException, TimeoutError)
"""Errors that a viewer sees when its server dies."""

STAY_S: Final = (0.3, 6.0)
"""Shortest and longest time of a connection; then a viewer leaves, as if its network changed."""

FINAL: Final = frozenset({4001, 4003, 4400, 4500})
"""Close codes after which a page does not reconnect."""

KEPT: Final = frozenset({"hello", "snapshot", "event", "trouble", "bye", "lost"})
"""Frames of the history."""


class NemesisViewer:
    """A viewer of one episode.

    Args:
        name: Name of the viewer.
        bases: Addresses of the servers.
        episode_id: The episode.
        chance: Draws its servers and its waits.
    """

    def __init__(self, name: str, bases: Sequence[str], episode_id: str, chance: random.Random) -> None:
        self.history = ViewerHistory(name, episode_id)
        self.steps = 0
        """Steps seen."""
        self.over = False
        """Whether the episode's end was shown, or a page would not reconnect."""
        self._bases = bases
        self._chance = chance
        self._position: tuple[str, int] | None = None
        self._connections = 0

    async def follow(self) -> None:
        """Watch until the end of the episode."""
        while not self.over:
            with contextlib.suppress(*LOST_CONNECTION):
                await self._watch(self._chance.choice(self._bases))
            await asyncio.sleep(self._chance.uniform(0.05, 0.4))

    async def _watch(self, base: str) -> None:
        query = "?epoch={}&seq={}".format(*self._position) if self._position else ""
        url = f"ws{base[4:]}/live/{self.history.episode_id}{query}"
        async with connect(
            url, compression=None, max_size=None, open_timeout=10, close_timeout=0.2, proxy=None
        ) as socket:
            self._connections += 1
            async with asyncio.timeout(self._chance.uniform(*STAY_S)):
                while True:
                    self._take(str(await socket.recv()))

    def _take(self, text: str) -> None:
        frame = json.loads(text)
        if frame["frame"] in KEPT:
            self.history.frames.append(ShownFrame(self._connections, text))
        match frame["frame"]:
            case "snapshot":
                self._position = frame["epoch"], frame["seq"]
            case "event":
                self._position = frame["epoch"], frame["seq"]
                self.steps += frame["type"] == "step.taken"
            case "bye":
                self.over = self.over or frame["code"] == 1000 or frame["code"] in FINAL
