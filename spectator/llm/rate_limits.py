"""Limits of one endpoint: requests and tokens per minute, and concurrent requests.

The limit of concurrent requests adapts where the endpoint states none: it grows with success and is cut
by status 429. All processes of a machine can share limits through files in one folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sqlite3
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectator.clock import Clock
from spectator.errors import EndpointBusy

CUT: Final = 0.5
"""Factor of the limit after a refusal (multiplicative decrease)."""

CUT_AGAIN_S: Final = 1.0
"""Refusals within this time of a cut belong to the same overload and cut no further."""


class AdaptiveLimit:
    """Places for requests under way: one more after each full round of successes, half after a refusal.

    Additive increase and multiplicative decrease, as TCP does it (Chiu and Jain 1989): it finds what an
    endpoint bears without being told. Waiters are served in the order in which they came. Used from one event
    loop.

    Args:
        clock: Measures how far apart two cuts are.
        start: Places at first.
        lowest: Fewest places, at least 1.
        highest: Most places.
        slow_start: Whether, until the first refusal, a full round of successes doubles the places, as TCP
            begins (Jacobson 1988): from 64, 512 are found within a few rounds instead of 448.

    Raises:
        ValueError: Not ``1 <= lowest <= start <= highest``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        start: int = 16,
        lowest: int = 1,
        highest: int = 1024,
        slow_start: bool = False,
    ) -> None:
        if not 1 <= lowest <= start <= highest:
            raise ValueError("an adaptive limit needs 1 <= lowest <= start <= highest")
        self._places = float(start)
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._lowest = lowest
        self._highest = highest
        self._doubling = slow_start
        self._cut_at: float | None = None

    @property
    def places(self) -> int:
        """How many there are now."""
        return int(self._places)

    @property
    def taken(self) -> int:
        """How many are taken."""
        return self._taken

    def locked(self) -> bool:
        """Whether whoever asks for a place now has to wait."""
        return self._taken >= self.places or bool(self._waiting)

    def take(self) -> bool:
        """Take a place where one is free and nobody waits; whether there was."""
        free = self._taken < int(self._places) and not self._waiting
        self._taken += free
        return free

    async def acquire(self) -> None:
        """Take a place; waits until one is free and all who came before have theirs."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the place was given just as its taker gave up
            elif turn in self._waiting:  # else it was passed over already
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a place back."""
        self._taken -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._taken < self.places:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def succeeded(self) -> None:
        """A request was answered: a whole round of them adds one place."""
        if self._taken >= int(self._places) // 2:  # an idle limit proves nothing about a larger one
            grown = self._places + (1.0 if self._doubling else 1.0 / self._places)
            self._places = min(float(self._highest), grown)
            if self._waiting:
                self._admit()

    def refused(self) -> None:
        """A request was refused for load (429, 503): halve the places, once for each overload."""
        now = self._clock.monotonic()
        self._doubling = False
        if self._cut_at is None or now - self._cut_at >= CUT_AGAIN_S:
            self._cut_at = now
            self._places = max(float(self._lowest), self._places * CUT)


try:
    import fcntl
except ImportError:  # Windows has no flock: there each process keeps places of its own
    fcntl = None  # type: ignore[assignment]


LEDGER: Final = "minutes.db"
"""The file in the folder that holds what was asked in the last minute."""

SPAN_S: Final = 60.0
"""The span that limits are for, seconds."""

BUSY_S: Final = 0.25
"""Longest wait for another process that writes the ledger, seconds; then this one counts alone."""

FAR_S: Final = 3600.0
"""What is reserved for later than this is from before the machine's clock was put back, and forgotten."""

UNAVAILABLE: Final = (OSError, sqlite3.Error)
"""What is raised where the files cannot be read or written."""

