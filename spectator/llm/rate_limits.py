"""Limits of one endpoint: requests and tokens per minute, and concurrent requests.

If no limit of concurrent requests is known, it adapts: it grows with successes and is halved by status 429.
All processes of a machine can share limits through files in one folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectator.clock import Clock
from spectator.errors import EndpointBusy

CUT: Final = 0.5
"""Factor of the limit after a rejection (multiplicative decrease)."""

CUT_AGAIN_S: Final = 1.0
"""Rejections within this time of a cut belong to the same overload and cause no further cut."""


class AdaptiveLimit:
    """Adaptive limit of concurrent requests, counted in places.

    One more place after each full round of successes, half of them after a rejection: additive increase and
    multiplicative decrease, as in TCP (Chiu and Jain 1989). This finds the limit of an endpoint that states
    none. Waiting requests are served first come, first served. Used from one event loop.

    Args:
        clock: Measures the time between two cuts.
        start: Initial number of places.
        lowest: Minimum, at least 1.
        highest: Maximum.
        slow_start: Whether, until the first rejection, a full round of successes doubles the places, as in
            TCP slow start (Jacobson 1988): from 64, 512 are reached within a few rounds instead of 448.

    Raises:
        ValueError: Not ``1 <= lowest <= start <= highest``.
    """

    def __init__(
        self, clock: Clock, *, start: int = 16, lowest: int = 1, highest: int = 1024, slow_start: bool = False
    ) -> None:
        if not 1 <= lowest <= start <= highest:
            raise ValueError("limits must satisfy 1 <= lowest <= start <= highest")
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
        """Current number of places."""
        return int(self._places)

    @property
    def taken(self) -> int:
        """Number of taken places."""
        return self._taken

    def locked(self) -> bool:
        """Whether a further request has to wait."""
        return self._taken >= self.places or bool(self._waiting)

    def take(self) -> bool:
        """Take a place if no request has to wait; return whether it was taken."""
        free = self._taken < int(self._places) and not self._waiting
        self._taken += free
        return free

    async def acquire(self) -> None:
        """Take a place; wait until one is free and all earlier requests have theirs."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the place was assigned just before the cancellation
            elif turn in self._waiting:  # otherwise already skipped by _admit
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
        """Count a success: a full round of them adds one place."""
        if self._taken >= int(self._places) // 2:  # an idle limit proves nothing about a larger one
            grown = self._places + (1.0 if self._doubling else 1.0 / self._places)
            self._places = min(float(self._highest), grown)
            if self._waiting:
                self._admit()

    def refused(self) -> None:
        """Halve the places after a rejection for load (429, 503), once per overload."""
        now = self._clock.monotonic()
        self._doubling = False
        if self._cut_at is None or now - self._cut_at >= CUT_AGAIN_S:
            self._cut_at = now
            self._places = max(float(self._lowest), self._places * CUT)


try:
    import fcntl
except ImportError:  # Windows has no flock: there, processes do not share concurrency limits
    fcntl = None  # type: ignore[assignment]


LEDGER: Final = "minutes.db"
"""Name of the SQLite file with the requests of the last minute."""

SPAN_S: Final = 60.0
"""The time span of the limits, seconds."""

BUSY_S: Final = 0.25
"""Longest wait for another process that writes the ledger, seconds; then limits are not shared."""

FAR_S: Final = 3600.0
"""Later reservations were made before the machine's clock was set back; they are deleted."""

UNAVAILABLE: Final = (OSError, sqlite3.Error)
"""Errors raised if the files cannot be read or written."""

