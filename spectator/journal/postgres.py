"""Connect the journal to PostgreSQL, and send notices between its processes.

Nothing here outlives a transaction: no prepared statements, no settings or locks of a session. So a pooler
that hands out connections per transaction, such as PgBouncer, works.

Notices use NOTIFY and LISTEN, and any of them may be lost. PostgreSQL commits one transaction with a notice
at a time, across all its databases. So notices have their own connections and are sent after the commits
that they announce, never within them: a transaction with nothing but notices writes no table and waits for
no disk.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.errors import ConfigurationError, JournalError

if TYPE_CHECKING:
    from psycopg import AsyncConnection


OLDEST: Final = 13
"""The oldest supported PostgreSQL: the first with 8-byte transaction ids in SQL."""

DRIVERS: Final = ("postgres", "postgresql", "postgresql+psycopg")
"""URL schemes of a journal in PostgreSQL."""

CONNECT_ARGS: Final[Mapping[str, Any]] = {
    "application_name": "spectator",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "prepare_threshold": None,
}
"""Default connection arguments: a dead connection is detected within seconds."""

LIMITS: Final = (
    "SET LOCAL statement_timeout = '{statement}s'; SET LOCAL lock_timeout = '5s'; "
    "SET LOCAL idle_in_transaction_session_timeout = '5s'"
)
"""Limits of every transaction: if a process stops in the middle of one, the server rolls it back, so that
others do not wait for it."""

WRITE_S: Final = 10
"""Statement timeout of the writer, in seconds."""

READ_S: Final = 60
"""Statement timeout of readers, in seconds."""

LOCK: Final = 0x53504543
"""Key of the advisory lock for changes of tables, held until the end of the transaction."""

PASSING: Final = ("25", "42501", "42P01", "42703", "3F000")
"""Prefixes of error codes that an operator may fix meanwhile: a read-only server, a missing right or table.

Errors that psycopg calls operational are transient too: a lost connection, a full disk, a time limit.
"""

INSTALL: Final = "pip install 'openenv-spectator[postgres]'"


def is_server(url: str) -> bool:
    """Return whether a URL names a database server.

    >>> is_server("postgresql://user@host/db"), is_server("sqlite:///journal.db")
    (True, False)
    """
    return url.partition("://")[0] in DRIVERS


def location_of(url: str) -> URL:
    """Parse the URL of a journal in PostgreSQL.

    Raises:
        ConfigurationError: The URL is invalid; the message contains nothing of it.
    """
    try:
        location = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigurationError(
            "the journal's URL is invalid; use postgresql://user:password@host:port/database, with "
            "characters such as @ and / in the password percent-encoded"
        ) from error
    if not location.database:
        raise ConfigurationError("the journal's URL names no database; use postgresql://user@host/database")
    return location.set(drivername="postgresql+psycopg")


def shown(location: URL) -> str:
    """Format a URL for people, without its password and query."""
    return location.set(query={}).render_as_string(hide_password=True)


def connect(location: URL) -> Engine:
    """Make an engine for a journal in PostgreSQL, without connecting yet.

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
            f"psycopg is not installed, or cannot find libpq; a journal in PostgreSQL needs: {INSTALL}"
        ) from error
    event.listen(engine, "begin", _limit)
    return engine


def _limit(connection: Connection) -> None:
    writes = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql(LIMITS.format(statement=WRITE_S if writes else READ_S))


def check_server(connection: Connection, where: str) -> None:
    """Check that the server can store a journal.

    Args:
        where: Its URL, for people.

    Raises:
        ConfigurationError: It is too old, or the database's encoding is not UTF-8.
    """
    version = int((connection.dialect.server_version_info or (0,))[0])
    if version < OLDEST:
        raise ConfigurationError(
            f"the server at {where} is PostgreSQL {version}; a journal needs {OLDEST} or newer"
        )
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise ConfigurationError(
            f"the database at {where} has the encoding {encoding}; use one created with ENCODING 'UTF8'"
        )


def check_no_foreign_tables(connection: Connection, names: frozenset[str], where: str) -> None:
    """Check that no foreign table has the name of one of the journal's.

    Raises:
        ConfigurationError: There is such a table.
    """
    if taken := sorted(names & set(inspect(connection).get_table_names())):
        raise ConfigurationError(
            f"the database at {where} has a table {taken[0]!r} that is not a journal's; use another database"
        )


