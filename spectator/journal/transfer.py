"""Copy episodes into another journal: SQLite to SQLite, or SQLite to PostgreSQL.

Each episode is copied completely or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import SQLAlchemyError

from spectator.errors import ConfigurationError, EpisodeDamaged, JournalDamaged, JournalError
from spectator.journal.contract import Chain
from spectator.journal.database import Database, open_database, reason
from spectator.journal.inserts import columns_of, insertion_of, storable
from spectator.journal.ownership import depose
from spectator.journal.queries import links_after
from spectator.journal.schema import calls, checkpoints, episodes, events, messages, metadata, schema, truths

COPIED: Final = (events, messages, calls, truths, episodes)
"""The tables of an episode's record, which excludes checkpoints."""

_BATCH: Final = 500
"""Episodes copied by one statement."""


def copy_episodes(source: Path, target: Path, episode_ids: Sequence[str]) -> None:
    """Write a new journal with unchanged copies of these episodes only.

    The source is read in one transaction and may be written meanwhile. The copy is a single file, without a
    write-ahead log.

    Args:
        source: A journal's file.
        target: Path of the copy; must not exist.
        episode_ids: The episodes, which must have ended.

    Raises:
        JournalError: The source cannot be read, lacks one of them, or the copy cannot be written.
    """
    made = open_database(f"sqlite:///{target}", writable=True)
    made.engine.dispose()
    try:
        with closing(sqlite3.connect(target, isolation_level=None, uri=True)) as copy:
            copy.execute("ATTACH DATABASE ? AS source", (f"{source.absolute().as_uri()}?mode=ro",))
            copy.execute("BEGIN")
            for first in range(0, len(episode_ids), _BATCH):
                _copy_rows(copy, episode_ids[first : first + _BATCH])
            copy.execute("COMMIT")
            copied = copy.execute("SELECT count(*) FROM main.episodes").fetchone()[0]
            copy.execute("DETACH DATABASE source")
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            copy.execute("VACUUM")
    except sqlite3.Error as error:
        raise JournalError(f"the episodes of {source} cannot be copied: {error}") from error
    finally:
        made.close()
    if copied != len(episode_ids):
        raise JournalError(f"{source} has only {copied} of the {len(episode_ids)} episodes to copy")


def _copy_rows(copy: sqlite3.Connection, episode_ids: Sequence[str]) -> None:
    wanted = ", ".join("?" * len(episode_ids))
    for table in COPIED:
        names = ", ".join(column.name for column in table.columns)
        copy.execute(
            f"INSERT INTO main.{table.name} ({names}) SELECT {names} FROM source.{table.name} "
            f"WHERE episode_id IN ({wanted})",
            list(episode_ids),
        )


def check_sqlite_journal(path: Path) -> None:
    """Check that an untrusted journal file contains only a journal's tables and indexes.

    A database may contain views and triggers, which run when it is read.

    Raises:
        JournalDamaged: It is not such a file.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            found = database.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise JournalDamaged(f"{path.name} is not a journal, or is incomplete: {error}") from error
    for problem in _foreign(found):
        raise JournalDamaged(f"{path.name} {problem}")


def _foreign(found: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    tables = {name for kind, name, _ in found if kind == "table"}
    for kind, name, of in found:
        if kind not in ("table", "index") or of not in metadata.tables:
            yield f"contains the {kind} {name[:80]!r}, which is not part of a journal"
    for table in (schema, *COPIED):
        if table.name not in tables:
            yield f"lacks the table {table.name!r} of a journal"


MOVED: Final = (events, messages, calls, truths, checkpoints)
"""The tables of an episode except the index, whose row is copied last and completes the episode."""

BATCH_ROWS: Final = 500
"""Maximum rows read at once and written by one statement."""

BATCH_BYTES: Final = 4_000_000
"""Bytes after which a statement is full, to stay within the server's time limit."""


@dataclass(frozen=True, slots=True)
class MigratedEpisode:
    """The result of copying an episode.

    Args:
        digest: The chain's digest up to its last event, 64 hexadecimal digits.
        was_there: Whether it had been copied before and was only checked.
    """

    episode_id: str
    events: int
    digest: str
    was_there: bool


