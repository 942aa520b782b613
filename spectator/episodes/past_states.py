"""Find the viewers' state after any event of a long record.

A record is folded once, as far as needed, and its state is kept at intervals: in memory and, for an ended
record, in a file beside the journal, for later servers. The file is only a cache: it may be deleted at any
time, and anything missing, damaged or of another version is folded again. It contains only ended records,
which have no embargo.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from spectator.episodes.view import State, fold_into
from spectator.errors import EpisodeDamaged
from spectator.events import decode_json, encode_json
from spectator.journal.contract import EpisodeSummary
from spectator.journal.encoding import compressed, expanded

logger = logging.getLogger(__name__)

FILE: Final = "states.db"
"""The file's name in the data folder."""

PAGE_BYTES: Final = 4096

ROW_BYTES: Final = 120
"""Approximate overhead of a state beyond its body, in bytes."""

FILLED: Final = 0.8
"""Share of the file that states may fill; SQLite needs the rest."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
    episode_id TEXT PRIMARY KEY, version TEXT NOT NULL, used INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    episode_id TEXT NOT NULL, seq INTEGER NOT NULL, size INTEGER NOT NULL,
    digest BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (episode_id, seq)
);
"""

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's error codes for a damaged file."""


_Result = TypeVar("_Result")


class StateFile:
    """A cache file of states by episode and event; blocks, never raises, and is thread-safe.

    Args:
        path: The file; created on the first write.
        most_bytes: Maximum size in bytes, at least 64 KiB. Least recently used records are removed first.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     states = StateFile(Path(folder) / FILE, 1_000_000)
    ...     states.keep("ep-1", "one", {2000: b"{}"})
    ...     states.read("ep-1", "one", 2000), states.sizes("ep-1", "another")
    (b'{}', {})
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = max(most_bytes, 16 * PAGE_BYTES)
        self._order = threading.Lock()

    def sizes(self, episode_id: str, version: str) -> dict[int, int]:
        """Return the events after which a state of the record is kept, with the size of each in bytes.

        Args:
            version: What the states depend on; states of another version are removed.
        """

        def work(file: sqlite3.Connection) -> dict[int, int]:
            if not _touch(file, episode_id, version):
                return {}
            mine = "SELECT seq, size FROM states WHERE episode_id = ?"
            return {int(seq): int(size) for seq, size in file.execute(mine, (episode_id,))}

        return self._do(work) or {}

    def read(self, episode_id: str, version: str, seq: int) -> bytes | None:
        """Return the state after event ``seq``; ``None`` if it is missing or damaged."""

        def work(file: sqlite3.Connection) -> bytes | None:
            wanted = "SELECT digest, body FROM states WHERE episode_id = ? AND seq = ?"
            digest, body = file.execute(wanted, (episode_id, seq)).fetchone() or (None, None)
            if isinstance(body, bytes) and digest == _digest(episode_id, version, seq, body):
                return body
            if digest is not None:
                logger.warning("episode %s: the kept state after event %d is damaged", episode_id, seq)
                file.execute("DELETE FROM states WHERE episode_id = ? AND seq = ?", (episode_id, seq))
            return None

        return self._do(work)

    def keep(
        self, episode_id: str, version: str, bodies: Mapping[int, bytes], dropped: Collection[int] = ()
    ) -> None:
        """Keep the states ``bodies``, by the events that they follow, and remove those of ``dropped``."""
        room = int(self._most_bytes * FILLED)
        wanted = sum(map(len, bodies.values())) + ROW_BYTES * len(bodies)

        def work(file: sqlite3.Connection) -> None:
            if not _touch(file, episode_id, version):
                _newest(file, episode_id, version)
            gone = [(episode_id, seq) for seq in dropped]
            file.executemany("DELETE FROM states WHERE episode_id = ? AND seq = ?", gone)
            _make_room(file, room - wanted, episode_id)
            rows = (
                (episode_id, seq, len(body), _digest(episode_id, version, seq, body), body)
                for seq, body in bodies.items()
            )
            file.executemany("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?)", rows)

        if wanted <= room:
            self._do(work, make=True)

    def forget(self, episode_id: str) -> None:
        """Remove the states of an episode."""
        self._do(lambda file: _forget(file, episode_id))

    def episodes(self) -> list[str]:
        """List the episodes in the file."""
        ids = "SELECT episode_id FROM records ORDER BY episode_id"
        return self._do(lambda file: [str(one) for (one,) in file.execute(ids)]) or []

    def _do(self, work: Callable[[sqlite3.Connection], _Result], *, make: bool = False) -> _Result | None:
        """Do ``work`` in one transaction; ``None`` if there is no file or it is unusable."""
        with self._order:
            try:
                known = self._path.exists()
                if known and self._path.stat().st_size > self._most_bytes:
                    self._delete("it exceeds its maximum size")
                elif not known and not make:
                    return None
                with closing(sqlite3.connect(self._path, timeout=5.0)) as file, file:
                    self._prepare(file)
                    return work(file)
            except (sqlite3.Error, OSError) as error:
                logger.warning("the states of long records cannot be kept in %s: %s", self._path, error)
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                    self._delete("it is damaged")
            except (TypeError, ValueError) as error:
                self._delete(f"its contents are invalid: {error}")
            return None

    def _prepare(self, file: sqlite3.Connection) -> None:
        for name, value in {
            "page_size": PAGE_BYTES,
            "max_page_count": self._most_bytes // PAGE_BYTES,
            "synchronous": "OFF",  # the digests detect what a power cut damages
            "secure_delete": "ON",
        }.items():
            file.execute(f"PRAGMA {name}={value}").close()
        file.executescript(_SCHEMA)

    def _delete(self, why: str) -> None:
        logger.warning("deleting %s, which will be created again: %s", self._path, why)
        for path in (self._path, self._path.with_name(f"{self._path.name}-journal")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _touch(file: sqlite3.Connection, episode_id: str, version: str) -> bool:
    """Mark a record as used, or remove it if it has another version; return whether it is there."""
    known = file.execute("SELECT version FROM records WHERE episode_id = ?", (episode_id,)).fetchone()
    if known is None:
        return False
    if known[0] != version:
        _forget(file, episode_id)
        return False
    _newest(file, episode_id, version)
    return True


def _newest(file: sqlite3.Connection, episode_id: str, version: str) -> None:
    file.execute(
        "INSERT OR REPLACE INTO records SELECT ?, ?, coalesce(max(used), 0) + 1 FROM records",
        (episode_id, version),
    )


def _make_room(file: sqlite3.Connection, room: int, asking: str) -> None:
    """Remove the least recently used records until the rest fits into ``room`` bytes."""
    sizes = dict(
        file.execute(f"SELECT episode_id, sum(size) + {ROW_BYTES} * count(*) FROM states GROUP BY episode_id")
    )
    taken = sum(sizes.values())
    oldest = [one for (one,) in file.execute("SELECT episode_id FROM records ORDER BY used")]
    for episode_id in [*(one for one in oldest if one != asking), asking]:
        if taken <= room:
            return
        file.execute("DELETE FROM states WHERE episode_id = ?", (episode_id,))
        if episode_id != asking:
            file.execute("DELETE FROM records WHERE episode_id = ?", (episode_id,))
        taken -= sizes.get(episode_id, 0)


def _forget(file: sqlite3.Connection, episode_id: str) -> None:
    for table in ("states", "records"):
        file.execute(f"DELETE FROM {table} WHERE episode_id = ?", (episode_id,))


def _digest(episode_id: str, version: str, seq: int, body: bytes) -> bytes:
    """Return the digest that ties a state to its record and event."""
    return sha256(f"{episode_id}\x1f{version}\x1f{seq}\x1f".encode() + body).digest()


SPACING: Final = 2_000
"""Events between kept states."""

SPACING_CHARACTERS: Final = 4_000_000
"""Characters of record between kept states, if events are large."""

READ_EVENTS: Final = 512
"""Maximum events read and folded at once, in a thread."""

READ_CHARACTERS: Final = 1_000_000
"""Characters read at once, estimated from the preceding events."""

MOST_STATES: Final = 2_048
"""Maximum kept states of one record; beyond it, every other one is dropped."""

MAX_BYTES: Final = 8_000_000
"""Maximum compressed bytes of one record's states; beyond it, every other one is dropped."""

