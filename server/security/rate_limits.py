"""Limits per address: rates over a window, token buckets, concurrent places and fair turns."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

from spectator.clock import Clock

MAX_TRACKED: Final = 10_000
"""Keys that are tracked; beyond that, the one unused for longest is dropped."""


class RateLimit:
    """At most ``limit`` in any ``period_s`` seconds, per key.

    Args:
        limit: How many, or how much, per window; 0 means no limit.
        piece_s: Amounts charged within this many seconds are stored as one entry.
    """

    def __init__(self, limit: float, period_s: float, clock: Clock, piece_s: float = 0.0) -> None:
        self.limit = limit
        self._period_s = period_s + piece_s
        self._piece_s = piece_s
        self._clock = clock
        self._taken: dict[str, deque[tuple[float, int]]] = {}

    def take(self, key: str) -> float:
        """Take one for ``key``, if there is room.

        Returns:
            0.0 if it was granted; otherwise the seconds until one is free.
        """
        if self.limit == 0:
            return 0.0
        if wait_s := self.wait_s(key):
            self._taken[key] = self._taken.pop(key)
            return wait_s
        self.charge(key, 1)
        return 0.0

    def charge(self, key: str, amount: int) -> None:
        """Count ``amount`` for ``key``, even beyond the limit."""
        now = self._clock.monotonic()
        taken = self._taken.pop(key, None) or deque()
        self._taken[key] = taken
        if len(self._taken) > MAX_TRACKED:
            del self._taken[next(iter(self._taken))]
        self._used_in_window(taken, now)
        if taken and now < taken[-1][0] + self._piece_s:
            began, before = taken.pop()
            taken.append((began, before + amount))
        else:
            taken.append((now, amount))

    def wait_s(self, key: str) -> float:
        """Return the seconds until ``key`` may take more; 0.0 if it may now."""
        taken = self._taken.get(key)
        if not self.limit or taken is None:
            return 0.0
        now = self._clock.monotonic()
        left = self._used_in_window(taken, now)
        for began, amount in taken:
            if left < self.limit:
                break
            left -= amount
            if left < self.limit:
                return began + self._period_s - now
        return 0.0

    def give_back(self, key: str) -> None:
        """Undo the newest :meth:`take` of ``key``, whose purpose failed."""
        if taken := self._taken.get(key):
            taken.pop()

    def used(self) -> dict[str, int]:
        """Return how much each key has taken in the current window, without zeros."""
        now = self._clock.monotonic()
        found = {key: self._used_in_window(taken, now) for key, taken in self._taken.items()}
        return {key: amount for key, amount in found.items() if amount}

    def _used_in_window(self, taken: deque[tuple[float, int]], now: float) -> int:
        """Drop entries older than the window, and sum up the rest."""
        while taken and taken[0][0] <= now - self._period_s:
            taken.popleft()
        return sum(amount for _, amount in taken)


class TokenBucket:
    """A token bucket for each key.

    Amounts may be charged afterwards, which can put a bucket in debt.

    A single connection uses one bucket, under the default key.

    Args:
        rate: Tokens added per second.
        burst: Capacity, and tokens at first; 0 means no limit.

    >>> from spectator.clock import SystemClock
    >>> seconds = TokenBucket(0.5, 30.0, SystemClock())
    >>> seconds.spend(31.0, "here")
    False
    >>> 1.0 < seconds.wait_s("here") <= 2.0
    True
    """

    __slots__ = ("_burst", "_clock", "_left", "_rate")

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def spend(self, amount: float, key: str = "") -> bool:
        """Take ``amount`` tokens from the bucket of ``key``; whether it held that many."""
        if not self._burst:
            return True
        left = self.left(key) - amount
        self._left.pop(key, None)
        self._left[key] = left, self._clock.monotonic()
        if len(self._left) > MAX_TRACKED:
            del self._left[next(iter(self._left))]
        return left >= 0

    def left(self, key: str = "") -> float:
        """Tokens in the bucket of ``key`` now; negative while it is in debt."""
        if key not in self._left:
            return self._burst
        left, at = self._left[key]
        return min(self._burst, left + (self._clock.monotonic() - at) * self._rate)

    def wait_s(self, key: str = "") -> float:
        """Seconds until the bucket of ``key`` is out of debt; 0.0 if it is not in debt."""
        return max(0.0, -self.left(key) / self._rate) if key in self._left else 0.0

    def waits(self) -> dict[str, float]:
        """Seconds that each key in debt has to wait."""
        return {key: wait_s for key in self._left if (wait_s := self.wait_s(key))}


PATIENCE_S: Final = 10.0
"""Seconds to wait for a place."""

MAX_WAITING: Final = 64
"""Most waiters; per address, as many as it may hold places, or a quarter of this."""

LimitScope = Literal["address", "all"]


class NoFreePlace(Exception):
    """No place became free in time.

    Args:
        scope: Whether the address's own limit was reached, or the limit of all together.
    """

    def __init__(self, scope: LimitScope) -> None:
        self.scope: LimitScope = scope
        super().__init__(scope)


class ConcurrencyLimit:
    """Limits how many hold a place at once; others wait in order of arrival.

    A waiter that is blocked only by its own address's limit does not block other addresses.

    Args:
        total: Places in all, at least 1.
        by_address: Places per address; 0 means no limit per address.
    """

    def __init__(self, total: int, by_address: int = 0, patience_s: float = PATIENCE_S) -> None:
        self.total = total
        self.by_address = by_address
        self._patience_s = patience_s
        self._most_waiting = by_address or MAX_WAITING // 4
        self._held: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], str] = {}

    @property
    def held(self) -> Mapping[str, int]:
        """Places that each address holds now."""
        return dict(self._held)

    @property
    def waiting(self) -> int:
        """Number of waiters."""
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, address: str) -> AsyncIterator[None]:
        """Hold a place while the ``with`` block runs."""
        if not self._is_free(address):
            await self._wait(address)
        else:
            self._held[address] += 1
        try:
            yield
        finally:
            self._release(address)

    def _is_free(self, address: str) -> bool:
        of_address = not self.by_address or self._held[address] < self.by_address
        return of_address and self._held.total() < self.total

    async def _wait(self, address: str) -> None:
        own = sum(one == address for one in self._waiting.values())
        if own >= self._most_waiting or len(self._waiting) >= MAX_WAITING:
            raise NoFreePlace(self._reached(address))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = address
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self._release(address)
            else:
                del self._waiting[turn]
            if isinstance(error, TimeoutError):
                raise NoFreePlace(self._reached(address)) from None
            raise

    def _reached(self, address: str) -> LimitScope:
        return "address" if self.by_address and self._held[address] >= self.by_address else "all"

    def _release(self, address: str) -> None:
        self._held[address] -= 1
        if not self._held[address]:
            del self._held[address]
        for turn, waiting in list(self._waiting.items()):
            if not turn.done() and self._is_free(waiting):
                del self._waiting[turn]
                self._held[waiting] += 1
                turn.set_result(None)


LEAST_REST_S: Final = 0.001
"""Least pause between the starts of two requests, in seconds."""

LONGEST_PAUSE_S: Final = 0.05


class RequestScheduler:
    """Starts one request at a time, rotating between addresses.

    Otherwise, requests that arrive together would all start before the event loop does anything else: 200 of
    them block it for 200 ms. Between two starts the loop now does all other work that is ready, and then
    pauses starts for as long again. So requests take at most half of the loop, and less when it is busy.

    Args:
        playing: Whether any episode is running; requests do not wait while none is.
    """

    def __init__(self, playing: Callable[[], bool]) -> None:
        self._playing = playing
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(not turn.done() for turns in self._waiting.values() for turn in turns)

    async def take(self, address: str) -> None:
        """Wait until it is the turn of this request of ``address``."""
        if self._taken:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came at the same moment
                    self._rest()
                raise
        elif not self._playing():
            return
        self._taken = True
        self._rest()

    def _rest(self) -> None:
        """Start the next request after other work of the loop and a pause."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def rest() -> None:
            took = loop.time() - began
            loop.call_later(min(LONGEST_PAUSE_S, max(LEAST_REST_S, took)), self._next)

        loop.call_soon(rest)

    def _next(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            if turns:  # the next one of this address waits for the others
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
