"""Inject time, and wait for tasks and futures across cancellation and threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol


class Clock(Protocol):
    """Time as a service, so that tests never wait for it."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait at least ``seconds``; zero still yields to other tasks."""
        ...


class SystemClock:
    """The machine's own time."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, such as ``2026-11-21T05:00:00.123Z``.

    >>> timestamp(datetime(2026, 11, 21, 5, 0, tzinfo=UTC))
    '2026-11-21T05:00:00.000Z'
    """
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


_MILLISECONDS: Final = tuple(f".{number:03d}Z" for number in range(1000))


class Timestamps:
    """Timestamps of a clock one after another; the text of a second is made once.

    Args:
        clock: Tells the time.

    >>> stamp = Timestamps(SystemClock())
    >>> len(stamp()), stamp()[-1]
    (24, 'Z')
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        self._second = self._next = datetime.min.replace(tzinfo=UTC)
        self._text = ""

    def __call__(self) -> str:
        """The time now, as :func:`timestamp` writes it."""
        moment = self._now()
        if not self._second <= moment < self._next:
            self._second = moment.astimezone(UTC).replace(microsecond=0)
            self._next = self._second + timedelta(seconds=1)
            self._text = self._second.isoformat()[:19]
        return self._text + _MILLISECONDS[moment.microsecond // 1000]


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of ``waits`` is over; the others are cancelled."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def whole(work: Coroutine[Any, Any, None]) -> None:
    """Carry out ``work`` to its end, also if whoever waits for it is cancelled.

    What it raises goes to whoever waits; once nobody does, it is dropped without a word.
    """
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(
        lambda over: over.cancelled() or over.exception()
    )  # a cancelled shield asks no more
    await asyncio.shield(task)


def answer(future: asyncio.Future[Any], result: Any, error: Exception | None = None) -> bool:
    """Settle ``future`` from a thread other than that of its event loop.

    Args:
        future: Somebody may wait for it, or may have given up.
        result: What it comes to, where ``error`` is none.
        error: Why it failed.

    Returns:
        False when its event loop is closed, so that nobody can be answered.
    """
    try:
        future.get_loop().call_soon_threadsafe(settle, (future,), result, error)
    except RuntimeError:
        return False
    return True


def answer_all(futures: Sequence[asyncio.Future[None]], error: Exception | None = None) -> None:
    """The same for many that come to nothing, or to one error; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # it is closed, so that nobody can be answered
            loop.call_soon_threadsafe(settle, own, None, error)


def settle(futures: Sequence[asyncio.Future[Any]], result: Any, error: Exception | None = None) -> None:
    """The same on their own event loop; those that nobody waits for any more are left as they are."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
