"""What breaks within a worker of a shared run ends it with a reason, and never leaves it waiting."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Mapping
from typing import Any, cast

from spectator.clock import SystemClock
from spectator.errors import JournalError
from spectator.runs.interactor import RunState
from spectator.runs.leased_log import Heartbeat
from spectator.runs.remaining_episodes import LONGEST_PAUSE_S, PAUSE_S, RemainingEpisodes
from spectator.runs.run_plan import RunPlan
from spectator.runs.scheduler import LeasePool
from tests.fakes import ManualClock


class Breaking:
    """Remaining work, which breaks when some of it is taken."""

    over, busy, ahead, pause_s = False, 0, 0, 1.0

    def __init__(self, error: Exception) -> None:
        self.freed, self.renewed, self.idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._error = error

    async def take(self, limit: int) -> list[Any]:
        raise self._error


class Player:
    def __init__(self) -> None:
        self.halt = self
        self.reasons: list[str] = []

    def because(self, reason: str) -> None:
        self.reasons.append(reason)

    async def open(self, attempt: Any) -> Any:
        raise AssertionError(attempt)


def reasons_for(error: Exception) -> list[str]:
    async def scenario() -> list[str]:
        player = Player()
        remaining, state = cast(Any, Breaking(error)), RunState(1, 0, 0.0)
        pool = LeasePool(2, remaining, cast(Any, player), ManualClock(), random.Random(1), state, 9.0)
        await pool.start()
        assert await asyncio.wait_for(pool.acquire(), 10) is None
        await pool.aclose()
        return player.reasons

    return asyncio.run(scenario())


def test_a_run_whose_taking_breaks_halts_with_the_reason() -> None:
    assert reasons_for(JournalError("the database is away")) == ["the database is away"]
    assert reasons_for(KeyError("number")) == ["the run's episodes could not be taken: KeyError: 'number'"]


class Leases:
    """Breaks at the first beat, and hears of more."""

    def __init__(self) -> None:
        self.beats = 0
        self.heard_again = threading.Event()

    async def beat(self, **_: Any) -> Mapping[str, int]:
        self.beats += 1
        if self.beats == 1:
            raise RuntimeError("a bug")
        if self.beats > 2:
            self.heard_again.set()
        return {}


def test_the_heartbeat_goes_on_after_one_beat_that_broke() -> None:
    leases = Leases()
    with Heartbeat(cast(Any, leases), SystemClock(), interval_s=0.001):
        assert leases.heard_again.wait(10)


class Slow:
    """A record in which nothing remains, and which takes ``takes_s`` to say so."""

    def __init__(self, clock: ManualClock, takes_s: float) -> None:
        self._clock = clock
        self._takes_s = takes_s

    async def patiently(self, work: Any) -> Any:
        self._clock.advance(self._takes_s)
        return type("Due", (), {"over": {}, "remaining": (), "failed": {}})()


def test_a_look_that_waited_for_the_database_is_soon_followed_by_another() -> None:
    async def pause_after(takes_s: float) -> float:
        clock = ManualClock()
        state = cast(Any, type("State", (), {})())
        remaining = RemainingEpisodes(
            RunPlan((), 0, "first"),
            cast(Any, None),
            cast(Any, None),
            cast(Any, Slow(clock, takes_s)),
            state,
            clock,
        )
        await remaining.look()
        return remaining.pause_s

    assert asyncio.run(pause_after(0.01)) == PAUSE_S
    assert asyncio.run(pause_after(2.0)) == 20.0
    assert asyncio.run(pause_after(60.0)) == LONGEST_PAUSE_S