_TABLES: Final = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS slots (id INTEGER PRIMARY KEY, endpoint TEXT, at REAL, tokens INTEGER);
CREATE INDEX IF NOT EXISTS slots_at ON slots (endpoint, at, tokens);
CREATE TABLE IF NOT EXISTS rests (endpoint TEXT PRIMARY KEY, until REAL);
"""


class SharedSlot:
    """A place for one concurrent request, held until released or the process ends.

    Args:
        descriptor: Descriptor of the locked file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the place."""
        os.close(self._descriptor)


class SharedLimits:
    """Limits of one endpoint, shared by all processes of a machine through files.

    Requests of the last minute are rows of an SQLite file. Each concurrent request holds the lock of a file
    (``flock``), so that a process that dies releases its places at once; its reserved requests count as sent.
    Processes share the wall clock.

    Files are opened on first use. If they cannot be read or written, methods raise one of
    :data:`UNAVAILABLE`, and nothing is reserved.

    Args:
        folder: Folder of the files; created if missing.
        endpoint: Identifies the limits: address, model and account, equal in all processes.
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
        """Reserve the first time from ``at`` that is within the limits.

        Args:
            at: Earliest time, on the monotonic clock.
            until: Latest time, on the monotonic clock.
            tokens: Estimated tokens of the request.
            requests: Requests per minute; ``None`` for no limit.
            tokens_limit: Tokens per minute; ``None`` for no limit.

        Returns:
            The id of the reservation, for :meth:`settle`, and its time on the monotonic clock.

        Raises:
            EndpointBusy: No time before ``until`` is free; nothing is reserved.
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
                message = "its limits per minute allow no further request in time"
                raise EndpointBusy(message, retry_after_s=free - now)
            insert = "INSERT INTO slots (endpoint, at, tokens) VALUES (?, ?, ?)"
            number = ledger.execute(insert, (self._name, free, tokens)).lastrowid
        except BaseException:
            ledger.execute("ROLLBACK")
            raise
        ledger.execute("COMMIT")
        assert number is not None
        return number, at if free <= wanted else free - ahead

    def settle(self, number: int, tokens: int) -> None:
        """Replace the estimate by the tokens used; 0 if the request was not sent."""
        if tokens:
            self._ledger.execute("UPDATE slots SET tokens = ? WHERE id = ?", (tokens, number))
        else:
            self._ledger.execute("DELETE FROM slots WHERE id = ?", (number,))

    def rest(self, seconds: float) -> None:
        """Let no process send anything for ``seconds``."""
        row = (self._name, self._clock.now().timestamp() + seconds)
        self._ledger.execute(
            "INSERT INTO rests VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
            row,
        )

    def take_slot(self, places: int) -> SharedSlot | None:
        """Take one of ``places`` places; ``None`` if all are taken, by any process."""
        if fcntl is None:
            return SharedSlot(os.open(os.devnull, os.O_RDONLY))
        self._folder.mkdir(parents=True, exist_ok=True)
        for offset in range(places):
            number = (self._next_place + offset) % places
            descriptor = os.open(
                self._folder / f"{self._name}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            except BaseException:
                os.close(descriptor)
                raise
            self._next_place = number
            return SharedSlot(descriptor)
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
                # A power failure may lose the last minute, which is over by the time of the restart.
                ledger.execute("PRAGMA synchronous = OFF")
            except BaseException:
                ledger.close()
                raise
            self._opened = ledger
        return self._opened

    def _forget(self, now: float) -> None:
        """Delete reservations that are too old to count."""
        reach = (self._name, now - SPAN_S)
        self._ledger.execute("DELETE FROM slots WHERE endpoint = ? AND at <= ?", reach)
        self._ledger.execute("DELETE FROM slots WHERE endpoint = ? AND at > ?", (self._name, now + FAR_S))

    def _free_from(self, at: float, tokens: int, requests: int | None, tokens_limit: int | None) -> float:
        """Return the first time from ``at``, by the wall clock, for a further request.

        It is never before the last reserved one: first come, first served.
        """
        query = self._ledger.execute
        last = query("SELECT max(at) FROM slots WHERE endpoint = ?", (self._name,)).fetchone()[0]
        rest = query("SELECT until FROM rests WHERE endpoint = ? AND until <= ?", (self._name, at + FAR_S))
        until = rest.fetchone()
        at = max(at, last or 0.0, until[0] if until else 0.0)
        newest = "FROM slots WHERE endpoint = ? ORDER BY at DESC"
        if requests is not None:
            row = query(f"SELECT at {newest} LIMIT 1 OFFSET ?", (self._name, requests - 1)).fetchone()
            at = at if row is None else max(at, row[0] + SPAN_S)
        if tokens_limit is None:
            return float(at)
        left = tokens_limit - tokens
        spent = query("SELECT total(tokens) FROM slots WHERE endpoint = ?", (self._name,)).fetchone()[0]
        if spent > left:
            for then, used in query(f"SELECT at, tokens {newest}", (self._name,)):
                left -= used
                if left < 0:
                    return float(max(at, then + SPAN_S))
        return float(at)


logger = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 0.05
"""Interval between attempts to take a place that another process holds, seconds."""

START: Final = 16
"""Initial limit of concurrent requests, if the endpoint's limit is unknown."""

WARN_EVERY_S: Final = 60.0
"""Shortest interval between warnings that limits are not shared, seconds."""


