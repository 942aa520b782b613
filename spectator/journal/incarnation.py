"""Detect that the database went back in time, and keep what must then be appended again.

A promoted standby that lagged, a restored backup, or a disk that lost writes can undo acknowledged commits.
So every commit belongs to an *incarnation* of the database: one run of a PostgreSQL server on one timeline
of one cluster, or an embedded file at one place since one boot of the machine, until its write-ahead log
loses commits. A new incarnation may lack the last commits of the one before.

The process that records an episode keeps the acknowledged end of its record in memory. If the database's
record is shorter and nothing else was written to it, that end is appended again: the digests must continue
those of the database. Otherwise the episode continues from the database's record in a new epoch.

:class:`Anchor` detects that the files of an open embedded journal were moved, removed or truncated.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, insert, select

from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments, extend
from spectator.journal.coordination import LeaseNotHeld
from spectator.journal.schema import episodes, events, incarnations

_NAME: Final = (
    "SELECT system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
    " || '/' || extract(epoch FROM pg_postmaster_start_time())::text FROM pg_control_system()"
)
_NEXT: Final = {
    "postgresql": "SELECT pg_current_xact_id()::text::bigint",
    "sqlite": "SELECT coalesce(max(rowid), 0) + 1 FROM events",
}
_LAST: Final = {
    "postgresql": "SELECT txid FROM events WHERE episode_id = %s "
    "AND txid <= pg_current_xact_id()::text::bigint ORDER BY seq DESC LIMIT 1",
    "sqlite": "SELECT rowid FROM events WHERE episode_id = ? ORDER BY seq DESC LIMIT 1",
}

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Changes when the machine starts, after which an embedded journal may lack commits that it acknowledged."""

_AT_FDCWD: Final = -100
_STATX_BTIME: Final = 0x800
_BTIME_OFFSET: Final = 80
"""Arguments of Linux's ``statx``, and the place of a file's time of birth in its answer."""


def name_of(connection: Connection) -> str:
    """Return the name of the database's current incarnation."""
    if connection.dialect.name == "postgresql":
        return str(connection.exec_driver_sql(_NAME).scalar_one())
    path = connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
    status, boot = os.stat(path), BOOT.read_text().strip() if BOOT.exists() else ""
    return f"{status.st_dev}/{status.st_ino}/{_birth(path)}/{boot}"


def _birth(path: str) -> str:
    """Return when a file was made, as a restored one may have the inode of the removed one.

    Empty where the system does not say it.
    """
    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError, TypeError):
        return str(getattr(os.stat(path), "st_birthtime", ""))
    found = ctypes.create_string_buffer(256)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found) != 0:
        return ""
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_OFFSET)
    return f"{seconds}.{nanoseconds:09}"


_LOG_HEADER: Final = struct.Struct(">16xII8x")
_FRAME_HEADER: Final = struct.Struct(">4xIII8x")
"""Headers of a write-ahead log, with its salts, and of a frame, with the size of the database after a commit
and the log's salts (SQLite's file format, section 4.1)."""

_EARLIER: Final = 1_000_000
"""How often a log may have begun again, which increments its first salt, since a frame was written."""


def lost_commits(connection: Connection) -> bool:
    """Return whether the write-ahead log of an embedded file lost commits since the file was written.

    SQLite ignores the frames of a log from the first one that does not match its checksum on. A process that
    is killed between two writes of a commit that it never acknowledged may leave the same traces.

    Args:
        connection: A connection outside a transaction, while no other process writes the file.
    """
    raw: Any = connection.connection.dbapi_connection
    try:
        _, recovered, _ = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        ((written,),) = raw.execute("PRAGMA user_version").fetchall()
        ((page_size,),) = raw.execute("PRAGMA page_size").fetchall()
        path = raw.execute("PRAGMA database_list").fetchall()[0][2]
    except sqlite3.Error:
        return False  # opening continues, and names the problem
    if recovered == 0:  # the log is empty, removed, or damaged at its beginning
        return bool(written)
    return recovered > 0 and _lacks_frames(f"{path}-wal", recovered, page_size)


def _lacks_frames(path: str, recovered: int, page_size: int) -> bool:
    """Return whether a log has a commit, or a damaged header, after its first ``recovered`` frames."""
    with open(path, "rb") as log:
        salt, salt_2 = _LOG_HEADER.unpack(log.read(_LOG_HEADER.size))
        step = _FRAME_HEADER.size + page_size
        log.seek(_LOG_HEADER.size + recovered * step)
        while len(frame := log.read(step)) >= _FRAME_HEADER.size:
            pages, frame_salt, frame_salt_2 = _FRAME_HEADER.unpack_from(frame)
            if (frame_salt, frame_salt_2) == (salt, salt_2):
                if pages:
                    return True
            elif not 0 < (salt - frame_salt) % 2**32 < _EARLIER:
                return True
    return False


