"""Open the journal's database: lock, settings, schema, damaged files.

A file that is not a readable journal is renamed, never overwritten.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement
from ulid import ULID

from spectator.errors import ConfigurationError, JournalDamaged, JournalError, SpectatorError
from spectator.journal import incarnation, postgres
from spectator.journal.commands import command_tables
from spectator.journal.contract import Synchronous
from spectator.journal.coordination import fleet_tables, lease_tables, reservation_tables, reserved
from spectator.journal.held_leases import HeldLeases
from spectator.journal.incarnation import Anchor
from spectator.journal.ownership import owner_tables
from spectator.journal.schema import COMMITTED, SCHEMA_VERSION, metadata, schema

try:
    import fcntl
except ImportError:  # Windows has no flock: there one process writes an embedded journal
    fcntl = None  # type: ignore[assignment]


SHARING_FILE: Final = (
    *lease_tables.sorted_tables,
    *owner_tables.sorted_tables,
    *fleet_tables.sorted_tables,
    reserved,
)
"""Tables that processes of one machine need to share an embedded journal."""

SHARED_LOCK_S: Final = 60.0
"""Seconds to wait for another process that is opening the shared journal."""

SHARED_BUSY_MS: Final = 30_000
"""Milliseconds that a commit waits for the commits of other processes."""

DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "XX001", "XX002", "58P01")
"""Prefixes of SQLite's error names, and PostgreSQL's codes, for a damaged page or a lost file."""

REPAIR: Final = "repair the database as docs/runbook.md#journal-damaged says"
"""Advice for a damaged journal on a database server; :data:`.anchor.RESTART` is that for a file."""

NEW_PRAGMAS: Final = ("page_size=8192", "auto_vacuum=INCREMENTAL")
"""Settings of a new database, which come first; on another one the second would write to the log."""

WRITER_PRAGMAS: Final = ("journal_mode=WAL", "busy_timeout=2000", "journal_size_limit=67108864")


@dataclass(frozen=True, slots=True)
class Database:
    """An open database.

    Args:
        engine: Its connections. With the execution option ``immediate`` a transaction takes the write lock
            at its beginning.
        lock: The lock of an embedded journal that this process writes.
        anchor: Checks the file of an embedded journal that this process writes.
        fences: The leases of this process, if other processes write the journal too.
    """

    engine: Engine
    lock: FileLock | SharedLock | None = None
    anchor: Anchor | None = None
    fences: HeldLeases | None = None

    def mark(self, connection: Connection, *, written: bool) -> None:
        """Note in an embedded file whether a process writes it, so that the loss of its log is noticed.

        Failures are ignored, and the last process that closes the file notes that none does.
        """
        if self.lock is None or not (written or not isinstance(self.lock, SharedLock) or self.lock.leave()):
            return
        with suppress(SQLAlchemyError, OSError):
            with connection.begin():
                connection.exec_driver_sql(f"PRAGMA user_version={int(written)}")
            if written:  # the note must be in the file itself
                run_to_its_end(connection, "PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close its connections and files, then release its lock."""
        self.engine.dispose()
        if self.anchor is not None:
            self.anchor.close()
        if self.lock is not None:
            self.lock.release()