class JournalMigration:
    """Copies a journal; use :func:`moving`.

    Args:
        source: An SQLite journal, locked by this process.
    """

    def __init__(self, source: Database, target: Database) -> None:
        self._source = source
        self._target = target

    def episodes(self) -> list[str]:
        """List the episodes of the source, by id.

        Raises:
            JournalError: One of the journals cannot be read.
            ConfigurationError: The target contains an episode that the source does not.
        """
        every = select(episodes.c.episode_id).order_by(episodes.c.episode_id)
        with _read(self._source) as source, _read(self._target) as target:
            found = list(source.scalars(every))
            strange = sorted(set(target.scalars(every)) - set(found))
        if strange:
            raise ConfigurationError(
                f"the database contains {strange[0]}, which the source journal does not; use an empty "
                "database, or the target of an interrupted copy of the same journal"
            )
        return found

    def move(self, episode_id: str) -> MigratedEpisode:
        """Copy an episode in one transaction, and compare all rows and the chain of digests.

        An episode that was copied before is compared by its digest, even if the copy was continued since.

        Raises:
            EpisodeDamaged: It is damaged in the source or after the copy; nothing of it is copied.
            JournalError: It cannot be read or written now; nothing of it is copied.
        """
        with _read(self._source) as source:
            chain = self._proved(source, episode_id)
            if self._was_there(episode_id, chain):
                return MigratedEpisode(episode_id, chain.seq, chain.digest.hex(), was_there=True)
            with _written(self._target) as target:
                for table in (*MOVED, episodes):
                    _copy(source, target, table, episode_id)
                there = self._proved(target, episode_id)
                if (there.seq, there.digest) != (chain.seq, chain.digest):
                    raise EpisodeDamaged(f"the copy of {episode_id} differs from its record")
        return MigratedEpisode(episode_id, chain.seq, chain.digest.hex(), was_there=False)

    def _was_there(self, episode_id: str, chain: Chain) -> bool:
        """Return whether the target contains all of the source's episode.

        Raises:
            EpisodeDamaged: It contains another episode with this id.
        """
        with _read(self._target) as target:
            if target.scalar(select(episodes.c.seed).where(episodes.c.episode_id == episode_id)) is None:
                return False
            there = Chain()
            while there.seq < chain.seq and (links := links_after(target, episode_id, there.seq)):
                links = [link for link in links if link.seq <= chain.seq]
                if any(there.check(links)):
                    break
        if (there.seq, there.digest) != (chain.seq, chain.digest):
            raise EpisodeDamaged(f"the database already contains another episode {episode_id}")
        return True

    def _proved(self, connection: Connection, episode_id: str) -> Chain:
        """Check the chain of an episode and return it.

        Raises:
            EpisodeDamaged: The chain is broken.
        """
        noted = connection.execute(
            select(episodes.c.end_seq, episodes.c.end_digest).where(episodes.c.episode_id == episode_id)
        ).one()
        chain = Chain(head_seq=noted.end_seq, digest=noted.end_digest)
        while links := links_after(connection, episode_id, chain.seq):
            for broken in chain.check(links):
                raise EpisodeDamaged(f"{episode_id}: event {broken.seq} {broken.message}")
        for broken in chain.finish():
            raise EpisodeDamaged(f"{episode_id}: event {broken.seq} {broken.message}")
        return chain


@contextmanager
def moving(source_url: str, target_url: str) -> Iterator[JournalMigration]:
    """Open two journals for a copy; locks the source against other writers.

    Args:
        target_url: URL of a PostgreSQL database; missing tables are created.

    Raises:
        ConfigurationError: A URL is unsupported, or another process writes the source.
        JournalError: A journal cannot be opened.
    """
    source = open_database(source_url, writable=True)
    try:
        target = open_database(target_url, writable=True)
        try:
            yield JournalMigration(source, target)
        finally:
            _leave(target)
    finally:
        source.close()


def _leave(target: Database) -> None:
    """Unregister this process as a writer of the target."""
    assert target.fences is not None
    with _written(target) as connection:
        depose(connection, target.fences.name)
    target.engine.dispose()


@contextmanager
def _read(database: Database) -> Iterator[Connection]:
    try:
        with database.engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise JournalError(f"the journal cannot be read: {reason(error)}") from error


@contextmanager
def _written(database: Database) -> Iterator[Connection]:
    try:
        with database.engine.connect().execution_options(immediate=True) as connection, connection.begin():
            yield connection
    except SQLAlchemyError as error:
        raise JournalError(f"the database cannot be written: {reason(error)}") from error


def _copy(source: Connection, target: Connection, table: Table, episode_id: str) -> None:
    """Copy the rows of one episode, and compare them with those read back.

    Raises:
        EpisodeDamaged: They differ.
    """
    names = [column.name for column in table.columns]
    statement = insertion_of(table, names)
    sent, arrived = sha256(), sha256()
    for rows in _batches(_rows(source, table, episode_id)):
        target.exec_driver_sql(statement, tuple(columns_of(rows)))
        for row in rows:
            sent.update(repr(row).encode())
    for row in _rows(target, table, episode_id):
        arrived.update(repr(row).encode())
    if sent.digest() != arrived.digest():
        raise EpisodeDamaged(f"{episode_id}: the copied rows of {table.name} differ from the source")


def _rows(connection: Connection, table: Table, episode_id: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an episode, by key."""
    wanted = select(table).where(table.c.episode_id == episode_id).order_by(*table.primary_key.columns)
    for row in connection.execute(wanted.execution_options(yield_per=BATCH_ROWS)):
        yield tuple(_plain(value, table) for value in row)


def _plain(value: Any, table: Table) -> Any:
    """Convert a value to its form in both databases: PostgreSQL stores no zero characters in texts."""
    return storable(value) if table is episodes else value


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Group rows, limited by number and approximate size."""
    group: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(group) == BATCH_ROWS or size >= BATCH_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
