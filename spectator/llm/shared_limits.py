"""The limits of one endpoint over all processes of a machine, kept by files in one folder."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has no flock: there each process keeps places of its own
    fcntl = None  # type: ignore[assignment]

from spectator.clock import Clock
from spectator.errors import EndpointBusy

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


class SharedPlace:
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

    def take_place(self, places: int) -> SharedPlace | None:
        """Take one of ``places`` places; ``None`` when all are held, here or in another process."""
        if fcntl is None:
            return SharedPlace(os.open(os.devnull, os.O_RDONLY))
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
            return SharedPlace(held)
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