def enter(connection: Connection, *, lost: bool = False) -> int:
    """Return where the current incarnation begins; records it if it is new.

    Args:
        lost: Whether an embedded file lost commits, so that a new one begins.
    """
    newest = select(incarnations).order_by(incarnations.c.number.desc()).limit(1)
    incarnations.create(connection, checkfirst=True)  # an earlier release made the tables
    last, name = connection.execute(newest).first(), name_of(connection)
    if last is not None and last.name.partition("#")[0] == name:
        if not lost:
            return int(last.begins)
        name += f"#{last.number + 1}"
    begins = connection.exec_driver_sql(_NEXT[connection.dialect.name]).scalar_one() if last else 0
    row = {"number": last.number + 1 if last else 0, "name": name, "begins": begins}
    connection.execute(insert(incarnations).values(row))
    return int(begins)


def is_new_since(connection: Connection, episode_id: str) -> bool:
    """Return whether an episode's last event was committed in an earlier incarnation.

    So later events may have been acknowledged and lost.
    """
    begins = enter(connection)
    last = connection.exec_driver_sql(_LAST[connection.dialect.name], (episode_id,)).scalar()
    return last is None or last < begins


KEPT_S: Final = 120.0
"""Seconds for which acknowledged events are kept."""

KEPT_APPENDS: Final = 512
"""Acknowledged appends that are kept of an episode."""

KEPT_CHARACTERS: Final = 32_000_000
"""Characters of events that a server keeps of all episodes."""

KEPT_EPISODES: Final = 4096
"""Episodes of which acknowledged events are known."""


class AcknowledgedAppend(NamedTuple):
    """An acknowledged append, and when it was acknowledged."""

    events: Sequence[RecordedEvent]
    attachments: Attachments | None
    at: float
    staged: bool = False
    first: RecordedEvent | None = None

    @property
    def characters(self) -> int:
        """Return the length of its events."""
        return sum(len(one.text) for one in self.events)


@dataclass(slots=True)
class _Tail:
    """The end of an episode's record: the appends after event ``begins``, up to event ``seq``."""

    begins: int
    digest: bytes
    seq: int = 0
    ended: bool = False
    kept: deque[AcknowledgedAppend] = field(default_factory=deque)

    def is_over(self, now: float) -> bool:
        """Return whether the episode has ended, and its end was kept for long enough."""
        return self.ended and (not self.kept or self.kept[-1].at < now - KEPT_S)

    def drop_first(self) -> int:
        """Forget the first append; return its size."""
        first = self.kept.popleft()
        for one in first.events:
            self.digest = extend(self.digest, one.text)
        self.begins = first.events[-1].seq
        return first.characters

    def clear(self, seq: int, digest: bytes) -> int:
        """Forget all appends up to event ``seq``; return their size."""
        size = sum(one.characters for one in self.kept)
        self.kept.clear()
        self.begins, self.digest = seq, digest
        return size

    def after(self, seq: int, digest: bytes) -> list[AcknowledgedAppend] | None:
        """Return the appends after event ``seq``; ``None`` if the record up to it is another one."""
        at, known, missing = self.begins, self.digest, list(self.kept)
        while missing and at < seq:
            for one in missing.pop(0).events:
                at, known = one.seq, extend(known, one.text)
        return missing if (at, known) == (seq, digest) else None


class RecordBehind(LeaseNotHeld):
    """The record is shorter than what was acknowledged."""


class RolledBack(LeaseNotHeld):
    """The record is shorter than what was acknowledged, and cannot be continued."""


