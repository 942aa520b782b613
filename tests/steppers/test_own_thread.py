"""An environment lives on one thread, answers in time or is given up, and leaves no thread behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from spectator.errors import EnvironmentFault, StepTimeout
from spectator.steppers.local import OwnThread
from tests.fakes import until


class World:
    """Remembers which thread did what."""

    def __init__(self) -> None:
        self.threads = [threading.get_ident()]

    def note(self, value: int = 0, *, plus: int = 0) -> int:
        self.threads.append(threading.get_ident())
        return value + plus


def threads_called(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


async def test_everything_happens_on_one_thread_that_is_not_the_loops() -> None:
    stepper = OwnThread(World)
    assert await stepper.call_within(None, World.note, 4, plus=3) == 7
    assert await stepper.call_within(5, World.note, 1) == 1
    answers = await asyncio.gather(*(stepper.call_within(None, World.note, number) for number in range(50)))
    assert answers == list(range(50)), "answers were mixed up"
    threads = await stepper.call_within(None, lambda world: set(world.threads))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}
    stepper.close()


async def test_a_call_that_misses_its_deadline_gives_the_environment_up() -> None:
    gate = threading.Event()
    calls: list[str] = []

    def hang(world: World) -> None:
        calls.append("hang")
        gate.wait(20)

    stepper = OwnThread(World, name="test-deadline")
    queued = asyncio.get_running_loop().create_task(stepper.call_within(0.05, hang))
    await until(lambda: bool(calls))
    behind = asyncio.get_running_loop().create_task(
        stepper.call_within(None, lambda world: calls.append("behind"))
    )
    with pytest.raises(StepTimeout, match=r"did not answer within 0\.05 s"):
        await queued
    assert stepper.given_up
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        await stepper.call_within(None, World.note)
    gate.set()
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        await behind
    await until(lambda: not threads_called("test-deadline"), what="the end of the thread")
    assert calls == ["hang"], "an environment was called after it was given up"


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), TimeoutError("mine"), MemoryError()])
async def test_an_exception_is_carried_untouched(error: Exception) -> None:
    def fail(world: World) -> None:
        raise error

    stepper = OwnThread(World)
    with pytest.raises(type(error)) as caught:
        await stepper.call_within(5, fail)
    assert caught.value is error
    assert not stepper.given_up
    assert await stepper.call_within(None, World.note, 1) == 1, "and the environment lives on"
    stepper.close()


@pytest.mark.parametrize(
    "error",
    [StopIteration("x"), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), GeneratorExit()],
)
async def test_what_would_end_the_loop_becomes_a_fault(error: BaseException) -> None:
    def fail(world: World) -> None:
        raise error

    stepper = OwnThread(World)
    with pytest.raises(EnvironmentFault, match=type(error).__name__):
        await stepper.call_within(None, fail)
    assert await stepper.call_within(None, World.note, 1) == 1
    stepper.close()


async def test_a_factory_that_fails_is_carried_and_asked_again() -> None:
    attempts: list[int] = []

    def build() -> World:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no data")
        return World()

    stepper = OwnThread(build)
    assert not attempts, "nothing is built before it is needed"
    with pytest.raises(OSError, match="no data"):
        await stepper.call_within(None, World.note)
    assert await stepper.call_within(None, World.note, 2) == 2
    stepper.close()


def test_closing_lets_the_environment_go() -> None:
    async def scenario() -> None:
        stepper = OwnThread(World, name="test-close")
        world = await stepper.call_within(None, weakref.ref)
        stepper.close()
        stepper.close()
        await until(lambda: not threads_called("test-close"), what="the end of the thread")
        gc.collect()
        assert world() is None
        with pytest.raises(EnvironmentFault):
            await stepper.call_within(None, World.note)

    asyncio.run(scenario())


async def test_a_caller_that_goes_away_loses_only_its_answer() -> None:
    gate = threading.Event()
    began: list[int] = []

    def slow(world: World) -> int:
        began.append(1)
        gate.wait(20)
        return 1

    stepper = OwnThread(World)
    task = asyncio.get_running_loop().create_task(stepper.call_within(None, slow))
    await until(lambda: bool(began))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await stepper.call_within(None, World.note, 5) == 5
    stepper.close()


def test_a_loop_that_closes_during_a_call_ends_the_thread_and_other_loops_are_told() -> None:
    gate, began = threading.Event(), threading.Event()
    kept: list[OwnThread[World]] = []

    def slow(world: World) -> None:
        began.set()
        gate.wait(20)

    async def abandon() -> None:
        kept.append(OwnThread(World, name="test-loop"))
        task = asyncio.get_running_loop().create_task(kept[0].call_within(None, slow))
        await until(began.is_set)
        task.cancel()

    asyncio.run(abandon())
    gate.set()
    for thread in threads_called("test-loop"):
        thread.join(5)
    assert not threads_called("test-loop")
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        asyncio.run(kept[0].call_within(None, World.note))


def test_a_thousand_steppers_leave_no_thread() -> None:
    async def scenario(use: Callable[[OwnThread[World]], Any]) -> None:
        before = threading.active_count()
        for _ in range(10):
            steppers = [OwnThread(World, name="test-many") for _ in range(100)]
            await asyncio.gather(*(use(stepper) for stepper in steppers))
            for stepper in steppers:
                stepper.close()
        await until(lambda: not threads_called("test-many"), what="the end of every thread")
        assert threading.active_count() <= before

    asyncio.run(scenario(lambda stepper: stepper.call_within(None, World.note)))
