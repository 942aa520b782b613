"""How late the event loop is: what everybody waits for when something holds it up."""

from __future__ import annotations

from collections import deque
from typing import Final

from prometheus_client import Histogram

from spectator.clock import Clock

EVERY_S: Final = 0.25

MINUTE: Final = round(60 / EVERY_S)
"""Looks of the last minute."""


class LoopLag:
    """Sleeps again and again, and notes by how much too long.

    Args:
        clock: Sleeps and measures.
        histogram: Takes each lag in seconds.
    """

    def __init__(self, clock: Clock, histogram: Histogram) -> None:
        self._clock = clock
        self._histogram = histogram
        self._lately: deque[float] = deque(maxlen=MINUTE)

    @property
    def worst(self) -> float:
        """The longest lag of the last minute, in seconds; 0.0 before any."""
        return max(self._lately, default=0.0)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = self._clock.monotonic()
            await self._clock.sleep(EVERY_S)
            self.note(self._clock.monotonic() - began - EVERY_S)

    def note(self, lag: float) -> None:
        """Take in one lag, in seconds."""
        self._lately.append(max(0.0, lag))
        self._histogram.observe(max(0.0, lag))
