"""Limits of time: each task has its own, though one timer serves all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from spectator.llm.time_limits import TimeLimit, TimeLimits

SOON_S, LATER_S, NEVER_S = 0.01, 0.03, 600.0


async def stay(limits: TimeLimits, seconds: float) -> str:
    try:
        with TimeLimit(limits, seconds) as limit:
            await asyncio.Event().wait()
    except TimeoutError:
        assert limit.expired
        return "late"
    return "never"


def test_each_ends_at_its_own_limit_whatever_the_order() -> None:
    async def run() -> None:
        limits = TimeLimits()
        ended: list[float] = []

        async def note(seconds: float) -> None:
            assert await stay(limits, seconds) == "late"
            ended.append(seconds)

        longest = asyncio.create_task(note(NEVER_S))
        await asyncio.gather(*(note(seconds) for seconds in (LATER_S, SOON_S, 0.0, -1.0)))
        assert ended[2:] == [SOON_S, LATER_S] and sorted(ended[:2]) == [-1.0, 0.0]
        assert not longest.done()
        longest.cancel()
        with pytest.raises(asyncio.CancelledError):
            await longest

    asyncio.run(run())


def test_what_ends_in_time_is_left_alone_afterwards() -> None:
    async def run() -> None:
        limits = TimeLimits()
        with TimeLimit(limits, SOON_S) as limit:
            await asyncio.sleep(0)
        assert await stay(limits, LATER_S) == "late"
        assert not limit.expired

    asyncio.run(run())


def test_many_limits_of_a_length_take_one_timer() -> None:
    async def run() -> None:
        loop, timers = asyncio.get_running_loop(), []
        call_at = loop.call_at

        def counting(when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
            timers.append(when)
            return call_at(when, *rest, **more)

        limits = TimeLimits()
        loop.call_at = counting  # type: ignore[method-assign, assignment]
        for _ in range(100):
            with TimeLimit(limits, NEVER_S):
                await asyncio.sleep(0)
        assert len(timers) == 1

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [0.0, NEVER_S])
def test_a_cancellation_from_outside_stays_one(seconds: float) -> None:
    async def run() -> None:
        task = asyncio.create_task(stay(TimeLimits(), seconds))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_an_error_of_the_task_is_not_hidden_by_its_limit() -> None:
    async def run() -> None:
        with pytest.raises(KeyError), TimeLimit(TimeLimits(), 0.0):
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError("mine")
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    asyncio.run(run())


def test_an_inner_limit_leaves_the_outer_one_in_force() -> None:
    async def run() -> None:
        limits = TimeLimits()
        with pytest.raises(TimeoutError), TimeLimit(limits, LATER_S) as outer:
            assert await stay(limits, SOON_S) == "late"
            assert not outer.expired
            await asyncio.Event().wait()
        assert outer.expired

    asyncio.run(run())


def test_closing_takes_no_limit_from_who_is_under_way() -> None:
    async def run() -> None:
        limits = TimeLimits()
        task = asyncio.create_task(stay(limits, SOON_S))
        await asyncio.sleep(0)
        limits.close()
        assert await task == "late"
        limits.close()

    asyncio.run(run())


def test_a_new_loop_owes_nothing_to_one_that_stopped_in_the_middle() -> None:
    limits, abandoned = TimeLimits(), asyncio.new_event_loop()

    def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, str]) -> str:
        return loop.run_until_complete(work)

    async def leave_behind() -> str:
        kept.append(asyncio.ensure_future(stay(limits, 2 * SOON_S)))
        await asyncio.sleep(0)
        return "left"

    kept: list[asyncio.Future[str]] = []
    assert run_in(abandoned, leave_behind()) == "left"
    assert asyncio.run(stay(limits, LATER_S)) == "late"
    kept[0].cancel()
    abandoned.run_until_complete(asyncio.gather(*kept, return_exceptions=True))
    abandoned.close()
