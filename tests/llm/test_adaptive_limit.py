"""The adaptive limit: it grows by success, is cut by refusals, and serves in order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from spectator.llm.rate_limits import AdaptiveLimit
from tests.fakes import ManualClock


async def test_a_full_round_of_successes_adds_one_place() -> None:
    limit = AdaptiveLimit(ManualClock(), start=4, highest=6)
    for _ in range(4):
        await limit.acquire()
    for _ in range(5):
        limit.succeeded()
    assert limit.places == 5
    for _ in range(50):
        limit.succeeded()
    assert limit.places == 6, "never above the highest"


async def test_an_idle_limit_does_not_grow() -> None:
    limit = AdaptiveLimit(ManualClock(), start=8)
    await limit.acquire()
    for _ in range(100):
        limit.succeeded()
    assert limit.places == 8


def test_one_overload_cuts_once_however_many_it_refuses() -> None:
    clock = ManualClock()
    limit = AdaptiveLimit(clock, start=32, lowest=3)
    for _ in range(10):
        limit.refused()
    assert limit.places == 16
    for expected in (8, 4, 3, 3):
        clock.advance(1.0)
        limit.refused()
        assert limit.places == expected


async def test_waiters_are_served_in_order_and_a_cut_makes_them_wait() -> None:
    limit = AdaptiveLimit(ManualClock(), start=2)
    served: list[int] = []

    async def take(number: int) -> None:
        await limit.acquire()
        served.append(number)

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await asyncio.sleep(0)
    assert served == [0, 1]
    limit.refused()
    limit.release()
    await asyncio.sleep(0)
    assert served == [0, 1], "one place is left and it is taken"
    limit.release()
    await asyncio.sleep(0)
    assert served == [0, 1, 2]
    limit.release()
    await asyncio.gather(*tasks)
    assert served == [0, 1, 2, 3]


def test_no_place_leaks_however_waiters_are_cancelled() -> None:
    async def scenario(seed: int) -> None:
        rng = random.Random(seed)
        limit = AdaptiveLimit(ManualClock(), start=3)

        async def use() -> None:
            await limit.acquire()
            try:
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                limit.release()

        tasks = [asyncio.create_task(use()) for _ in range(40)]
        for task in tasks:
            if rng.random() < 0.5:
                await asyncio.sleep(0)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.taken == 0
        await limit.acquire()

    for seed in range(50):
        asyncio.run(scenario(seed))


async def test_who_gives_up_while_a_place_comes_free_is_cancelled_and_nothing_else() -> None:
    limit = AdaptiveLimit(ManualClock(), start=1)
    await limit.acquire()
    waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    limit.release()  # before it could leave the queue
    waiting[1].cancel()  # just as it was given the place
    for task in waiting[:2]:
        with pytest.raises(asyncio.CancelledError):
            await task
    await waiting[2]
    assert limit.taken == 1 and limit.locked()
    limit.release()
    assert limit.taken == 0 and not limit.locked()


@pytest.mark.parametrize("wrong", [{"lowest": 0}, {"start": 0}, {"start": 9, "highest": 8}])
def test_wrong_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="lowest <= start <= highest"):
        AdaptiveLimit(ManualClock(), **wrong)


async def test_a_slow_start_doubles_each_round_until_the_first_refusal() -> None:
    clock = ManualClock()
    limit = AdaptiveLimit(clock, start=4, highest=64, slow_start=True)

    async def full_round() -> None:
        taken = limit.places
        for _ in range(taken):
            await limit.acquire()
        for _ in range(taken):
            limit.succeeded()
            limit.release()

    for expected in (6, 9):  # the last half of a round no longer shows that the limit is used
        await full_round()
        assert limit.places >= expected
    before = limit.places
    limit.refused()
    assert limit.places == before // 2
    await full_round()
    assert limit.places <= before // 2 + 1
