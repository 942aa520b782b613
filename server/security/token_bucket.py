"""A token bucket: how often somebody may do something, at once and over any length of time."""

from __future__ import annotations

from spectator.clock import Clock


class TokenBucket:
    """A bucket of tokens that fills again.

    Args:
        rate: Tokens added in a second.
        burst: Tokens that it holds at most, and at first.
        clock: Measures.
    """

    __slots__ = ("_at", "_burst", "_clock", "_left", "_rate")

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._at = clock.monotonic()

    def spend(self, amount: float) -> bool:
        """Take ``amount`` tokens out; whether there were so many."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now
        return self._left >= 0

    def wait_s(self) -> float:
        """Seconds until nothing is owed."""
        self.spend(0.0)
        return max(0.0, -self._left / self._rate)
