"""Timeouts that share one timer: a timer for each is a tenth of the work of a short request."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType


class TimeLimits:
    """Limits of any number of tasks; kept to as ``asyncio.timeout`` keeps its own.

    The timer stays when what it was set for is over in time, and is moved only for a limit that ends earlier.
    """

    def __init__(self) -> None:
        self.running: set[TimeLimit] = set()
        """The limits that somebody is in."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._set_for = math.inf

    def begin(self, limit: TimeLimit) -> None:
        """Keep to ``limit``."""
        if limit.loop is not self._loop:
            self.running.clear()
            self._loop, self._timer, self._set_for = limit.loop, None, math.inf
        self.running.add(limit)
        if limit.ends_at < self._set_for:
            self._set(limit.ends_at)

    def close(self) -> None:
        """Take back the timer, unless somebody needs it."""
        if not self.running:
            self._take_back()

    def _set(self, at: float) -> None:
        assert self._loop is not None
        self._take_back()
        self._timer, self._set_for = self._loop.call_at(at, self._ring), at

    def _take_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._set_for = None, math.inf

    def _ring(self) -> None:
        now = self._set_for
        self._take_back()
        for limit in [limit for limit in self.running if limit.ends_at <= now]:
            self.running.discard(limit)
            limit.expire()
        if self.running:
            self._set(min(limit.ends_at for limit in self.running))


class TimeLimit:
    """A limit of one task: it is cancelled when the limit is reached, and sees a :class:`TimeoutError`.

    Args:
        limits: Keeps to it.
        seconds: When it is reached, from now on.
    """

    __slots__ = ("_cancelling", "_limits", "_task", "ends_at", "expired", "loop")

    def __init__(self, limits: TimeLimits, seconds: float) -> None:
        self._limits = limits
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.loop = asyncio.get_running_loop()
        """Where the task runs."""
        self.ends_at = self.loop.time() + seconds
        """By the time of the event loop."""
        self.expired = False

    def __enter__(self) -> TimeLimit:
        self._task = task = asyncio.current_task(self.loop)
        assert task is not None
        self._cancelling = task.cancelling()
        self._limits.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limits.running.discard(self)
        if self.expired and self._task is not None:
            asked_apart = self._task.uncancel() > self._cancelling
            if kind is asyncio.CancelledError and not asked_apart:
                raise TimeoutError from error

    def expire(self) -> None:
        """The limit is reached."""
        assert self._task is not None
        self.expired = True
        self._task.cancel()