class SharedLock:
    """The lock of an embedded journal that several processes share.

    Args:
        path: The lock file, which an exclusive writer locks too.

    Raises:
        ConfigurationError: An exclusive writer has the lock.
        JournalError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        if fcntl is None:
            raise ConfigurationError("this system has no shared file locks; use a journal in PostgreSQL")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise JournalError(f"the journal {path.parent} cannot be written here: {error}") from error
        self.alone = self._acquire(path)
        """Whether no other process writes the journal; valid until :meth:`share`."""

    def _acquire(self, path: Path) -> bool:
        limit = time.monotonic() + SHARED_LOCK_S
        while True:
            for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
                try:
                    fcntl.flock(self._file, kind | fcntl.LOCK_NB)
                    return kind == fcntl.LOCK_EX
                except BlockingIOError:
                    continue
            if os.pread(self._file, len(_SHARED), 0) != _SHARED or time.monotonic() > limit:
                os.close(self._file)
                raise ConfigurationError(_taken(path.with_suffix("")))
            time.sleep(0.01)  # another sharing process is opening it

    def mark(self) -> None:
        """Mark the lock file, so that other sharing processes wait until the journal is open."""
        os.pwrite(self._file, _SHARED, 0)

    def share(self) -> None:
        """Let other sharing processes open the journal."""
        self.alone = False
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Return whether no other process writes the journal; if one does, this gives the lock up."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)


_SHARED: Final = b"shared"
"""Content of the lock file while the journal is shared; an exclusive writer empties it."""


def open_database(
    url: str, *, writable: bool, synchronous: Synchronous = "normal", shared_as: str | None = None
) -> Database:
    """Open the database at ``url``; creates a writable one if there is none.

    Args:
        writable: Whether this process appends.
        synchronous: Whether a commit of an embedded journal waits for the disk.
        shared_as: Unique name of this process if other processes of this machine write the same embedded
            journal; ``None`` for exclusive access.

    Raises:
        ConfigurationError: See :meth:`spectator.journal.sql_journal.SqlJournal.open`.
        JournalError: See :meth:`spectator.journal.sql_journal.SqlJournal.open`.
    """
    if postgres.is_server(url):
        return _open_server(url, writable)
    try:
        location = _location(url)
        engine = create_engine(location, **({} if writable else {"creator": partial(_reader, location)}))
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"the journal's URL cannot be opened: {error}") from error
    if engine.dialect.name != "sqlite":
        raise ConfigurationError("unsupported database URL; use sqlite:/// or postgresql://")
    path = _file_of(location)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", _reopen_read_only)
    if not writable:
        if not path.exists():
            raise JournalError(f"there is no journal at {path}")
        event.listen(engine, "connect", _prepare_reader)
        return Database(_prepared(engine, url))
    if shared_as is not None:
        return _open_shared(engine, url, path, synchronous, shared_as)
    lock = _lock(path)
    event.listen(engine, "connect", partial(_prepare_writer, (f"synchronous={synchronous}",)))
    try:
        return Database(_prepared(engine, url, alone=True, join=lambda _: None), lock, Anchor(path))
    except (ConfigurationError, JournalError):
        lock.release()
        raise


def _open_shared(engine: Engine, url: str, path: Path, synchronous: Synchronous, name: str) -> Database:
    """Open an embedded journal that several processes of this machine write.

    The first of them removes the leases and registrations of dead processes.
    """
    lock = SharedLock(_lock_of(path))
    pragmas = (f"synchronous={synchronous}", f"busy_timeout={SHARED_BUSY_MS}")
    event.listen(engine, "connect", partial(_prepare_writer, pragmas))
    fences = HeldLeases(name)

    def join(connection: Connection) -> None:
        _create(SHARING_FILE, connection)
        if lock.alone:
            for name in ("leases", "fleet_leases", "rooms", "owners"):
                connection.exec_driver_sql(f"DELETE FROM {name}")
        fences.register(connection)

    try:
        if lock.alone:
            lock.mark()
        prepared = _prepared(engine, url, alone=lock.alone, join=join)
        lock.share()
        return Database(prepared, lock, Anchor(path), fences)
    except BaseException:
        lock.release()
        raise


def file_of(url: str) -> Path | None:
    """Return the file of an embedded database; ``None`` for a database server."""
    return None if postgres.is_server(url) else _file_of(_location(url))


def prove_writable(connection: Connection) -> None:
    """Write an unchanged row and commit it, because only a commit detects a full disk.

    Raises:
        DatabaseError: It cannot be written.
    """
    connection.execute(update(schema).values(version=schema.c.version))
    connection.commit()


def run_to_its_end(connection: Connection, statement: str) -> None:
    """Run an SQLite statement that works step by step, such as VACUUM, until it is done.

    Raises:
        OSError: It failed.
    """
    raw: Any = connection.connection.dbapi_connection
    try:
        raw.execute(statement).fetchall()
    except sqlite3.Error as error:
        raise OSError(str(error)) from error


def reason(error: BaseException) -> str:
    """Describe an error without its SQL statement."""
    return postgres.sentence(getattr(error, "orig", None) or error)


def _location(url: str) -> URL:
    """Parse a URL; all that follows ``sqlite:///`` is the path, also a question mark or a percent sign."""
    kind, _, path = url.partition("sqlite:///")
    return make_url(url) if kind or not path else URL.create("sqlite", database=path)