class Acknowledged:
    """The acknowledged end of each episode that this process records; belongs to the thread that writes.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.characters = 0
        """Characters of events kept at most; with 0 only the number of the last event is known."""
        self.name = ""
        """Name of the incarnation in which they were checked last."""
        self._lost: dict[str, int] = {}
        self._clock = clock
        self._tails: OrderedDict[str, _Tail] = OrderedDict()  # the last one was appended to last
        self._size = 0

    def last(self, episode_id: str) -> int:
        """Return the number of the last acknowledged event; 0 if it is not known."""
        tail = self._tails.get(episode_id)
        return 0 if tail is None else tail.seq

    def note(
        self,
        events: Sequence[RecordedEvent],
        attachments: Attachments | None,
        *,
        before: tuple[int, bytes] | None,
        after: tuple[int, bytes],
    ) -> None:
        """Keep an acknowledged append.

        Args:
            before: Number and digest of the last event before the commit; ``None`` if it cannot be appended
                again.
            after: The same after the commit.
        """
        episode_id, now = events[0].episode_id, self._clock()
        tail = self._tails.get(episode_id) or _Tail(*(before or after))
        self._tails[episode_id] = tail
        self._tails.move_to_end(episode_id)
        tail.seq, tail.ended = events[-1].seq, events[-1].type == "episode.ended"
        self._lost.pop(episode_id, None)
        if before is None or not self.characters:
            self._size -= tail.clear(*after)
        else:
            tail.kept.append(AcknowledgedAppend(events, attachments, now))
            self._size += tail.kept[-1].characters
        while tail.kept and (len(tail.kept) > KEPT_APPENDS or tail.kept[0].at < now - KEPT_S):
            self._size -= tail.drop_first()
        self._prune(now)

    def _prune(self, now: float) -> None:
        """Forget the ends of those episodes that were appended to least recently."""
        while len(self._tails) > KEPT_EPISODES or self._size > self.characters:
            self.forget(next(iter(self._tails)))
        while self._tails and next(iter(self._tails.values())).is_over(now):
            self.forget(next(iter(self._tails)))

    def forget(self, episode_id: str) -> int:
        """Forget an episode; return the number of its last acknowledged event."""
        tail = self._tails.pop(episode_id, None)
        if tail is None:
            return 0
        self._size -= sum(one.characters for one in tail.kept)
        return tail.seq

    def give_up(self, episode_id: str) -> None:
        """Forget an episode whose acknowledged events cannot all be appended again."""
        if last := self.forget(episode_id):
            self._lost[episode_id] = last

    def lost(self, episode_id: str, seq: int) -> int:
        """Return the last acknowledged event if it is later than ``seq`` and lost; else 0."""
        until = max(self._lost.get(episode_id, 0), self.last(episode_id))
        return until if until > seq else 0

    def after(self, episode_id: str, seq: int, digest: bytes) -> list[AcknowledgedAppend]:
        """Return what to append again after event ``seq``, the last one in the database.

        Raises:
            RolledBack: It is not known, or something else was written.
        """
        tail = self._tails.get(episode_id)
        missing = None if tail is None else tail.after(seq, digest)
        if missing:
            return missing
        raise RolledBack(
            f"the record of {episode_id} ends at event {seq}, but event {self.last(episode_id)} was "
            "acknowledged, and what is missing cannot be appended again: the database went back in time"
        )

    def behind(self, connection: Connection) -> list[str]:
        """List the episodes whose records are shorter than what was acknowledged.

        Those without any event were removed, unless the incarnation is a new one.
        """
        head = select(func.max(events.c.seq)).where(events.c.episode_id == episodes.c.episode_id)
        wanted = select(episodes.c.episode_id, episodes.c.ended_at, head.scalar_subquery().label("seq"))
        found = connection.execute(wanted.where(episodes.c.episode_id.in_(list(self._tails))))
        known = {row.episode_id: row for row in found}
        name, before = name_of(connection), self.name
        if name != before:
            enter(connection)
        self.name = name
        return [
            episode_id
            for episode_id, tail in self._tails.items()
            if (
                before not in {"", name}
                if (row := known.get(episode_id)) is None
                else row.ended_at is None and row.seq < tail.seq
            )
        ]


RESTART: Final = (
    "restart the server, which sets a damaged file aside, or repair the database (docs/runbook.md)"
)
"""Advice for a damaged file."""

WAL_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"")
"""First bytes of a write-ahead log (SQLite's file format, section 4.1), or of an empty one."""


class Anchor:
    """Detects that the files of an embedded journal were moved, removed or truncated.

    SQLite does not: it continues to write a removed file, which is lost, and beyond the end of a truncated
    one, which becomes unreadable.

    Args:
        path: The database's file; its write-ahead log is beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._identity, self._size = _look(self._path)
        self._log_identity, _ = _look(self._log)
        self._log_file = None if self._log_identity is None else os.open(self._log, os.O_RDONLY)
        """Open as long as the journal is, so that a commit needs no free descriptor."""

    def close(self) -> None:
        """Close the log. Safe to call twice."""
        if self._log_file is not None:
            os.close(self._log_file)
            self._log_file = None

    def hold(self, connection: Connection) -> None:
        """Check that both files are in place and not truncated.

        Args:
            connection: A connection that has written nothing yet in this transaction.

        Raises:
            OSError: A file was moved, removed or truncated.
        """
        before = self._size  # read first, because another thread may update it meanwhile
        identity, size = _look(self._path)
        if identity != self._identity:
            raise OSError("its file was moved or removed; put it back")
        if size < before and size < _bytes_of(connection):  # a WAL checkpoint may free pages
            raise OSError(f"its file was truncated; {RESTART}")
        self._size = size
        if _look(self._log)[0] != self._log_identity:
            raise OSError(
                "its write-ahead log was moved or removed; put it back, or stop the server to save it"
            )
        if self._log_file is not None and os.pread(self._log_file, 4, 0) not in WAL_MAGIC:
            raise OSError(f"its write-ahead log was overwritten or truncated; {RESTART}")


def _look(path: str) -> tuple[tuple[int, int] | None, int]:
    """Return the identity of a file, ``None`` if there is none, and its size."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None, 0
    return (status.st_dev, status.st_ino), status.st_size


def _bytes_of(connection: Connection) -> int:
    """Return the size of the database's file once the log is written back."""
    pages, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "page_size")
    )
    return pages * size
