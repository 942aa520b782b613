"""A light event wakes as asyncio's does."""

from __future__ import annotations

import asyncio
import sys

from spectator.light_event import LightEvent


def test_whoever_waits_is_woken_and_later_ones_need_not_wait() -> None:
    async def scene() -> None:
        event = LightEvent()
        waiting = [asyncio.create_task(event.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting) and not event.is_set()
        event.set()
        event.set()  # who is woken already is not woken again
        assert await asyncio.gather(*waiting, event.wait()) == [True] * 4
        assert event.is_set()

    asyncio.run(scene())


def test_after_clear_one_waits_for_the_next_time() -> None:
    async def scene() -> None:
        event = LightEvent()
        event.set()
        event.clear()
        waiting = asyncio.create_task(event.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        event.set()
        event.clear()  # before the woken task runs
        assert await waiting

    asyncio.run(scene())


def test_whoever_gives_up_is_forgotten_and_the_others_still_wait() -> None:
    async def scene() -> None:
        event = LightEvent()
        leaving, staying = (asyncio.create_task(event.wait()) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        event.set()
        assert await staying and leaving.cancelled()

    asyncio.run(scene())


def test_an_event_nobody_waits_for_is_small() -> None:
    assert sys.getsizeof(LightEvent()) <= 64 < sys.getsizeof(asyncio.Event()._waiters)