def _file_of(location: URL) -> Path:
    if not location.database or location.database == ":memory:":
        raise ConfigurationError("a journal cannot be in memory; sqlite:/// needs the path of a file")
    return Path(location.database)


def _taken(path: Path) -> str:
    return f"another process writes the journal {path}; stop it or use another folder"


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path) -> FileLock:
    lock = FileLock(_lock_of(path), thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        os.truncate(_lock_of(path), 0)  # so that a sharing process fails at once instead of waiting
    except Timeout as error:
        raise ConfigurationError(_taken(path)) from error
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be written here: {error}") from error
    return lock


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _reopen_read_only(context: ExceptionContext) -> None:
    """Have connections opened again that SQLite opened for reading only while the file was protected."""
    name = getattr(context.original_exception, "sqlite_errorname", "")
    context.is_disconnect = context.is_disconnect or name.startswith("SQLITE_READONLY")


def _prepare_writer(pragmas: tuple[str, ...], connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None
    is_new = connection.execute("PRAGMA page_count").fetchall() == [(0,)]
    for pragma in (*(NEW_PRAGMAS if is_new else ()), *WRITER_PRAGMAS, *pragmas):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare_reader(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout=5000").close()
    connection.execute("PRAGMA query_only=ON").close()


def _reader(location: URL) -> sqlite3.Connection:
    """Connect to an embedded journal in a way that leaves a log of a dead process to the next writer."""
    path = _file_of(location)
    mode = "ro" if path.with_name(path.name + "-wal").exists() else "rw"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, check_same_thread=False)


def _prepared(
    engine: Engine, url: str, *, alone: bool = False, join: Callable[[Connection], None] | None = None
) -> Engine:
    """Check the schema, and prepare a writable database.

    Args:
        alone: Whether no other process writes it.
        join: Called in the transaction that prepares it; ``None`` if it is not writable.
    """
    where, writable = make_url(url).render_as_string(hide_password=True), join is not None
    try:
        with engine.connect().execution_options(immediate=writable) as connection:
            lost = alone and incarnation.lost_commits(connection)
            if writable and not inspect(connection).has_table(schema.name):
                _create(tuple(metadata.tables.values()), connection)
                connection.execute(insert(schema).values(version=SCHEMA_VERSION))
                connection.commit()
            version: int | None = connection.scalar(select(schema.c.version))
            if version == SCHEMA_VERSION and join is not None:
                join(connection)
                incarnation.enter(connection, lost=lost)
                prove_writable(connection)
                if lost:  # so that the next opening does not find the same loss
                    run_to_its_end(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    except (SQLAlchemyError, OSError, UnicodeDecodeError) as error:
        engine.dispose()
        raise _unopened(where, error) from error
    if version is None or version < 1:
        engine.dispose()
        raise JournalDamaged(f"the journal at {where} is damaged: it has schema version {version}")
    if version != SCHEMA_VERSION:
        engine.dispose()
        raise _other_version(where, version, "SPECTATOR_DATA_DIR")
    return engine


def _create(tables: tuple[Table, ...], connection: Connection) -> None:
    """Create the tables of an embedded journal that it lacks, with their indexes."""
    for statement in _creation(tables):
        connection.exec_driver_sql(statement)


@cache
def _creation(tables: tuple[Table, ...]) -> tuple[str, ...]:
    made: list[DDLElement] = []
    for table in tables:
        made.append(CreateTable(table, if_not_exists=True))
        made += [
            CreateIndex(one, if_not_exists=True) for one in sorted(table.indexes, key=attrgetter("name"))
        ]
    return tuple(str(one.compile(dialect=sqlite.dialect())) for one in made)


def _open_server(url: str, writable: bool) -> Database:
    """Open the journal on a database server, which several processes may write."""
    location = postgres.location_of(url)
    where, engine = postgres.shown(location), postgres.connect(location)
    fences = HeldLeases(str(ULID())) if writable else None
    try:
        with engine.connect().execution_options(immediate=True) as connection:
            postgres.check_server(connection, where)
            if fences is not None:
                postgres.lock_schema(connection)
            if not inspect(connection).has_table(schema.name):
                if fences is None:
                    raise JournalError(f"there is no journal at {where}")
                _make_on_server(connection, where)
            version: int | None = connection.scalar(select(schema.c.version))
            if version != SCHEMA_VERSION:
                raise _other_version(where, version, "database")
            if fences is not None:
                fences.register(connection)
                incarnation.enter(connection)
                connection.commit()
    except SQLAlchemyError as error:
        engine.dispose()
        raise JournalError(f"the journal at {where} cannot be opened: {reason(error)}") from error
    except SpectatorError:
        engine.dispose()
        raise
    return Database(engine, fences=fences)


def _make_on_server(connection: Connection, where: str) -> None:
    tables = (metadata, lease_tables, owner_tables, command_tables, reservation_tables, fleet_tables)
    names = frozenset(name for one in tables for name in one.tables)
    postgres.check_no_foreign_tables(connection, names, where)
    for one in tables:
        one.create_all(connection)
    for statement in COMMITTED:
        connection.exec_driver_sql(statement)
    connection.execute(insert(schema).values(version=SCHEMA_VERSION))


def _other_version(where: str, version: int | None, place: str) -> ConfigurationError:
    return ConfigurationError(
        f"the journal at {where} has schema version {version}, but this release needs version "
        f"{SCHEMA_VERSION}; use the release that wrote it, or another {place}"
    )


NOT_OURS: Final = ("no such column", "no such table")
"""SQLite's messages for a journal whose schema was overwritten."""


def is_corrupt(error: BaseException) -> bool:
    """Return whether an error means that a page of the database is damaged, or a file of it is lost."""
    origin = getattr(error, "orig", None)
    name = getattr(origin, "sqlite_errorname", None) or getattr(origin, "sqlstate", None) or ""
    return isinstance(error, UnicodeDecodeError) or name.startswith(DAMAGED)


def is_damage(error: BaseException) -> bool:
    """Return whether an error means that the journal is damaged, or its tables are not a journal's."""
    return is_corrupt(error) or str(getattr(error, "orig", None)).startswith(NOT_OURS)


def _unopened(where: str, error: Exception) -> JournalError:
    if is_damage(error):
        return JournalDamaged(f"the journal at {where} is damaged: {reason(error)}")
    return JournalError(f"the journal at {where} cannot be opened: {reason(error)}")


def set_aside(url: str, now: datetime) -> Path | None:
    """Rename the files of a damaged embedded journal.

    Args:
        now: The time for the new name.

    Returns:
        The new path; ``None`` if the journal is not embedded.

    Raises:
        OSError: A file cannot be renamed.
    """
    path = file_of(url)
    if path is None:
        return None
    stem = f"{path.name}.damaged-{now:%Y%m%dT%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    place = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(place.with_name(place.name + suffix))
    return place