MOST_RECORDS: Final = 8
"""Maximum records with states in memory; the least recently used is dropped first."""

WRITTEN_TOGETHER: Final = 32
"""States written to the file at once."""

FORMAT: Final = 1
"""Version of the kept states' format."""


Turn = Callable[[], AbstractAsyncContextManager[object]]
"""Makes the context in which one piece of a record is folded; it may wait before entering."""


class PastReader(Protocol):
    """Reads the viewers' events, undecoded, and finds kept states."""

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        """Return the journal's newest state up to event ``until``, with its number; 0 for none."""

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Read the events with ``seq > after_seq``, in order."""


class PastStates:
    """Computes the state of a record after any of its events.

    Args:
        file: Keeps states beyond this process; not kept if omitted.
        turn: Context in which each piece is folded; none if omitted.
    """

    def __init__(
        self,
        records: PastReader,
        *,
        spacing: int = SPACING,
        file: StateFile | None = None,
        turn: Turn = nullcontext,
    ) -> None:
        self._records = records
        self._spacing = spacing
        self._turn = turn
        self._file = file
        self._marks: OrderedDict[tuple[str, str], _Marks] = OrderedDict()

    async def state(self, summary: EpisodeSummary, seq: int) -> State:
        """Return the viewers' state after event ``seq``.

        Args:
            seq: Number of the event, 0 to ``head_seq``; 0 is before the first.

        Raises:
            JournalError: The record cannot be read.
            EpisodeDamaged: It ends before ``seq``.
        """
        marks = await self._marks_of(summary)
        if seq - marks.before(seq) > marks.spacing:
            kept, state = await self._records.kept_state(summary, seq)
            if kept > marks.before(seq):
                marks.keep(kept, await asyncio.to_thread(_packed, state))
        try:
            known = await self._bring_near(summary, marks, seq)
            return await self._fold(summary, marks, known, seq)
        finally:
            await self._write(marks)

    async def complete(self, summary: EpisodeSummary) -> None:
        """Keep states of an entire ended record, for viewers who jump anywhere in it.

        Raises:
            JournalError: The record cannot be read.
        """
        marks, seq = await self._marks_of(summary), 0
        try:
            while (seq := seq + marks.spacing) < summary.head_seq:
                await self._bring_near(summary, marks, seq)
        finally:
            await self._write(marks)

    async def _marks_of(self, summary: EpisodeSummary) -> _Marks:
        key = (summary.episode_id, summary.epoch)
        marks = self._marks.get(key)
        if marks is None or marks.digest not in (None, summary.digest):  # the record was replaced
            marks = self._marks[key] = _Marks(summary.episode_id, self._spacing)
        self._marks.move_to_end(key)
        while len(self._marks) > MOST_RECORDS:
            self._marks.popitem(last=False)
        over = summary.ended_at is not None and summary.digest is not None
        if over and marks.digest is None and self._file is not None:
            version = f"{FORMAT} {summary.epoch} {summary.digest}"
            sizes = await asyncio.to_thread(self._file.sizes, summary.episode_id, version)
            if marks.digest is None:
                marks.find(version, sizes)
        if over:
            marks.digest = summary.digest
        return marks

    async def _bring_near(self, summary: EpisodeSummary, marks: _Marks, seq: int) -> tuple[int, bytes]:
        """Return a state shortly before event ``seq``, with its number; keeps others on the way."""
        while seq - (known := await self._known(marks, seq))[0] > marks.spacing:
            async with marks.order:  # released after each state, so that other readers can go on
                after, body = await self._known(marks, seq)
                if seq - after > marks.spacing:
                    last = min(seq, marks.spacing * (after // marks.spacing + 1))
                    state = await self._fold(summary, marks, (after, body), last)
                    marks.keep(last, await asyncio.to_thread(_packed, state))
            if len(marks.unwritten) >= WRITTEN_TOGETHER:
                await self._write(marks)
        return known

    async def _known(self, marks: _Marks, seq: int) -> tuple[int, bytes]:
        """Return the nearest kept state up to event ``seq``, with its number."""
        while True:
            known = marks.before(seq)
            body = marks.bodies.get(known)
            if body is None and self._file is not None and marks.version is not None:
                body = await asyncio.to_thread(self._file.read, marks.episode_id, marks.version, known)
            if body is not None:
                return known, body
            marks.lose(known)

    async def _fold(
        self, summary: EpisodeSummary, marks: _Marks, known: tuple[int, bytes], last: int
    ) -> State:
        """Fold the state after event ``last`` from an earlier one."""
        (after, body), size, most = known, 0, READ_EVENTS
        state = await asyncio.to_thread(_unpacked, body)
        while after < last:
            limit = min(most, last - after)
            async with self._turn():
                texts = await self._records.texts(summary.episode_id, after_seq=after, limit=limit)
                if not texts:
                    raise EpisodeDamaged(f"the record of {summary.episode_id} ends before event {last}")
                await asyncio.to_thread(fold_into, state, texts, summary.episode_id)
            after += len(texts)
            characters = sum(map(len, texts))
            most = max(1, min(READ_EVENTS, 2 * most, READ_CHARACTERS * len(texts) // max(1, characters)))
            size += characters
            if size > SPACING_CHARACTERS and after < last:
                marks.keep(after, await asyncio.to_thread(_packed, state))
                size = 0
        return state

    async def _write(self, marks: _Marks) -> None:
        """Write unwritten states to the file, once the record has ended."""
        if self._file is None or marks.version is None or not (marks.unwritten or marks.dropped):
            return
        bodies, dropped = marks.written()
        await asyncio.to_thread(self._file.keep, marks.episode_id, marks.version, bodies, dropped)


class _Marks:
    """The kept states of one record, by the number of the event that they follow."""

    def __init__(self, episode_id: str, spacing: int) -> None:
        self.episode_id = episode_id
        self.spacing = spacing
        self.order = asyncio.Lock()
        self.digest: str | None = None
        """Digest of the record, once it has ended."""
        self.version: str | None = None
        """Version of the record in the file, once it has ended and there is a file."""
        self.bodies: dict[int, bytes] = {0: b"{}"}
        """States folded by this process; the others are in the file."""
        self.unwritten: set[int] = set()
        """States that are not in the file yet."""
        self.dropped: set[int] = set()
        """States to remove from the file."""
        self._sizes = {0: 0}
        self._places = [0]

    def before(self, seq: int) -> int:
        """Return the number of the last kept state up to event ``seq``."""
        return self._places[bisect_right(self._places, seq) - 1]

    def keep(self, seq: int, body: bytes) -> None:
        """Keep the state after event ``seq``."""
        if seq not in self._sizes:
            insort(self._places, seq)
            self._sizes[seq] = len(body)
            self.bodies[seq] = body
            self.unwritten.add(seq)
            self._thin_out()

    def find(self, version: str, sizes: dict[int, int]) -> None:
        """Add the states that the file has."""
        self.version = version
        self.unwritten.difference_update(sizes)
        self._sizes = {**sizes, **self._sizes}
        self._places = sorted(self._sizes)
        self._thin_out()

    def written(self) -> tuple[dict[int, bytes], set[int]]:
        """Return the states to write and those to remove, and count both as done."""
        bodies, dropped = {seq: self.bodies[seq] for seq in self.unwritten}, self.dropped
        self.unwritten, self.dropped = set(), set()
        return bodies, dropped

    def lose(self, seq: int) -> None:
        """Forget the state after event ``seq``, which is not in the file."""
        if seq in self._sizes and seq != 0:
            del self._sizes[seq]
            self._places.remove(seq)
            self.bodies.pop(seq, None)
            self.unwritten.discard(seq)

    def _thin_out(self) -> None:
        while len(self._places) > MOST_STATES or (
            len(self._places) > 2 and sum(self._sizes.values()) > MAX_BYTES
        ):
            for seq in self._places[1::2]:
                if seq not in self.unwritten:
                    self.dropped.add(seq)
                self.lose(seq)
            self.spacing *= 2


def _packed(state: State) -> bytes:
    return compressed(encode_json(dict(state)).encode())


def _unpacked(body: bytes) -> dict[str, Any]:
    state: dict[str, Any] = decode_json(expanded(body).decode())
    return state
