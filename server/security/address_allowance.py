"""So much a minute of something for each address: seconds of computing, requests."""

from __future__ import annotations

from typing import Final

from spectator.clock import Clock

from .rate_limit import MAX_TRACKED
from .token_bucket import TokenBucket

MINUTE_S: Final = 60.0


class AddressAllowance:
    """What each address may use of something, paid after the fact: who owes some waits until it is there.

    Args:
        per_minute: What each address gets in a minute, and has at first; 0 means no limit.
        clock: Measures.

    >>> from spectator.clock import SystemClock
    >>> seconds = AddressAllowance(30.0, SystemClock())
    >>> seconds.charge("here", 31.0)
    >>> 1.0 < seconds.wait_s("here") <= 2.0
    True
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._left: dict[str, TokenBucket] = {}

    def charge(self, address: str, amount: float) -> None:
        """Let ``address`` pay for what it used."""
        if self._per_minute:
            left = self._left.pop(address, None) or self._full()
            left.spend(amount)
            self._left[address] = left
            if len(self._left) > MAX_TRACKED:
                del self._left[next(iter(self._left))]

    def wait_s(self, address: str) -> float:
        """Seconds until ``address`` may use more; 0.0 when it may now."""
        left = self._left.get(address)
        return 0.0 if left is None else left.wait_s()

    def owed(self) -> dict[str, float]:
        """Seconds that each address has to wait, those who may go on left out."""
        return {address: wait_s for address, left in self._left.items() if (wait_s := left.wait_s())}

    def _full(self) -> TokenBucket:
        return TokenBucket(self._per_minute / MINUTE_S, self._per_minute, self._clock)
