"""A board of what is recorded elsewhere is looked at while somebody watches, and then let go."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from server.viewers.boards import INTERVAL_S, SHARE, BoardPoller, PolledBoard
from server.viewers.viewer import Viewer
from spectator.clock import Clock
from tests.fakes import ManualClock, until
from tests.server.playing import Names


class Counter(PolledBoard):
    """Counts how often it is looked at; a look takes as long as it is told to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("count", {}, cast(Clock, clock), Names())
        self.manual = clock
        self.takes_s = 0.0

    async def _take(self) -> None:
        self.manual.advance(self.takes_s)
        self._draw({"looks": self.picture.get("looks", 0) + 1})


async def test_it_is_looked_at_until_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, viewer, over = ManualClock(), cast(Viewer, object()), asyncio.Event()
    sent: list[Any] = []
    monkeypatch.setattr(Viewer, "send_lossy", lambda one, batch: sent.append(one))
    async with asyncio.TaskGroup() as tasks:
        lookouts, board = BoardPoller(cast(Clock, clock), tasks), Counter(clock)
        board.add(viewer)
        for _ in range(2):
            lookouts.keep_up(board, over.set)
        await until(lambda: clock.sleepers == 1)
        clock.advance(INTERVAL_S)
        await until(lambda: board.picture == {"looks": 1} and sent == [viewer])
        await board.look()
        assert board.version == 1, "that was done a moment ago"
        board.discard(viewer)
        await until(lambda: clock.sleepers == 1)
        clock.advance(INTERVAL_S)
        await until(over.is_set)
    looks = board.picture["looks"]
    clock.advance(10 * INTERVAL_S)
    assert board.picture["looks"] == looks <= 2


async def test_a_look_that_took_long_is_followed_by_a_longer_pause() -> None:
    board = Counter(ManualClock())
    board.takes_s = 0.4
    await board.look()
    assert board.pause_s == pytest.approx(0.4 / SHARE)
