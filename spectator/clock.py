"""Owns time as it is injected: the wall clock, the monotonic clock, and waiting."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as a service, so that tests never wait for it."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least ``seconds``; zero still yields to other tasks."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait at least ``seconds``; zero still yields to other tasks."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, such as ``2026-11-21T05:00:00.123Z``."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
