"""Work that outlives whoever waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spectator.clock import whole
from tests.fakes import until


def test_what_it_raises_goes_to_whoever_waits() -> None:
    async def fail() -> None:
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        asyncio.run(whole(fail()))


async def test_it_goes_on_without_whoever_waited_and_then_fails_unheard() -> None:
    """Its failure is not told as one that nobody retrieved, which a shield alone would leave behind."""
    unhandled: list[dict[str, Any]] = []

    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        await may_end.wait()
        ended.set()
        raise ValueError("nobody hears it")

    waiting = asyncio.create_task(whole(fail()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not ended.is_set()
    may_end.set()
    await ended.wait()
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert unhandled == []
