"""Owns the opening of the journal's database: its lock, its settings, its schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from spectator.errors import ConfigurationError, JournalError
from spectator.journal.schema import SCHEMA_VERSION, metadata, schema


def open_database(url: str, *, writable: bool) -> tuple[Engine, FileLock | None]:
    """Open the database at ``url``; one that may be written is made first where there is none.

    Returns:
        The database, and the lock that keeps other writers of an embedded one away.

    Raises:
        ConfigurationError: See :meth:`spectator.journal.sql.SqlJournal.open`.
        JournalError: See there.
    """
    location, engine = _engine(url)
    if engine.dialect.name != "sqlite":
        return _prepared(engine, url, writable), None
    path = _file_of(location)
    if not writable:
        if not path.exists():
            raise JournalError(f"there is no journal at {path}")
        event.listen(engine, "connect", _prepare_reader)
        return _prepared(engine, url, writable), None
    lock = _lock(path)
    event.listen(engine, "connect", _prepare_writer)
    try:
        return _prepared(engine, url, writable), lock
    except (ConfigurationError, JournalError):
        lock.release()
        raise


def prove_writable(connection: Connection) -> None:
    """Write what is there already and commit it, for a full disk shows only then.

    Raises:
        DatabaseError: It cannot be written.
    """
    connection.execute(update(schema).values(version=schema.c.version))
    connection.commit()


def reason(error: BaseException) -> str:
    """What went wrong, without the statement that went wrong."""
    return str(getattr(error, "orig", None) or error)


def _engine(url: str) -> tuple[URL, Engine]:
    try:
        location = make_url(url)
        return location, create_engine(location)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"the journal's URL is not one that can be opened here: {error}") from error


def _file_of(location: URL) -> Path:
    if not location.database or location.database == ":memory:":
        raise ConfigurationError("a journal is durable; sqlite:/// needs the path of a file")
    return Path(location.database)


def _lock(path: Path) -> FileLock:
    lock = FileLock(path.with_name(path.name + ".lock"), thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigurationError(
            f"another process writes the journal {path}; stop it or choose another SPECTATOR_DATA_DIR"
        ) from error
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be written here: {error}") from error
    return lock


def _prepare_writer(connection: sqlite3.Connection, _: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare_reader(connection: sqlite3.Connection, _: object) -> None:
    for pragma in ("query_only=ON", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepared(engine: Engine, url: str, writable: bool) -> Engine:
    try:
        with engine.connect() as connection:
            version = _version(connection, writable)
            if version == SCHEMA_VERSION and writable:
                prove_writable(connection)
    except (SQLAlchemyError, OSError) as error:
        engine.dispose()
        where = make_url(url).render_as_string(hide_password=True)
        raise JournalError(f"the journal at {where} cannot be opened: {reason(error)}") from error
    if version != SCHEMA_VERSION:
        engine.dispose()
        raise ConfigurationError(
            f"the journal has schema version {version} and this software writes {SCHEMA_VERSION}; "
            "use the version that wrote it, or another SPECTATOR_DATA_DIR"
        )
    return engine


def _version(connection: Connection, writable: bool) -> int | None:
    if writable and not inspect(connection).has_table(schema.name):
        metadata.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION))
        connection.commit()
    version: int | None = connection.scalar(select(schema.c.version))
    return version
