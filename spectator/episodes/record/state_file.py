"""The file beside the journal that keeps what viewers saw at places of long records, folded once.

Nothing in it is part of a record: it may be deleted at any time, and what is missing, damaged or of another
record or version is folded anew. Only records that have ended are kept in it, of which nothing is withheld.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

logger = logging.getLogger(__name__)

FILE: Final = "states.db"
"""Its name in the data folder."""

PAGE_BYTES: Final = 4096

ROW_BYTES: Final = 120
"""About what a state takes beside its body."""

FILLED: Final = 0.8
"""The share of the file that states may take; the rest is what SQLite needs between them."""

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
"""SQLite's codes of errors that say that a file is not what it wrote."""


_Result = TypeVar("_Result")


class StateFile:
    """States of records by episode and event; blocks, never fails, and is safe to use from several threads.

    Args:
        path: The file; made when something is kept first.
        most_bytes: Bytes that it may take, at least 64 KiB. Records that were asked for longest ago go first.

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
        """The events after which the state of a record is kept, with the bytes of each.

        Args:
            episode_id: Whose.
            version: What the states depend on; states of another version are forgotten.
        """

        def work(file: sqlite3.Connection) -> dict[int, int]:
            if not _touch(file, episode_id, version):
                return {}
            mine = "SELECT seq, size FROM states WHERE episode_id = ?"
            return {int(seq): int(size) for seq, size in file.execute(mine, (episode_id,))}

        return self._do(work) or {}

    def read(self, episode_id: str, version: str, seq: int) -> bytes | None:
        """The state after event ``seq``; ``None`` where it is not kept, or is not as it was."""

        def work(file: sqlite3.Connection) -> bytes | None:
            wanted = "SELECT digest, body FROM states WHERE episode_id = ? AND seq = ?"
            digest, body = file.execute(wanted, (episode_id, seq)).fetchone() or (None, None)
            if isinstance(body, bytes) and digest == _digest(episode_id, version, seq, body):
                return body
            if digest is not None:
                logger.warning("episode %s: its kept state after event %d is not used", episode_id, seq)
                file.execute("DELETE FROM states WHERE episode_id = ? AND seq = ?", (episode_id, seq))
            return None

        return self._do(work)

    def keep(
        self, episode_id: str, version: str, bodies: Mapping[int, bytes], dropped: Collection[int] = ()
    ) -> None:
        """Keep the states of ``bodies``, by the events that they follow, and forget those of ``dropped``."""
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
        """Forget the states of an episode."""
        self._do(lambda file: _forget(file, episode_id))

    def episodes(self) -> list[str]:
        """The episodes of which something is kept."""
        ids = "SELECT episode_id FROM records ORDER BY episode_id"
        return self._do(lambda file: [str(one) for (one,) in file.execute(ids)]) or []

    def _do(self, work: Callable[[sqlite3.Connection], _Result], *, make: bool = False) -> _Result | None:
        """Do ``work`` in one transaction; ``None`` where there is no file or it is of no use."""
        with self._order:
            try:
                known = self._path.exists()
                if known and self._path.stat().st_size > self._most_bytes:
                    self._delete("it is larger than it may be")
                elif not known and not make:
                    return None
                with closing(sqlite3.connect(self._path, timeout=5.0)) as file, file:
                    self._prepare(file)
                    return work(file)
            except (sqlite3.Error, OSError) as error:
                logger.warning("what viewers saw of long records is not kept in %s: %s", self._path, error)
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                    self._delete("it is damaged")
            except (TypeError, ValueError) as error:
                self._delete(f"it holds what nobody wrote: {error}")
            return None

    def _prepare(self, file: sqlite3.Connection) -> None:
        for name, value in {
            "page_size": PAGE_BYTES,
            "max_page_count": self._most_bytes // PAGE_BYTES,
            "synchronous": "OFF",  # what a power cut spoils does not fit its digest
            "secure_delete": "ON",
        }.items():
            file.execute(f"PRAGMA {name}={value}").close()
        file.executescript(_SCHEMA)

    def _delete(self, why: str) -> None:
        logger.warning("%s is deleted and made again: %s", self._path, why)
        for path in (self._path, self._path.with_name(f"{self._path.name}-journal")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _touch(file: sqlite3.Connection, episode_id: str, version: str) -> bool:
    """Note that a record is asked for; of another version it is forgotten. Whether it is known."""
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
    """Forget records that were asked for longest ago until the rest takes no more than ``room`` bytes."""
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
    """What ties a state to its record and its place."""
    return sha256(f"{episode_id}\x1f{version}\x1f{seq}\x1f".encode() + body).digest()
