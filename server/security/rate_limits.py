"""Limits by address: rates, allowances, concurrent places and fair turns."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

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


class RefillingAllowance:
    """What each address may use of something, paid after the fact: who owes some waits until it is there.

    Args:
        per_minute: What each address gets in a minute, and has at first; 0 means no limit.
        clock: Measures.

    >>> from spectator.clock import SystemClock
    >>> seconds = RefillingAllowance(30.0, SystemClock())
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


PATIENCE_S: Final = 10.0
"""How long somebody waits for a place."""

MAX_WAITING: Final = 64
"""How many may wait; of one address, as many as it may hold places, or a quarter of all."""

Whose = Literal["address", "all"]


class NoFreePlace(Exception):
    """Nothing became free in time.

    Args:
        whose: Whether the limit of the address was reached, or that of all together.
    """

    def __init__(self, whose: Whose) -> None:
        self.whose: Whose = whose
        super().__init__(whose)


class ConcurrencyLimit:
    """Lets so many hold a place at once, and others wait in the order in which they came.

    Whoever waits for a place of its own address keeps nobody else waiting.

    Args:
        total: Places in all, at least 1.
        by_address: Places of one address; 0 means no limit of its own.
        patience_s: Seconds that somebody waits.
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
        """How many places each address holds now."""
        return dict(self._held)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, address: str) -> AsyncIterator[None]:
        """Hold a place for the time of the ``with``.

        Raises:
            NoPlace: There was none in time, or too many wait already.
        """
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
            raise NoFreePlace(self._whose(address))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = address
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self._release(address)
            else:
                del self._waiting[turn]
            if isinstance(error, TimeoutError):
                raise NoFreePlace(self._whose(address)) from None
            raise

    def _whose(self, address: str) -> Whose:
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


REST: Final = 3.0
"""How long nothing is read after a piece while something is played, as a multiple of what the piece took."""

LONGEST_REST_S: Final = 0.25


class ReadPacer:
    """Lets one piece of a record be read at a time, so that whoever plays has the processor first.

    Args:
        clock: Measures and waits.
        playing: Whether anything is played now.
    """

    def __init__(self, clock: Clock, playing: Callable[[], bool]) -> None:
        self._clock = clock
        self._playing = playing
        self._one = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Read one piece within the ``with``."""
        async with self._one:
            began = self._clock.monotonic()
            yield
            if self._playing():
                took = self._clock.monotonic() - began
                await self._clock.sleep(min(LONGEST_REST_S, REST * took))


LEAST_REST_S: Final = 0.001
"""How long no further request is begun after one, at least."""

LONGEST_PAUSE_S: Final = 0.05


class RequestScheduler:
    """Begins one request at a time, of one address after the other, with a rest after each.

    Requests that arrive together would otherwise all be begun before the event loop comes to anything else:
    200 of them hold it for 200 ms. Between two of them it now does all else that is ready, and for as long as
    that and the beginning of the request took nothing more is begun. So they take half of the loop at most,
    and less where it is busy.

    Args:
        playing: Whether anything is played now; nobody waits where nothing is.
    """

    def __init__(self, playing: Callable[[], bool]) -> None:
        self._playing = playing
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(not turn.done() for turns in self._waiting.values() for turn in turns)

    async def take(self, address: str) -> None:
        """Return when it is the turn of this request of ``address``."""
        if self._taken:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came in the same moment
                    self._rest()
                raise
        elif not self._playing():
            return
        self._taken = True
        self._rest()

    def _rest(self) -> None:
        """Let the next one begin once the loop did all else, and after as long again."""
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
            if turns:  # the next one of this address comes after the others'
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
