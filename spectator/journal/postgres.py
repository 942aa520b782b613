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


def check_server(connection: Connection, where: str) -> None:
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


def check_no_foreign_tables(connection: Connection, names: frozenset[str], where: str) -> None:
    """Make sure that no table of somebody else's has the name of one of ours.

    Raises:
        ConfigurationError: One has.
    """
    if taken := sorted(names & set(inspect(connection).get_table_names())):
        raise ConfigurationError(
            f"the database at {where} has a table {taken[0]!r} that is not a journal's; name another database"
        )


def lock_schema(connection: Connection) -> None:
    """Wait until no other process makes or changes tables, and let none until the end of the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def sentence(error: object) -> str:
    """What a server says went wrong, in one line, without the statement."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = (line.strip() for line in str(primary or error).splitlines())
    return "; ".join(line for line in lines if line)


def is_transient(error: BaseException) -> bool:
    """Whether somebody may mend what went wrong meanwhile, beside what is operational anyway."""
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    return state.startswith(PASSING) or bool(getattr(error, "connection_invalidated", False))


def vacuum(engine: Engine) -> None:
    """Rewrite the journal's tables, which needs as much free room again; whoever writes waits meanwhile."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("events", "messages", "calls", "truths", "checkpoints", "episodes"):
            connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table}")


logger = logging.getLogger(__name__)

LARGEST: Final = 7_500
"""Bytes of a notice at most; PostgreSQL takes less than 8,000."""

SEND_S: Final = 5.0
"""Seconds that sending may take."""

PROOF_S: Final = 5.0
"""Seconds within which a notice to oneself must come, or listening does not work there."""

PAUSES: Final = Backoff(0.5, 30.0)
"""The pauses between two attempts to listen."""

_SEND: Final = "SELECT count(pg_notify(%s, one)) FROM unnest(%s::text[]) AS one"


async def _connect(url: str) -> AsyncConnection[Any]:
    from psycopg import AsyncConnection

    location = location_of(url)
    _, given = location.get_dialect()().create_connect_args(location)
    return await AsyncConnection.connect(**{**CONNECT_ARGS, **given}, autocommit=True)


class NoticeSender:
    """Sends notices, on one connection that is made when it is first wanted. A pooler may be in between.

    Args:
        url: Of the database.
    """

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
        """Let go of the connection. Safe to call twice."""
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class NoticeListener:
    """Listens for notices, on a connection of its own to the server itself.

    Behind a pooler that gives its connections out by the transaction LISTEN is answered, and nothing comes.
    So whoever listens sends itself a notice first, over another connection.

    Args:
        url: Of the database, with no such pooler in between.
        channel: What to listen to.
        take: Takes every notice; returns at once.
        sender: Sends the notice to oneself.
        clock: Waits.
        instead: What is done where no notices come, for people.
        changed: Is told whether notices come, whenever that changes; returns at once.
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
        """Whether notices come now."""
        self._url = url
        self._channel = channel
        self._take = take
        self._sender = sender
        self._clock = clock
        self._instead = instead
        self._changed = changed
        self._why: str | None = None  # notices do not come, as the log has it

    async def run(self) -> None:
        """Listen until cancelled; a connection that ends is made anew."""
        from psycopg import Error

        failures = 0
        while True:
            try:
                await self._listen()
                why = "the connection ended"
            except TimeoutError:
                why = "LISTEN is answered and no notice comes, as behind a pooler in transaction mode"
            except (Error, OSError, JournalError) as error:
                why = sentence(error)
            failures = 0 if self.heard else failures + 1
            self._missed(why)
            await self._clock.sleep(PAUSES.limit(failures))

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
            logger.info("notices of other servers come again over %s", self._channel)
        self._why, self.heard = None, True
        self._changed(True)

    def _missed(self, why: str) -> None:
        if self.heard:
            self.heard = False
            self._changed(False)
        if self._why != why:
            self._why = why
            where = shown(location_of(self._url))
            told = "no notices of other servers over %s from %s: %s; %s"
            logger.warning(told, self._channel, where, why, self._instead)


CHANNEL: Final = "spectator_commits"
"""Where notices of commits are sent: ids of episodes, a space between two, and nothing of the record."""

FLEET: Final = "fleet"
"""The first word of a notice of a fleet's episodes, which servers show and never list."""

LEAST_S: Final = 0.005
"""Least time between two notices; commits meanwhile share the next one."""

FLEET_LEAST_S: Final = 0.25
"""The same of a fleet, whose many workers record much that nobody watches."""


class CommitNotices:
    """Sends which episodes were recorded here, once that is committed. Who misses one asks the journal later.

    Args:
        sender: Sends.
        clock: Waits.
        fleet: Whether they are a fleet's.
    """

    def __init__(self, sender: NoticeSender, clock: Clock, *, fleet: bool = False) -> None:
        self._begin, self._least_s = (f"{FLEET} ", FLEET_LEAST_S) if fleet else ("", LEAST_S)
        self._sender = sender
        self._clock = clock
        self._works = True
        self._recorded: dict[str, None] = {}
        self._some = asyncio.Event()

    def note(self, episode_id: str) -> None:
        """Something of an episode was committed; returns at once."""
        self._recorded[episode_id] = None
        self._some.set()

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            await self._some.wait()
            await self.send()
            await self._clock.sleep(self._least_s)

    async def send(self) -> None:
        """Send what was noted since."""
        self._some.clear()
        recorded, self._recorded = self._recorded, {}
        if not recorded:
            return
        try:
            await self._sender.send(CHANNEL, [f"{self._begin}{one}" for one in notices_of(recorded)])
            self._works = True
        except JournalError as error:
            if self._works:
                logger.warning("other servers are not told of commits: %s", error)
            self._works = False


@asynccontextmanager
async def telling(url: str, clock: Clock) -> AsyncIterator[Callable[[str], None]]:
    """What is told of each commit of a fleet in the database at ``url``, so that servers hear of it."""
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
    """Ids as notices, as few as hold them.

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


def taking(
    wake: Callable[[Collection[str]], None], wake_fleet: Callable[[Collection[str]], None]
) -> Callable[[str], None]:
    """What takes a notice and wakes the episodes in it, a server's or a fleet's."""

    def take(notice: str) -> None:
        names = notice.split()
        if names[:1] == [FLEET]:
            wake_fleet(names[1:])
        else:
            wake(names)

    return take
