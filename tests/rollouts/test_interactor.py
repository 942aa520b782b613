"""The interactor: every job comes to a result, failures end nothing but themselves, nothing is left open."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from spectator.errors import EnvironmentFault, JournalUnavailable
from spectator.runs.actors import ActorHandle, RecyclingPool
from spectator.runs.interactor import EpisodeResult, InFlight, Interactor
from tests.fakes import ManualClock, until
from tests.rollouts.steppers import ClosingStepper

Handle = ActorHandle[int]
Result = EpisodeResult[int]


def result(handle: Handle, reward: float | None = 1.0, **changes: Any) -> Result:
    return EpisodeResult(handle.job, handle.env_id, None, "finished", reward, **changes)


class Fleet:
    """A pool of so many jobs, and what became of them."""

    def __init__(self, jobs: int, size: int = 4) -> None:
        self.clock = ManualClock()
        self.steppers: list[ClosingStepper] = []
        self.attempts = 0
        self.pool = RecyclingPool(
            range(jobs), self.make, size, clock=self.clock, on_failed=lambda job, error: None
        )

    async def make(self, job: int) -> Handle:
        self.attempts += 1
        stepper = ClosingStepper()
        self.steppers.append(stepper)
        return ActorHandle("counting", f"ep-{self.attempts}", None, "inproc", None, stepper, job)

    def interactor(self, play: Any, **changes: Any) -> Interactor[int]:
        settings: dict[str, Any] = {"clock": self.clock, "rng": random.Random(1), "startup_jitter_s": 0.0}
        return Interactor(self.pool, play, **{**settings, **changes})

    def closed(self) -> bool:
        return all(stepper.closed == 1 for stepper in self.steppers)


async def test_every_job_is_played_once_by_at_most_so_many_workers() -> None:
    fleet, most = Fleet(30), 0

    async def play(handle: Handle, flight: InFlight) -> Result:
        nonlocal most
        most = max(most, len(interactor.in_flight))
        await asyncio.sleep(0)
        return result(handle, float(handle.job))

    heard: list[Result] = []
    interactor = fleet.interactor(play, max_workers=3, on_result=heard.append)
    report = await interactor.run()
    assert sorted(one.job for one in report.results) == list(range(30))
    assert (report.succeeded, most, interactor.in_flight) == (True, 3, [])
    assert heard == list(report.results)
    assert fleet.closed()


async def test_an_episode_that_fails_is_a_result_and_ends_nothing_else() -> None:
    fleet = Fleet(10)

    async def play(handle: Handle, flight: InFlight) -> Result:
        if handle.job == 3:
            raise EnvironmentFault("it broke")
        if handle.job == 4:
            raise JournalUnavailable("the disk is full")
        return result(handle)

    report = await fleet.interactor(play).run()
    failed = {one.job: one.failure_class for one in report.results if one.total_reward is None}
    assert failed == {3: "env_infra", 4: "journal"}
    assert len(report.results) == 10
    assert not report.succeeded
    assert fleet.closed()


async def test_another_attempt_has_an_id_and_a_result_of_its_own() -> None:
    fleet = Fleet(5)
    seen: list[int] = []

    async def play(handle: Handle, flight: InFlight) -> Result:
        seen.append(handle.job)
        failed = handle.job == 2 and seen.count(2) < 3
        return result(handle, None if failed else 1.0, failure_class="model_infra" if failed else None)

    report = await fleet.interactor(
        play, again=lambda one: one.job if one.failure_class is not None else None
    ).run()
    assert seen.count(2) == 3
    assert [one.again for one in report.results if one.job == 2] == [True, True, False]
    assert len({one.episode_id for one in report.results}) == 7
    assert report.succeeded


async def test_draining_finishes_what_is_played_and_takes_no_more() -> None:
    fleet, gate = Fleet(20), asyncio.Event()

    async def play(handle: Handle, flight: InFlight) -> Result:
        await gate.wait()
        return result(handle)

    interactor = fleet.interactor(play)
    running = asyncio.create_task(interactor.run())
    await until(lambda: len(interactor.in_flight) == 4)
    interactor.drain()
    gate.set()
    report = await running
    assert len(report.results) == 4
    assert (report.drained, report.succeeded) == (True, False)
    assert fleet.closed()


async def test_cancelling_lets_go_of_everything() -> None:
    fleet, cancelled = Fleet(20), 0

    async def play(handle: Handle, flight: InFlight) -> Result:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return result(handle)

    interactor = fleet.interactor(play)
    running = asyncio.create_task(interactor.run())
    await until(lambda: len(interactor.in_flight) == 4)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cancelled == 4
    assert interactor.in_flight == []
    assert fleet.closed()


async def test_first_episodes_are_spread_over_the_jitter() -> None:
    fleet, began = Fleet(8), []

    async def play(handle: Handle, flight: InFlight) -> Result:
        began.append(fleet.clock.monotonic())
        await asyncio.sleep(0)
        return result(handle)

    running = asyncio.create_task(fleet.interactor(play, startup_jitter_s=2.0).run())
    await until(lambda: fleet.clock.sleepers == 4)
    assert began == []
    for _ in range(40):
        fleet.clock.advance(0.05)
        for _ in range(20):
            await asyncio.sleep(0)
    await running
    assert 0 < began[0] <= 2.0


async def test_a_programmers_error_ends_its_own_episode_and_is_not_hidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet(3)

    async def play(handle: Handle, flight: InFlight) -> Result:
        if handle.job == 1:
            raise ZeroDivisionError("sides of a point")
        return result(handle)

    report = await fleet.interactor(play).run()
    assert fleet.closed()
    (failed,) = [one for one in report.results if one.failure_class is not None]
    assert (failed.job, failed.failure_class, failed.end_reason) == (1, "unknown", None)
    assert failed.detail == "ZeroDivisionError: sides of a point"
    assert not report.succeeded
    assert "Traceback" in caplog.text, "with all that finds the mistake"
