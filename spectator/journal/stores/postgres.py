"""The journal's connections to PostgreSQL: how a URL is read, what a server must be, what its errors say.

Nothing here outlives a transaction: no prepared statements, no settings or locks of a session. So a pooler
that gives out its connections a transaction at a time, as PgBouncer does, may stand in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError

from spectator.errors import ConfigurationError

OLDEST: Final = 13
"""The first PostgreSQL whose transactions have numbers of 8 bytes that can be asked for."""

DRIVERS: Final = ("postgres", "postgresql", "postgresql+psycopg")
"""What the URL of a journal in PostgreSQL may begin with."""

CONNECT_ARGS: Final[Mapping[str, Any]] = {
    "application_name": "spectator",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "prepare_threshold": None,
}
"""How a connection is made, where the URL says nothing else: one that is dead is noticed within seconds."""

LIMITS: Final = (
    "SET LOCAL statement_timeout = '{statement}s'; SET LOCAL lock_timeout = '5s'; "
    "SET LOCAL idle_in_transaction_session_timeout = '5s'"
)
"""Bounds of every transaction: one of a process that was stopped in its middle is undone by the server, so
that nobody waits for it longer."""

WRITE_S: Final = 10
"""Seconds that a statement of the writer may take."""

READ_S: Final = 60
"""The same of a reader."""

LOCK: Final = 0x53504543
"""Key of the advisory lock under which tables are made or changed; it is held by a transaction, no longer."""

PASSING: Final = ("25", "42501", "42P01", "42703", "3F000")
"""What the codes of errors begin with that somebody may mend meanwhile: a read-only server, a missing right
or table. All that psycopg calls operational is such, too: a lost connection, a full disk, a time limit.
"""

INSTALL: Final = "pip install 'openenv-spectator[postgres]'"


def is_server(url: str) -> bool:
    """Whether a URL names a database server.

    >>> is_server("postgresql://user@host/db"), is_server("sqlite:///journal.db")
    (True, False)
    """
    return url.partition("://")[0] in DRIVERS


def location_of(url: str) -> URL:
    """Where a journal in PostgreSQL is.

    Raises:
        ConfigurationError: The URL does not say so; the message holds nothing of it.
    """
    try:
        location = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigurationError(
            "the journal's URL cannot be read; write postgresql://user:password@host:port/database, with "
            "signs such as @ and / in the password percent-encoded"
        ) from error
    if not location.database:
        raise ConfigurationError("the journal's URL names no database: postgresql://user@host/database")
    return location.set(drivername="postgresql+psycopg")


def shown(location: URL) -> str:
    """A URL for people: without its password, wherever that stands."""
    return location.set(query={}).render_as_string(hide_password=True)


def connect(location: URL) -> Engine:
    """An engine for a journal in PostgreSQL; no connection is made yet.

    Raises:
        ConfigurationError: psycopg is not installed.
    """
    given = {name: value for name, value in CONNECT_ARGS.items() if name not in location.query}
    try:
        engine = create_engine(
            location, connect_args=given, pool_size=4, pool_pre_ping=True, use_native_hstore=False
        )
    except ImportError as error:
        raise ConfigurationError(
            f"psycopg is not installed, or finds no libpq; a journal in PostgreSQL needs: {INSTALL}"
        ) from error
    event.listen(engine, "begin", _limit)
    return engine


def _limit(connection: Connection) -> None:
    writes = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql(LIMITS.format(statement=WRITE_S if writes else READ_S))


def need_fit(connection: Connection, where: str) -> None:
    """Make sure that the server can hold a journal.

    Args:
        connection: To it.
        where: Its URL, for people.

    Raises:
        ConfigurationError: It is too old, or keeps text in another encoding than UTF-8.
    """
    version = int((connection.dialect.server_version_info or (0,))[0])
    if version < OLDEST:
        raise ConfigurationError(
            f"the server at {where} is PostgreSQL {version}; a journal needs {OLDEST} or newer"
        )
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise ConfigurationError(
            f"the database at {where} keeps text as {encoding}; a journal needs one made with ENCODING 'UTF8'"
        )


def need_no_strangers(connection: Connection, names: frozenset[str], where: str) -> None:
    """Make sure that no table of somebody else's has the name of one of ours.

    Raises:
        ConfigurationError: One has.
    """
    if taken := sorted(names & set(inspect(connection).get_table_names())):
        raise ConfigurationError(
            f"the database at {where} has a table {taken[0]!r} that is not a journal's; name another database"
        )


def make_alone(connection: Connection) -> None:
    """Wait until no other process makes or changes tables, and let none until the end of the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def sentence(error: object) -> str:
    """What a server says went wrong, in one line, without the statement."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = (line.strip() for line in str(primary or error).splitlines())
    return "; ".join(line for line in lines if line)


def may_pass(error: BaseException) -> bool:
    """Whether somebody may mend what went wrong meanwhile, beside what is operational anyway."""
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    return state.startswith(PASSING) or bool(getattr(error, "connection_invalidated", False))


def vacuum(engine: Engine) -> None:
    """Rewrite the journal's tables, which needs as much free room again; whoever writes waits meanwhile."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("events", "messages", "calls", "truths", "checkpoints", "episodes"):
            connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table}")
