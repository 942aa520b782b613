"""The clock, injected: wall time, monotonic time, and sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
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
