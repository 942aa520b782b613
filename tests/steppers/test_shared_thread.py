"""Many objects on one thread: one call at a time each, deadlines, and nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spectator.errors import EnvironmentFault, StepTimeout
from spectator.steppers.shared_thread import SharedThread
from tests.fakes import until


def called(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def note(held: list[int], value: int = 0) -> int:
    held.append(threading.get_ident())
    return value


async def test_many_objects_are_called_in_order_on_one_thread_that_ends_with_the_last() -> None:
    shared = SharedThread(name="shared-many", patience_s=0.005)
    held = [shared.hold(list[int]) for _ in range(20)]
    calls = [one.call_within(30, note, number) for number, one in enumerate(held * 10)]
    assert await asyncio.gather(*calls) == list(range(200)), "answers were mixed up"
    threads = {thread for one in held for thread in await one.call_within(30, set)}
    assert threading.get_ident() not in threads
    for one in held:
        one.close()
        one.close()
    await until(lambda: not called("shared-many"), what="the end of the thread")
    late = shared.hold(list[int])
    assert await late.call_within(30, note, 7) == 7, "another one is begun"
    late.close()
    await until(lambda: not called("shared-many"), what="the end of the thread")


async def test_others_go_on_while_one_call_takes_long_and_none_meets_another_of_its_object() -> None:
    gate, order = threading.Event(), list[str]()

    def hang(held: list[int]) -> None:
        order.append("hang")
        assert gate.wait(30)
        order.append("over")

    shared = SharedThread(name="shared-slow", patience_s=0.005)
    slow, quick = shared.hold(list[int]), shared.hold(list[int])
    hanging = asyncio.ensure_future(slow.call_within(30, hang))
    behind = asyncio.ensure_future(slow.call_within(30, lambda held: order.append("behind")))
    assert await asyncio.gather(*(quick.call_within(30, note, number) for number in range(5))) == [
        0, 1, 2, 3, 4,
    ]  # fmt: skip
    assert order == ["hang"]
    gate.set()
    await asyncio.gather(hanging, behind)
    assert order == ["hang", "over", "behind"]
    slow.close()
    assert await quick.call_within(30, note, 5) == 5
    quick.close()
    await until(lambda: not called("shared-slow"), what="the end of every thread")


async def test_a_call_that_misses_its_deadline_gives_its_object_up_and_no_other() -> None:
    gate, let_go = threading.Event(), list[str]()

    shared = SharedThread(name="shared-late", patience_s=0.005)
    slow = shared.hold(list[int], lambda held: let_go.append("slow"))
    quick = shared.hold(list[int])
    with pytest.raises(StepTimeout, match=r"did not answer within 0\.01 s"):
        await slow.call_within(0.01, lambda held: gate.wait(30))
    assert slow.given_up
    with pytest.raises(EnvironmentFault, match="closed or abandoned"):
        await slow.call_within(30, note)
    assert await quick.call_within(30, note, 3) == 3
    assert not let_go, "it was let go of while it was called"
    gate.set()
    await until(lambda: let_go == ["slow"])
    quick.close()
    await until(lambda: not called("shared-late"), what="the end of every thread")


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("mine")])
async def test_an_exception_is_carried_untouched(error: Exception) -> None:
    def fail(held: list[int]) -> None:
        raise error

    shared = SharedThread(name="shared-error", patience_s=0.005)
    one = shared.hold(list[int])
    with pytest.raises(type(error)) as caught:
        await one.call_within(30, fail)
    assert caught.value is error
    assert await one.call_within(None, note, 1) == 1
    one.close()


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(3), asyncio.CancelledError()])
async def test_what_would_end_a_loop_or_a_thread_becomes_a_fault(error: BaseException) -> None:
    def fail(held: list[int]) -> None:
        raise error

    shared = SharedThread(name="shared-fault", patience_s=0.005)
    one = shared.hold(list[int])
    with pytest.raises(EnvironmentFault, match=type(error).__name__):
        await one.call_within(30, fail)
    assert await one.call_within(30, note, 1) == 1
    one.close()


async def test_a_factory_that_raises_is_tried_again_and_nothing_is_let_go() -> None:
    tries, let_go = list[int](), list[Any]()

    def build() -> list[int]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return []

    shared = SharedThread(name="shared-build", patience_s=0.005)
    one = shared.hold(build, let_go.append)
    with pytest.raises(OSError, match="not yet"):
        await one.call_within(30, note)
    assert await one.call_within(30, note, 2) == 2
    never = shared.hold(list[int], let_go.append)
    never.close()
    one.close()
    await until(lambda: len(let_go) == 1)


async def test_who_goes_away_is_not_answered_and_the_call_runs_to_its_end() -> None:
    gate, done = threading.Event(), list[str]()

    def hang(held: list[int]) -> None:
        assert gate.wait(30)
        done.append("done")

    shared = SharedThread(name="shared-gone", patience_s=0.005)
    one = shared.hold(list[int])
    asked = asyncio.ensure_future(one.call_within(30, hang))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    gate.set()
    assert await one.call_within(30, note, 4) == 4
    assert done == ["done"]
    one.close()