def lock_schema(connection: Connection) -> None:
    """Take the lock for changes of tables, until the end of the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def sentence(error: object) -> str:
    """Return a server's error message in one line, without the statement."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = (line.strip() for line in str(primary or error).splitlines())
    return "; ".join(line for line in lines if line)


def is_transient(error: BaseException) -> bool:
    """Return whether an error that is not operational may be fixed meanwhile."""
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    return state.startswith(PASSING) or bool(getattr(error, "connection_invalidated", False))


def vacuum(engine: Engine) -> None:
    """Rewrite the journal's tables, which needs as much free space again; writers wait meanwhile."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("events", "messages", "calls", "truths", "checkpoints", "episodes"):
            connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table}")


logger = logging.getLogger(__name__)

LARGEST: Final = 7_500
"""Maximum bytes of a notice; PostgreSQL's limit is just below 8,000."""

SEND_S: Final = 5.0
"""Timeout for sending, in seconds."""

PROOF_S: Final = 5.0
"""Seconds within which a notice to this process must arrive to prove that listening works."""

LISTEN_PAUSES: Final = Backoff(0.5, 30.0)
"""The pauses between two attempts to listen."""

_SEND: Final = "SELECT count(pg_notify(%s, one)) FROM unnest(%s::text[]) AS one"


async def _connect(url: str) -> AsyncConnection[Any]:
    from psycopg import AsyncConnection

    location = location_of(url)
    _, given = location.get_dialect()().create_connect_args(location)
    return await AsyncConnection.connect(**{**CONNECT_ARGS, **given}, autocommit=True)


class NoticeSender:
    """Sends notices on one connection, opened on first use; works behind a pooler."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()

    async def send(self, channel: str, notices: Sequence[str]) -> None:
        """Send ``notices``, each of at most :data:`LARGEST` bytes and without zero characters.

        Raises:
            JournalError: They could not be sent.
        """
        from psycopg import Error

        async with self._turn:
            try:
                async with asyncio.timeout(SEND_S):
                    if self._connection is None:
                        self._connection = await _connect(self._url)
                    await self._connection.execute(_SEND, (channel, list(notices)))
            except (Error, OSError) as error:  # a TimeoutError is an OSError
                await self._close()
                raise JournalError(f"notices cannot be sent: {sentence(error)}") from error

    async def aclose(self) -> None:
        """Close the connection. Safe to call twice."""
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class NoticeListener:
    """Listens for notices on its own direct connection to the server.

    Behind a pooler in transaction mode LISTEN succeeds, but no notice arrives. So a listener first sends
    itself a notice over another connection.

    Args:
        url: URL of the database, without such a pooler in between.
        take: Called with every notice; must not block.
        sender: Sends the listener's notice to itself.
        instead: What happens without notices, for people.
        changed: Called with whether notices arrive, whenever that changes; must not block.
    """

    def __init__(
        self,
        url: str,
        channel: str,
        take: Callable[[str], None],
        sender: NoticeSender,
        clock: Clock,
        instead: str,
        changed: Callable[[bool], None] = lambda heard: None,
    ) -> None:
        self.heard = False
        """Whether notices arrive now."""
        self._url = url
        self._channel = channel
        self._take = take
        self._sender = sender
        self._clock = clock
        self._instead = instead
        self._changed = changed
        self._why: str | None = None  # the logged reason why notices do not arrive

    async def run(self) -> None:
        """Listen until cancelled; reconnects if the connection ends."""
        from psycopg import Error

        failures = 0
        while True:
            try:
                await self._listen()
                why = "the connection ended"
            except TimeoutError:
                why = "LISTEN succeeds but no notice arrives, as behind a pooler in transaction mode"
            except (Error, OSError, JournalError) as error:
                why = sentence(error)
            failures = 0 if self.heard else failures + 1
            self._missed(why)
            await self._clock.sleep(LISTEN_PAUSES.limit(failures))

    async def _listen(self) -> None:
        connection = await _connect(self._url)
        try:
            await connection.execute(f"LISTEN {self._channel}")
            mine = f"? {secrets.token_hex(8)}"
            await self._sender.send(self._channel, [mine])
            async with asyncio.timeout(PROOF_S) as limit:
                async for notice in connection.notifies():
                    if notice.payload == mine:
                        limit.reschedule(None)
                        self._proved()
                    elif not notice.payload.startswith("? "):
                        self._take(notice.payload)
        finally:
            await connection.close()

    def _proved(self) -> None:
        if self._why is not None:
            logger.info("notices of other servers arrive again over %s", self._channel)
        self._why, self.heard = None, True
        self._changed(True)

    def _missed(self, why: str) -> None:
        if self.heard:
            self.heard = False
            self._changed(False)
        if self._why != why:
            self._why = why
            where = shown(location_of(self._url))
            message = "no notices of other servers over %s from %s: %s; %s"
            logger.warning(message, self._channel, where, why, self._instead)


CHANNEL: Final = "spectator_commits"
"""Channel for notices of commits: ids of episodes separated by spaces."""

FLEET: Final = "fleet"
"""First word of a notice of a fleet's episodes, which servers show but do not list."""

