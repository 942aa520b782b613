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
"""The tables that hold an episode; checkpoints are no part of a record."""

_BATCH: Final = 500
"""Episodes that are copied by one statement."""


def copy_episodes(source: Path, target: Path, episode_ids: Sequence[str]) -> None:
    """Write a new journal that holds these episodes and nothing else; every row is as it was.

    The source is read in one transaction and may be written meanwhile. The copy is a single file, complete
    without a write-ahead log.

    Args:
        source: A journal's file.
        target: Where the copy goes; there is nothing yet.
        episode_ids: Which episodes; they have ended.

    Raises:
        JournalError: The source cannot be read, lacks one of them, or the copy cannot be written.
    """
    made = open_database(f"sqlite:///{target}", writable=True)
    made.engine.dispose()
    assert made.lock is not None
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
        made.lock.release()
    if copied != len(episode_ids):
        raise JournalError(f"{source} has {copied} of the {len(episode_ids)} episodes that are to be copied")


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
    """Let a journal's file from elsewhere through only if it holds our tables and nothing that computes.

    A database may bring views and triggers of its own, which run when it is read.

    Raises:
        JournalDamaged: It is no such file.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            found = database.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise JournalDamaged(f"{path.name} is no journal, or not all of one: {error}") from error
    for problem in _foreign(found):
        raise JournalDamaged(f"{path.name} {problem}")


def _foreign(found: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    tables = {name for kind, name, _ in found if kind == "table"}
    for kind, name, of in found:
        if kind not in ("table", "index") or of not in metadata.tables:
            yield f"holds the {kind} {name[:80]!r}, which no journal of Spectator has"
    for table in (schema, *COPIED):
        if table.name not in tables:
            yield f"lacks the table {table.name!r} of a journal"


MOVED: Final = (events, messages, calls, truths, checkpoints)
"""The tables that hold an episode beside its line of the index, which comes last and makes it one."""

BATCH_ROWS: Final = 500
"""Rows that are read at once, and written by one statement at most."""

BATCH_BYTES: Final = 4_000_000
"""Bytes after which a statement is full, so that none takes longer than the server lets it."""


@dataclass(frozen=True, slots=True)
class MigratedEpisode:
    """What became of an episode.

    Args:
        episode_id: Its id.
        events: Its events.
        digest: The chain's digest up to its last event, 64 hexadecimal digits.
        was_there: Whether it had been copied before, and was only looked at.
    """

    episode_id: str
    events: int
    digest: str
    was_there: bool


class JournalMigration:
    """The copying of a journal; use :func:`moving`.

    Args:
        source: An SQLite journal, whose lock is held.
        target: A journal in PostgreSQL.
    """

    def __init__(self, source: Database, target: Database) -> None:
        self._source = source
        self._target = target

    def episodes(self) -> list[str]:
        """The episodes of the source, in the order of their ids.

        Raises:
            JournalError: One of the two cannot be read.
            ConfigurationError: The target holds an episode that the source lacks.
        """
        every = select(episodes.c.episode_id).order_by(episodes.c.episode_id)
        with _read(self._source) as source, _read(self._target) as target:
            found = list(source.scalars(every))
            strange = sorted(set(target.scalars(every)) - set(found))
        if strange:
            raise ConfigurationError(
                f"the database holds {strange[0]}, which the journal to be copied lacks; name an empty "
                "database, or the one that an interrupted copy of this very journal went to"
            )
        return found

    def move(self, episode_id: str) -> MigratedEpisode:
        """Copy an episode in one transaction, and compare every row, and the chain of digests, in it.

        One that is there already is compared by its last digest, whatever was played on since.

        Raises:
            EpisodeDamaged: It is not as it was recorded, here or there; nothing of it is copied.
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
                    raise EpisodeDamaged(f"{episode_id} did not arrive as it was recorded")
        return MigratedEpisode(episode_id, chain.seq, chain.digest.hex(), was_there=False)

    def _was_there(self, episode_id: str, chain: Chain) -> bool:
        """Whether the target holds the episode, as far as the source's goes.

        Raises:
            EpisodeDamaged: It holds another one of this id.
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
            raise EpisodeDamaged(f"{episode_id} is in the database already, and is not this one")
        return True

    def _proved(self, connection: Connection, episode_id: str) -> Chain:
        """The chain of an episode, once it holds.

        Raises:
            EpisodeDamaged: It does not.
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
    """Open two journals to copy the one into the other; no other process may write the first meanwhile.

    Args:
        source_url: Of an SQLite journal.
        target_url: Of a database on a PostgreSQL server; the tables are made where there are none.

    Raises:
        ConfigurationError: One of them cannot be used for this, or another process writes the first.
        JournalError: One cannot be opened.
    """
    source = open_database(source_url, writable=True)
    try:
        target = open_database(target_url, writable=True)
        try:
            yield JournalMigration(source, target)
        finally:
            _leave(target)
    finally:
        source.engine.dispose()
        if source.lock is not None:
            source.lock.release()


def _leave(target: Database) -> None:
    """Be no process any more that others look after."""
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
    """Copy the rows of one episode, and compare them as they are read back.

    Raises:
        EpisodeDamaged: They are not the same.
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
        raise EpisodeDamaged(f"{episode_id}: what lies in {table.name} did not arrive as it was recorded")


def _rows(connection: Connection, table: Table, episode_id: str) -> Iterator[tuple[Any, ...]]:
    """The rows of an episode, in the order of their keys."""
    wanted = select(table).where(table.c.episode_id == episode_id).order_by(*table.primary_key.columns)
    for row in connection.execute(wanted.execution_options(yield_per=BATCH_ROWS)):
        yield tuple(_plain(value, table) for value in row)


def _plain(value: Any, table: Table) -> Any:
    """A value as both have it: PostgreSQL takes no zero character in the index's texts for people."""
    return storable(value) if table is episodes else value


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Rows in groups, of so many rows and about so many bytes at most."""
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
