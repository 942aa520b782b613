"""Actors: never two episodes in one, never a lost slot, exhausted only when nothing can come back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from spectator.errors import ConfigurationError, EnvironmentFault, SpectatorError
from spectator.runs.actors import ActorHandle, RecyclingPool
from tests.fakes import ManualClock, until
from tests.rollouts.steppers import ClosingStepper


def actor(job: int, stepper: Any = None, **changes: Any) -> ActorHandle[int]:
    values: dict[str, Any] = {
        "env_name": "counting", "env_id": f"ep-{job}", "group_id": None, "transport": "inproc",
        "base_url": None, "stepper": stepper or ClosingStepper(), "job": job,
    }  # fmt: skip
    return ActorHandle(**{**values, **changes})


def failed_into(failed: list[int]) -> Callable[[int, SpectatorError], None]:
    return lambda job, error: failed.append(job)


async def test_every_job_is_handed_out_once_and_its_actor_is_closed() -> None:
    made: list[ActorHandle[int]] = []
    most = 0

    async def make(job: int) -> ActorHandle[int]:
        await asyncio.sleep(0)
        made.append(actor(job))
        return made[-1]

    pool = RecyclingPool(range(50), make, 4, clock=ManualClock(), on_failed=failed_into([]))
    await pool.start()
    played: list[int] = []

    async def work() -> None:
        nonlocal most
        while (handle := await pool.acquire()) is not None:
            most = max(most, len(made) - sum(one.stepper.closed for one in made))  # type: ignore[attr-defined]
            played.append(handle.job)
            await asyncio.sleep(0)
            await pool.done(handle)

    await asyncio.gather(*(work() for _ in range(4)))
    await pool.aclose()
    assert sorted(played) == list(range(50))
    assert all(one.stepper.closed == 1 for one in made)  # type: ignore[attr-defined]
    assert most <= 5 + 4, "size and spares, and those that are being closed"


async def test_the_last_lease_may_bring_something_back() -> None:
    async def make(job: int) -> ActorHandle[int]:
        return actor(job)

    pool = RecyclingPool([1], make, 2, clock=ManualClock(), on_failed=failed_into([]))
    await pool.start()
    first = await pool.acquire()
    assert first is not None
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0.001)
    assert not waiting.done(), "a leased actor may still ask for another attempt"
    await pool.done(first, again=2)
    second = await waiting
    assert second is not None and second.job == 2
    await pool.done(second)
    await pool.done(second)
    assert await pool.acquire() is None


async def test_a_failing_start_is_tried_again_and_then_given_up() -> None:
    clock = ManualClock()
    tried: list[int] = []
    failed: list[int] = []

    async def make(job: int) -> ActorHandle[int]:
        tried.append(job)
        if job == 1 or (job == 2 and tried.count(2) < 3):
            raise EnvironmentFault("no room")
        return actor(job)

    pool = RecyclingPool([1, 2, 3], make, 3, clock=clock, on_failed=failed_into(failed))
    await pool.start()
    handles = []
    getting = asyncio.create_task(pool.acquire())
    for _ in range(3):
        await until(lambda: clock.sleepers > 0 or bool(failed))
        clock.advance(1.0)
        await asyncio.sleep(0.001)
    handles.append(await getting)
    handles.append(await pool.acquire())
    assert sorted(handle.job for handle in handles if handle) == [2, 3]
    assert (failed, tried.count(1), tried.count(2)) == ([1], 3, 3)
    for handle in handles:
        assert handle is not None
        await pool.done(handle)
    assert await pool.acquire() is None


async def test_a_start_that_breaks_is_reported_and_no_slot_is_lost() -> None:
    told: list[str] = []

    async def make(job: int) -> ActorHandle[int]:
        if job < 9:
            raise OSError("no file left to open")
        return actor(job)

    pool = RecyclingPool(
        range(1, 10), make, 2, clock=ManualClock(), on_failed=lambda job, error: told.append(str(error))
    )
    await pool.start()
    made = await pool.acquire()
    assert made is not None and made.job == 9
    assert told == ["OSError: no file left to open"] * 8
    await pool.done(made)
    assert await pool.acquire() is None


async def test_closing_wakes_who_waits_and_leaves_nothing_open() -> None:
    made: list[ActorHandle[int]] = []
    held = asyncio.Event()

    async def make(job: int) -> ActorHandle[int]:
        if job > 2:
            await held.wait()
        made.append(actor(job))
        return made[-1]

    pool = RecyclingPool(range(1, 9), make, 4, clock=ManualClock(), on_failed=failed_into([]))
    await pool.start()
    leased = [await pool.acquire(), await pool.acquire()]
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    await pool.aclose()
    assert await waiting is None
    assert all(one.stepper.closed == 1 for one in made)  # type: ignore[attr-defined]
    for handle in leased:
        assert handle is not None
        await pool.done(handle)
    assert await pool.acquire() is None


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_leaks_whatever_fails(seed: int) -> None:
    rng, clock = random.Random(seed), ManualClock()
    failed: list[int] = []
    played: list[int] = []

    async def make(job: int) -> ActorHandle[int]:
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        if rng.random() < 0.3:
            raise EnvironmentFault("no room")
        return actor(job)

    pool = RecyclingPool(range(60), make, 5, clock=clock, on_failed=failed_into(failed))
    await pool.start()

    async def work() -> None:
        while (handle := await pool.acquire()) is not None:
            await asyncio.sleep(0)
            again = handle.job + 100 if handle.job < 60 and rng.random() < 0.2 else None
            played.append(handle.job)
            await pool.done(handle, again=again)

    async def tick() -> None:
        while True:
            clock.advance(1.0)
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    async with asyncio.timeout(20):
        await asyncio.gather(*(work() for _ in range(5)))
    ticking.cancel()
    assert pool.leased == 0
    assert sorted(job for job in [*played, *failed] if job < 60) == list(range(60))


def test_an_address_is_base_name_id_operation() -> None:
    handle = actor(3, transport="http", base_url="http://localhost:36663/")
    assert handle.url("step") == "http://localhost:36663/counting/ep-3/step"
    with pytest.raises(ConfigurationError, match="no address"):
        actor(3).url("step")


@pytest.mark.parametrize("wrong", [{"size": 0}, {"spare_factor": 0.5}, {"startup_concurrency": 0}])
def test_wrong_figures_are_refused(wrong: dict[str, Any]) -> None:
    async def make(job: int) -> ActorHandle[int]:
        return actor(job)

    figures = {"size": 1, **wrong}
    with pytest.raises(ValueError, match="at least 1"):
        RecyclingPool(
            [], make, figures.pop("size"), clock=ManualClock(), on_failed=failed_into([]), **figures
        )