_TABLES: Final = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS slots (id INTEGER PRIMARY KEY, endpoint TEXT, at REAL, tokens INTEGER);
CREATE INDEX IF NOT EXISTS slots_at ON slots (endpoint, at, tokens);
CREATE TABLE IF NOT EXISTS rests (endpoint TEXT PRIMARY KEY, until REAL);
"""


class SharedSlot:
    """One of the requests that an endpoint bears at once; held until :meth:`release`, or its process ends.

    Args:
        held: Descriptor of the locked file.
    """

    def __init__(self, held: int) -> None:
        self._held = held

    def release(self) -> None:
        """Give it back."""
        os.close(self._held)


class SharedLimits:
    """What the processes of a machine that ask one endpoint tell each other, by files in one folder.

    Requests of the last minute stand in an SQLite file; each place is a file, locked while it is held
    (``flock``), so that a process that dies gives its places back at once. What it had reserved counts for
    the minute it was reserved for, as if it had been sent. The wall clock is what processes share.

    Nothing is opened before something is asked. Whatever cannot be read or written then raises one of
    :data:`UNAVAILABLE`, and nothing is reserved.

    Args:
        folder: Where the files are; made when it is not there.
        endpoint: What is limited: address, model and account, in any words that are the same everywhere.
        clock: Time.
    """

    def __init__(self, folder: Path, endpoint: str, clock: Clock) -> None:
        self._name = hashlib.sha256(endpoint.encode()).hexdigest()[:16]
        self._folder = folder
        self._clock = clock
        self._next_place = 0
        self._opened: sqlite3.Connection | None = None

    def reserve(
        self, at: float, until: float, tokens: int, *, requests: int | None, tokens_limit: int | None
    ) -> tuple[int, float]:
        """Reserve the first moment from ``at`` on that is within the limits.

        Args:
            at: Earliest moment, by the clock's ``monotonic``.
            until: Latest.
            tokens: How many it takes.
            requests: Most requests in a minute; ``None`` for no limit.
            tokens_limit: Most tokens in a minute; ``None`` for no limit.

        Returns:
            The number of what was reserved, for :meth:`settle`, and its moment by ``monotonic``.

        Raises:
            EndpointBusy: There is none before ``until``; nothing is reserved.
        """
        now = self._clock.now().timestamp()
        ahead = now - self._clock.monotonic()
        ledger = self._ledger
        ledger.execute("BEGIN IMMEDIATE")
        try:
            self._forget(now)
            wanted = max(now, at + ahead)
            free = self._free_from(wanted, tokens, requests, tokens_limit)
            if free > now and free - ahead >= until:
                message = "the next request that its limits allow comes too late"
                raise EndpointBusy(message, retry_after_s=free - now)
            row = (self._name, free, tokens)
            number = ledger.execute(
                "INSERT INTO slots (endpoint, at, tokens) VALUES (?, ?, ?)", row
            ).lastrowid
        except BaseException:
            ledger.execute("ROLLBACK")
            raise
        ledger.execute("COMMIT")
        assert number is not None
        return number, at if free <= wanted else free - ahead

    def settle(self, number: int, tokens: int) -> None:
        """Count what a request really took; 0 where it was never sent."""
        if tokens:
            self._ledger.execute("UPDATE slots SET tokens = ? WHERE id = ?", (tokens, number))
        else:
            self._ledger.execute("DELETE FROM slots WHERE id = ?", (number,))

    def rest(self, seconds: float) -> None:
        """Let nobody send anything for so long."""
        row = (self._name, self._clock.now().timestamp() + seconds)
        self._ledger.execute(
            "INSERT INTO rests VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
            row,
        )

    def take_slot(self, places: int) -> SharedSlot | None:
        """Take one of ``places`` places; ``None`` when all are held, here or in another process."""
        if fcntl is None:
            return SharedSlot(os.open(os.devnull, os.O_RDONLY))
        self._folder.mkdir(parents=True, exist_ok=True)
        for more in range(places):
            number = (self._next_place + more) % places
            held = os.open(
                self._folder / f"{self._name}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(held)
                continue
            except BaseException:
                os.close(held)
                raise
            self._next_place = number
            return SharedSlot(held)
        return None

    def close(self) -> None:
        """Close the ledger."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _ledger(self) -> sqlite3.Connection:
        if self._opened is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            ledger = sqlite3.connect(
                self._folder / LEDGER, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                ledger.executescript(_TABLES)
                ledger.execute("PRAGMA synchronous = OFF")  # a power cut forgets a minute, which is over then
            except BaseException:
                ledger.close()
                raise
            self._opened = ledger
        return self._opened

    def _forget(self, now: float) -> None:
        """Forget what no limit reaches back to."""
        reach = (self._name, now - SPAN_S)
        self._ledger.execute("DELETE FROM slots WHERE endpoint = ? AND at <= ?", reach)
        self._ledger.execute("DELETE FROM slots WHERE endpoint = ? AND at > ?", (self._name, now + FAR_S))

    def _free_from(self, at: float, tokens: int, requests: int | None, tokens_limit: int | None) -> float:
        """The first moment from ``at`` on, by the wall clock, at which one more request is within the limits.

        Whoever comes later is served later: never before the last that was reserved.
        """
        ask = self._ledger.execute
        last = ask("SELECT max(at) FROM slots WHERE endpoint = ?", (self._name,)).fetchone()[0]
        rest = ask("SELECT until FROM rests WHERE endpoint = ? AND until <= ?", (self._name, at + FAR_S))
        until = rest.fetchone()
        at = max(at, last or 0.0, until[0] if until else 0.0)
        newest = "FROM slots WHERE endpoint = ? ORDER BY at DESC"
        if requests is not None:
            row = ask(f"SELECT at {newest} LIMIT 1 OFFSET ?", (self._name, requests - 1)).fetchone()
            at = at if row is None else max(at, row[0] + SPAN_S)
        if tokens_limit is None:
            return float(at)
        left = tokens_limit - tokens
        spent = ask("SELECT total(tokens) FROM slots WHERE endpoint = ?", (self._name,)).fetchone()[0]
        if spent > left:
            for then, took in ask(f"SELECT at, tokens {newest}", (self._name,)):
                left -= took
                if left < 0:
                    return float(max(at, then + SPAN_S))
        return float(at)


logger = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 0.05
"""How often whoever waits for a place that another process holds looks again, seconds."""

START: Final = 16
"""Requests at once to begin with where nobody says how many an endpoint bears."""

WARN_EVERY_S: Final = 60.0
"""How often the log says that limits are not shared, seconds."""


@dataclass(slots=True, eq=False)
class Slot:
    """One request's place in time.

    Args:
        at: When it may be sent, by the clock's ``monotonic``.
        tokens: How many it takes: estimated first, then as the endpoint counted.
        held: Whether it still counts.
        shared: Its number in the ledger that all processes share; ``None`` where it stands in none.
    """

    at: float
    tokens: int
    held: bool = False
    shared: int | None = None


class RateLimiter:
    """Keeps all requests of one captain within its limits, in whichever episode they are made.

    In no span of a minute are more requests sent, or tokens spent, than may be; who has to wait goes in the
    order in which they came. When the endpoint asks one of them to wait, none is sent before that is over.
    How many it bears at once is found out by asking. One event loop uses it at a time.

    Args:
        clock: Time.
        requests_per_minute: Most requests that are sent in a minute; ``None`` for no limit.
        tokens_per_minute: Most tokens of prompts and answers in a minute; ``None`` for no limit.
        concurrency: Most requests at once; found out, from :data:`START` on, where ``None``.
        shared: Keeps the limits over all processes of the machine; only this one's requests count when left
            out, and while it cannot be written.

    Raises:
        ValueError: A limit is less than 1.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        concurrency: int | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        for limit in (requests_per_minute, tokens_per_minute, concurrency):
            if limit is not None and limit < 1:
                raise ValueError("a limit is at least 1")
        self._clock = clock
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._slots: list[Slot] = []
        self._spent = 0
        self._not_before = 0.0
        self._concurrency = concurrency
        self._shared = shared
        self._told_at = float("-inf")
        self.places = (
            AdaptiveLimit(clock, start=START, slow_start=True)
            if concurrency is None
            else AdaptiveLimit(clock, start=concurrency, highest=concurrency)
        )
        """How many requests may be under way at once."""

    def reserve(self, tokens: int, until: float) -> Slot:
        """The next slot for a request of so many tokens; taken, unless it is given back.

        Raises:
            EndpointBusy: There is none before ``until``.
        """
        now = self._clock.monotonic()
        at = max(now, self._not_before)
        if self._slots:
            at = max(at, self._slots[-1].at)
            self._forget(now)
            at = self._free_from(at, tokens)
        if at > now and at >= until:
            message = "the next request that its limits allow comes too late"
            raise EndpointBusy(message, retry_after_s=at - now)
        slot = Slot(at, tokens)
        if self._shared is not None:
            self._reserve_everywhere(self._shared, slot, until)
        if self._requests is not None or self._tokens is not None:
            slot.held = True
            self._slots.append(slot)
            self._spent += tokens
        return slot

    def settle(self, slot: Slot, tokens: int) -> None:
        """Count what a request really took; 0 where it was never sent."""
        if slot.shared is not None and self._shared is not None:
            try:
                self._shared.settle(slot.shared, tokens)
            except UNAVAILABLE as error:
                self._alone(error)
        if slot.held:
            self._spent += tokens - slot.tokens
            slot.tokens = tokens
            if not tokens:
                self._slots.remove(slot)
                slot.held = False

    def rest(self, seconds: float) -> None:
        """Send nothing for so long: the endpoint asked for it."""
        self._not_before = max(self._not_before, self._clock.monotonic() + seconds)
        if self._shared is not None:
            try:
                self._shared.rest(seconds)
            except UNAVAILABLE as error:
                self._alone(error)

    async def shared_slot(self, until: float) -> SharedSlot | None:
        """A place among the requests of all processes, to be released; ``None`` where none is needed.

        Raises:
            EndpointBusy: None came free before ``until``.
        """
        if self._shared is None or self._concurrency is None:
            return None
        while True:
            try:
                place = self._shared.take_slot(self._concurrency)
            except UNAVAILABLE as error:
                self._alone(error)
                return None
            if place is not None:
                return place
            if self._clock.monotonic() + LOOK_AGAIN_S >= until:
                raise EndpointBusy("no place among the requests of all processes came free in time")
            await self._clock.sleep(LOOK_AGAIN_S)

    def _reserve_everywhere(self, shared: SharedLimits, slot: Slot, until: float) -> None:
        try:
            slot.shared, slot.at = shared.reserve(
                slot.at, until, slot.tokens, requests=self._requests, tokens_limit=self._tokens
            )
        except UNAVAILABLE as error:
            self._alone(error)

    def _free_from(self, at: float, tokens: int) -> float:
        """The first moment from ``at`` on at which one more request is within the limits."""
        first, spent = 0, self._spent
        while True:
            while first < len(self._slots) and self._slots[first].at + SPAN_S <= at:
                spent -= self._slots[first].tokens
                first += 1
            if first == len(self._slots) or not self._full(len(self._slots) - first, spent + tokens):
                return at
            at = self._slots[first].at + SPAN_S

    def _full(self, requests: int, tokens: int) -> bool:
        if self._requests is not None and requests >= self._requests:
            return True
        return self._tokens is not None and tokens > self._tokens

    def _forget(self, now: float) -> None:
        """Forget the slots of more than a minute ago."""
        old = 0
        while old < len(self._slots) and self._slots[old].at + SPAN_S <= now:
            self._slots[old].held = False
            self._spent -= self._slots[old].tokens
            old += 1
        del self._slots[:old]

    def _alone(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if now >= self._told_at + WARN_EVERY_S:
            self._told_at = now
            logger.warning("limits are kept by this process alone, for their files cannot be: %s", error)
