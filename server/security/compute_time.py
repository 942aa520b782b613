"""How long the private environments of one address may compute."""

from __future__ import annotations

from typing import Final

from spectator.clock import Clock

from .rate_limit import MAX_TRACKED
from .token_bucket import TokenBucket

MINUTE_S: Final = 60.0


class ComputeTime:
    """Seconds of computing, by address, paid after the fact: who owes some waits until they are there.

    Args:
        per_minute: Seconds that each address gets in a minute, and has at first; 0 means no limit.
        clock: Measures.

    >>> from spectator.clock import SystemClock
    >>> time = ComputeTime(30.0, SystemClock())
    >>> time.charge("here", 31.0)
    >>> 1.0 < time.wait_s("here") <= 2.0
    True
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._left: dict[str, TokenBucket] = {}

    def charge(self, address: str, seconds: float) -> None:
        """Let ``address`` pay for what it computed."""
        if self._per_minute:
            left = self._left.pop(address, None) or self._full()
            left.spend(seconds)
            self._left[address] = left
            if len(self._left) > MAX_TRACKED:
                del self._left[next(iter(self._left))]

    def wait_s(self, address: str) -> float:
        """Seconds until ``address`` may compute again; 0.0 when it may now."""
        left = self._left.get(address)
        return 0.0 if left is None else left.wait_s()

    def owed(self) -> dict[str, float]:
        """Seconds that each address has to wait, those who may compute left out."""
        return {address: wait_s for address, left in self._left.items() if (wait_s := left.wait_s())}

    def _full(self) -> TokenBucket:
        return TokenBucket(self._per_minute / MINUTE_S, self._per_minute, self._clock)
