"""Inject time, and wait for tasks and futures across cancellation and threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol


class Clock(Protocol):
    """Injected time, so that tests need not wait."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never runs backwards."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait at least ``seconds``; 0 still yields to other tasks."""


class SystemClock:
    """The system's time."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


def timestamp(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with milliseconds: ``2026-11-21T05:00:00.123Z``.

    >>> timestamp(datetime(2026, 11, 21, 5, 0, tzinfo=UTC))
    '2026-11-21T05:00:00.000Z'
    """
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until the first of ``waits`` ends, then cancel the others."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def whole(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end even if the caller is cancelled.

    The caller gets the exception of ``work``; after a cancellation it is dropped silently.
    """
    task = asyncio.get_running_loop().create_task(work)
    # A cancelled shield no longer retrieves the exception.
    task.add_done_callback(lambda over: over.cancelled() or over.exception())
    await asyncio.shield(task)


def answer(future: asyncio.Future[Any], result: Any, error: Exception | None = None) -> bool:
    """Settle ``future`` from a thread other than its event loop's.

    Args:
        future: A future that may already be cancelled.
        result: Its result if there is no ``error``.

    Returns:
        False if the future's event loop is closed.
    """
    try:
        future.get_loop().call_soon_threadsafe(settle, (future,), result, error)
    except RuntimeError:
        return False
    return True


def answer_all(futures: Sequence[asyncio.Future[None]], error: Exception | None = None) -> None:
    """Settle many futures with ``None`` or one error; wakes each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, own, None, error)


def settle(futures: Sequence[asyncio.Future[Any]], result: Any, error: Exception | None = None) -> None:
    """Settle ``futures`` on their own event loop; skips those already done."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
