"""Limits for each address: a moving window, and an allowance that fills again."""

from __future__ import annotations

from collections import deque
from typing import Final

from spectator.clock import Clock

MAX_TRACKED: Final = 10_000
"""Addresses that are remembered; beyond it the longest silent is forgotten."""

MINUTE_S: Final = 60.0


class RateLimit:
    """At most ``limit`` in any ``period_s`` seconds, for each key.

    Args:
        limit: How many, or how much; 0 means no limit.
        period_s: Length of the window.
        clock: Measures.
        piece_s: Amounts that are charged within this time are kept as one.
    """

    def __init__(self, limit: float, period_s: float, clock: Clock, piece_s: float = 0.0) -> None:
        self.limit = limit
        self._period_s = period_s + piece_s
        self._piece_s = piece_s
        self._clock = clock
        self._taken: dict[str, deque[tuple[float, int]]] = {}

    def take(self, key: str) -> float:
        """Take one for ``key``.

        Returns:
            0.0 when it was granted; else the seconds until one will be.
        """
        if self.limit == 0:
            return 0.0
        if wait_s := self.wait_s(key):
            self._taken[key] = self._taken.pop(key)
            return wait_s
        self.charge(key, 1)
        return 0.0

    def charge(self, key: str, amount: int) -> None:
        """Count ``amount`` for ``key``, whether or not there is room for it."""
        now = self._clock.monotonic()
        taken = self._taken.pop(key, None) or deque()
        self._taken[key] = taken
        if len(self._taken) > MAX_TRACKED:
            del self._taken[next(iter(self._taken))]
        self._fresh(taken, now)
        if taken and now < taken[-1][0] + self._piece_s:
            began, before = taken.pop()
            taken.append((began, before + amount))
        else:
            taken.append((now, amount))

    def wait_s(self, key: str) -> float:
        """Seconds until ``key`` may take more; 0.0 when it may now."""
        taken = self._taken.get(key)
        if not self.limit or taken is None:
            return 0.0
        now = self._clock.monotonic()
        left = self._fresh(taken, now)
        for began, amount in taken:
            if left < self.limit:
                break
            left -= amount
            if left < self.limit:
                return began + self._period_s - now
        return 0.0

    def give_back(self, key: str) -> None:
        """Undo the newest :meth:`take` of ``key``: what it was for did not come about."""
        if taken := self._taken.get(key):
            taken.pop()

    def used(self) -> dict[str, int]:
        """How much of the window now each key has taken, those with none left out."""
        now = self._clock.monotonic()
        found = {key: self._fresh(taken, now) for key, taken in self._taken.items()}
        return {key: amount for key, amount in found.items() if amount}

    def _fresh(self, taken: deque[tuple[float, int]], now: float) -> int:
        """Forget what is older than the window, and sum up the rest."""
        while taken and taken[0][0] <= now - self._period_s:
            taken.popleft()
        return sum(amount for _, amount in taken)


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