@dataclass(slots=True, eq=False)
class Slot:
    """A reserved time for one request.

    Args:
        at: When it may be sent, on the monotonic clock.
        tokens: Its tokens: first estimated, then as counted by the endpoint.
        held: Whether it still counts.
        shared: Its id in the shared ledger; ``None`` if it is not there.
    """

    at: float
    tokens: int
    held: bool = False
    shared: int | None = None


class RateLimiter:
    """Keeps all requests of one captain, in all episodes, within its limits.

    Limits hold for every span of 60 s. Waiting requests are sent first come, first served. If the endpoint
    asks one of them to wait, all wait. Used from one event loop at a time.

    Args:
        requests_per_minute: Limit of requests per minute; ``None`` for no limit.
        tokens_per_minute: Limit of tokens per minute, of prompts and answers; ``None`` for no limit.
        concurrency: Limit of concurrent requests; ``None`` for an adaptive limit that starts with
            :data:`START`.
        shared: Shares the limits with all processes of the machine. Without it, and while its files are
            unavailable, only requests of this process count.

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
                raise ValueError("limits must be at least 1, or None for no limit")
        self._clock = clock
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._slots: list[Slot] = []
        self._spent = 0
        self._not_before = 0.0
        self._concurrency = concurrency
        self._shared = shared
        self._warned_at = float("-inf")
        if concurrency is None:
            self.places = AdaptiveLimit(clock, start=START, slow_start=True)
        else:
            self.places = AdaptiveLimit(clock, start=concurrency, highest=concurrency)
        """Limit of concurrent requests."""

    def reserve(self, tokens: int, until: float) -> Slot:
        """Reserve the next slot for a request with ``tokens`` tokens.

        Raises:
            EndpointBusy: No slot before ``until`` is free.
        """
        now = self._clock.monotonic()
        at = max(now, self._not_before)
        if self._slots:
            at = max(at, self._slots[-1].at)
            self._forget(now)
            at = self._free_from(at, tokens)
        if at > now and at >= until:
            message = "its limits per minute allow no further request in time"
            raise EndpointBusy(message, retry_after_s=at - now)
        slot = Slot(at, tokens)
        if self._shared is not None:
            with self._warning():
                slot.shared, slot.at = self._shared.reserve(
                    at, until, tokens, requests=self._requests, tokens_limit=self._tokens
                )
        if self._requests is not None or self._tokens is not None:
            slot.held = True
            self._slots.append(slot)
            self._spent += tokens
        return slot

    def settle(self, slot: Slot, tokens: int) -> None:
        """Replace the slot's estimate by the tokens used; 0 if the request was not sent."""
        if slot.shared is not None and self._shared is not None:
            with self._warning():
                self._shared.settle(slot.shared, tokens)
        if slot.held:
            self._spent += tokens - slot.tokens
            slot.tokens = tokens
            if not tokens:
                self._slots.remove(slot)
                slot.held = False

    def rest(self, seconds: float) -> None:
        """Send nothing for ``seconds``, because the endpoint asked to wait."""
        self._not_before = max(self._not_before, self._clock.monotonic() + seconds)
        if self._shared is not None:
            with self._warning():
                self._shared.rest(seconds)

    async def shared_slot(self, until: float) -> SharedSlot | None:
        """Wait for a place among the requests of all processes; the caller releases it.

        Returns:
            The place; ``None`` if places are not shared.

        Raises:
            EndpointBusy: No place became free before ``until``.
        """
        if self._shared is None or self._concurrency is None:
            return None
        with self._warning():
            while (place := self._shared.take_slot(self._concurrency)) is None:
                if self._clock.monotonic() + LOOK_AGAIN_S >= until:
                    raise EndpointBusy("too many concurrent requests of all processes: none finished in time")
                await self._clock.sleep(LOOK_AGAIN_S)
            return place
        return None

    def _free_from(self, at: float, tokens: int) -> float:
        """Return the first time from ``at`` at which a further request is allowed."""
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
        """Delete slots older than a minute."""
        old = 0
        while old < len(self._slots) and self._slots[old].at + SPAN_S <= now:
            self._slots[old].held = False
            self._spent -= self._slots[old].tokens
            old += 1
        del self._slots[:old]

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Go on without the shared files if they are unavailable."""
        try:
            yield
        except UNAVAILABLE as error:
            now = self._clock.monotonic()
            if now >= self._warned_at + WARN_EVERY_S:
                self._warned_at = now
                message = "limits are not shared with other processes, their files are unavailable: %s"
                logger.warning(message, error)
