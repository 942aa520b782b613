"""A simulated day of a fleet on a server with few places: however it goes, every place comes free again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.environments.contract import Stepped, Stepper
from spectator.errors import EnvironmentFault, EnvironmentUnavailable, StepTimeout
from spectator.observations import Observation
from spectator.rollouts.environments import PreparedStepper
from spectator.runs.actors import ActorHandle, RecyclingPool
from spectator.runs.interactor import EpisodeResult, InFlight, Interactor
from tests.fakes import ManualClock

PLACES, WORKERS, JOBS = 20, 24, 3_000
RESTART_S = 12 * 3600.0, 12 * 3600.0 + 600


class Server:
    """A server with so many places, which is restarted at noon and does not come back for ten minutes."""

    def __init__(self, clock: ManualClock, rng: random.Random) -> None:
        self.clock, self.rng = clock, rng
        self.taken: set[Session] = set()
        self.most = self.opened = 0

    async def begin(self, session: Session) -> Stepped:
        await self.clock.sleep(self.rng.uniform(0.1, 5.0))
        if RESTART_S[0] <= self.clock.monotonic() < RESTART_S[1]:
            self.taken.clear()
            raise EnvironmentUnavailable("connection refused")
        if len(self.taken) >= PLACES:
            raise EnvironmentUnavailable("no room")
        self.taken.add(session)
        self.opened += 1
        self.most = max(self.most, len(self.taken))
        chance = self.rng.random()
        if chance < 0.03:
            raise EnvironmentUnavailable("lost after it was begun")
        if chance < 0.06:
            raise EnvironmentFault("no such level")
        if chance < 0.08:
            raise StepTimeout("it did not begin in time")
        return Stepped(Observation("agent", (), {}), [], {})


class Session:
    """One stepper of the server; only what a fleet uses."""

    given_up = False

    def __init__(self, server: Server) -> None:
        self.server = server

    async def reset(self, **asked: Any) -> Stepped:
        return await self.server.begin(self)

    async def aclose(self) -> None:
        await self.server.clock.sleep(self.server.rng.uniform(0.0, 2.0))
        self.server.taken.discard(self)


class Day:
    """A run of :data:`JOBS` episodes with all that may go wrong."""

    def __init__(self, seed: int) -> None:
        self.clock, self.rng = ManualClock(), random.Random(seed)
        self.server = Server(self.clock, self.rng)
        self.attempts: Counter[int] = Counter()
        self.over: Counter[int] = Counter()
        self.given_up: list[int] = []
        self.pool = RecyclingPool(
            range(JOBS), self.open, WORKERS, clock=self.clock, rng=self.rng, patience_s=3600.0,
            on_failed=lambda job, error: self.given_up.append(job),
        )  # fmt: skip
        self.interactor = Interactor(
            self.pool, self.play, clock=self.clock, rng=self.rng, again=self.again, startup_jitter_s=2.0
        )

    async def open(self, job: int) -> ActorHandle[int]:
        def make() -> Stepper:
            session: Any = Session(self.server)
            return session  # type: ignore[no-any-return]

        stepper = PreparedStepper(make, self.clock)
        await stepper.make_ready(seed=job, episode_id=f"ep-{job}", options={}, limit_s=60)
        self.attempts[job] += 1
        name = f"ep-{job}-{self.attempts[job]}"
        return ActorHandle("qa", name, None, "http", "http://host", stepper, job, self.attempts[job])

    async def play(self, handle: ActorHandle[int], flight: InFlight) -> EpisodeResult[int]:
        options: Mapping[str, Any] = {}
        began = await handle.stepper.reset(
            seed=handle.job, episode_id=f"ep-{handle.job}", options=options, limit_s=60
        )
        assert not began.observation.done
        await self.clock.sleep(self.rng.uniform(1.0, 1_000.0))
        chance = self.rng.random()
        if chance < 0.05:
            raise EnvironmentFault("the environment failed")
        if chance < 0.06:
            raise ZeroDivisionError("a mistake of ours")
        return EpisodeResult(handle.job, handle.env_id, None, "finished", 1.0, attempt=handle.attempt)

    def again(self, result: EpisodeResult[int]) -> int | None:
        if result.total_reward is not None or self.attempts[result.job] >= 4:
            self.over[result.job] += 1
            return None
        return result.job

    async def pass_time(self) -> None:
        """Let the clock run as soon as everybody waits for it."""
        while True:
            for _ in range(4):
                await asyncio.sleep(0)
            self.clock.advance(4.0)


@pytest.mark.parametrize("end", ["all is played", "it is drained", "it is cancelled"])
async def test_every_place_comes_free_again(end: str) -> None:
    day = Day(seed=7)
    passing = asyncio.create_task(day.pass_time())
    running = asyncio.create_task(day.interactor.run())
    try:
        if end != "all is played":
            while day.clock.monotonic() < RESTART_S[1] + 1000:  # noqa: ASYNC110 - simulated time
                await asyncio.sleep(0)
            if end == "it is drained":
                day.interactor.drain()
            else:
                running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.timeout(60):
                await running
    finally:
        passing.cancel()
    assert day.server.taken == set(), "a place was leaked"
    assert day.server.most == PLACES and day.pool.leased == 0
    assert day.given_up == [], "a restart of ten minutes gives up nothing"
    if end == "all is played":
        assert day.clock.monotonic() > 20 * 3600, "most of a day"
        assert day.over == Counter(range(JOBS)), "every job is over once, and none twice"
        assert any(count > 1 for count in day.attempts.values())