LEAST_S: Final = 0.005
"""Minimum seconds between two notices; commits meanwhile share the next one."""

FLEET_LEAST_S: Final = 0.25
"""The same for a fleet, whose many workers record much that nobody watches."""


class CommitNotices:
    """Sends the ids of recorded episodes after their commits; a lost notice only delays a reader.

    Args:
        fleet: Whether they are a fleet's episodes.
    """

    def __init__(self, sender: NoticeSender, clock: Clock, *, fleet: bool = False) -> None:
        self._begin, self._least_s = (f"{FLEET} ", FLEET_LEAST_S) if fleet else ("", LEAST_S)
        self._sender = sender
        self._clock = clock
        self._works = True
        self._recorded: dict[str, None] = {}
        self._some = asyncio.Event()

    def note(self, episode_id: str) -> None:
        """Note a commit of an episode; does not block."""
        self._recorded[episode_id] = None
        self._some.set()

    async def run(self) -> None:
        """Send notices until cancelled."""
        while True:
            await self._some.wait()
            await self.send()
            await self._clock.sleep(self._least_s)

    async def send(self) -> None:
        """Send the commits noted since the last notice."""
        self._some.clear()
        recorded, self._recorded = self._recorded, {}
        if not recorded:
            return
        try:
            await self._sender.send(CHANNEL, [f"{self._begin}{one}" for one in notices_of(recorded)])
            self._works = True
        except JournalError as error:
            if self._works:
                logger.warning("cannot notify other servers of commits: %s", error)
            self._works = False


@asynccontextmanager
async def telling(url: str, clock: Clock) -> AsyncIterator[Callable[[str], None]]:
    """Provide a function to call after each commit of a fleet, so that servers are notified."""
    sender = NoticeSender(url)
    notices = CommitNotices(sender, clock, fleet=True)
    sending = asyncio.create_task(notices.run(), name="notices")
    try:
        yield notices.note
    finally:
        sending.cancel()
        await notices.send()
        await sender.aclose()


def notices_of(episode_ids: Iterable[str]) -> Iterator[str]:
    """Pack ids into as few notices as possible.

    >>> list(notices_of(["ep-1", "ep-2"]))
    ['ep-1 ep-2']
    """
    notice: list[str] = []
    size = 0
    for episode_id in episode_ids:
        if size + len(episode_id) + 1 > LARGEST:
            yield " ".join(notice)
            notice, size = [], 0
        notice.append(episode_id)
        size += len(episode_id) + 1
    if notice:
        yield " ".join(notice)


FREED: Final = "freed"
"""The notice of a process that leaves and has released an episode."""


def taking(
    wake: Callable[[Collection[str]], None],
    wake_fleet: Callable[[Collection[str]], None],
    freed: Callable[[], None],
) -> Callable[[str], None]:
    """Return a function that takes a notice and wakes its episodes, a server's or a fleet's."""

    def take(notice: str) -> None:
        names = notice.split()
        if names[:1] == [FLEET]:
            wake_fleet(names[1:])
        elif names == [FREED]:
            freed()
        else:
            wake(names)

    return take
