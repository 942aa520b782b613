"""A moving window: at most so many of something in any stretch of time, for each key."""

from __future__ import annotations

from collections import deque
from typing import Final

from spectator.clock import Clock

MAX_TRACKED: Final = 10_000
"""Addresses whose recent requests are remembered; beyond it the longest silent is forgotten."""


class RateLimit:
    """At most ``count`` in any ``period_s`` seconds, for each key.

    Args:
        count: How many; 0 means no limit.
        period_s: Length of the window.
        clock: Measures.
    """

    def __init__(self, count: int, period_s: float, clock: Clock) -> None:
        self.count = count
        self._period_s = period_s
        self._clock = clock
        self._taken: dict[str, deque[float]] = {}

    def take(self, key: str) -> float:
        """Take one for ``key``.

        Returns:
            0.0 when it was granted; else the seconds until one will be.
        """
        if self.count == 0:
            return 0.0
        now = self._clock.monotonic()
        taken = self._taken.pop(key, None) or deque()
        self._taken[key] = taken
        if len(self._taken) > MAX_TRACKED:
            del self._taken[next(iter(self._taken))]
        self._forget(taken, now)
        if len(taken) >= self.count:
            return taken[0] + self._period_s - now
        taken.append(now)
        return 0.0

    def give_back(self, key: str) -> None:
        """Undo the newest :meth:`take` of ``key``: what it was for did not come about."""
        if taken := self._taken.get(key):
            taken.pop()

    def used(self) -> dict[str, int]:
        """How many of the window now each key has taken, those with none left out."""
        now = self._clock.monotonic()
        for taken in self._taken.values():
            self._forget(taken, now)
        return {key: len(taken) for key, taken in self._taken.items() if taken}

    def _forget(self, taken: deque[float], now: float) -> None:
        while taken and taken[0] <= now - self._period_s:
            taken.popleft()
