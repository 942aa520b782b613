"""Coordinate processes that share a journal: leases, reserved budgets, and runs.

A lease is a row with a unique number. Each commit checks its leases in the same transaction, so an owner that
lost its lease is rejected, however long it slept and whatever its clock says. See :mod:`.ownership` for who
takes and removes leases.

A budget is reserved in the database before it is used, and stays counted until its owner returns the rest. So
a process that dies leaves too little for the others, never too much. Only the database's clock is read. Caps
can be reserved in an embedded journal too; rates are counted only on a server.

The row of a run contains all that a process needs to play it. Its episodes belong to the run: servers on the
same journal neither take them over nor list them as their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Protocol

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    bindparam,
    exists,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.sql.elements import ColumnElement

from spectator.journal.schema import episodes, number, short_text

lease_tables: Final = MetaData()

leases: Final = Table(
    "leases",
    lease_tables,
    Column("fence", number(), primary_key=True),
    Column("episode_id", short_text(64), nullable=False, unique=True),
    Column("owner", short_text(64), nullable=False, index=True),
    Column("expires_ms", number(), nullable=False),
    sqlite_autoincrement=True,
)
"""One row per episode that is being played; not part of the record."""

_RELEASE: Final = text("DELETE FROM leases WHERE fence = :fence")
_TAKE: Final = text(
    "INSERT INTO leases (episode_id, owner, expires_ms) VALUES (:episode, :owner, :expires_ms) "
    "ON CONFLICT (episode_id) DO UPDATE SET owner = excluded.owner WHERE leases.owner = excluded.owner "
    "RETURNING fence"
)


class LeaseNotHeld(ValueError):
    """The lease is not held."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to record an episode.

    Args:
        fence: Its number, greater than that of every earlier lease.
        expires_ms: When its owner should have renewed it, Unix time in milliseconds. For display only: a
            lease ends when its row is deleted.
    """

    fence: int
    episode_id: str
    owner: str
    expires_ms: int


def take_lease(connection: Connection, episode_id: str, owner: str, expires_ms: int) -> int | None:
    """Take or keep the lease of an episode; return its number, or ``None`` if another owner has it."""
    values = {"episode": episode_id, "owner": owner, "expires_ms": expires_ms}
    found = connection.execute(_TAKE, values).first()
    return None if found is None else int(found.fence)


def lease_not_held(fence: int, episode_id: str) -> LeaseNotHeld:
    """Return the error for recording under a lost lease."""
    return LeaseNotHeld(f"lease {fence} of {episode_id} was lost: another process plays the episode")


def release_lease(connection: Connection, fence: int) -> None:
    """End a lease."""
    connection.execute(_RELEASE, {"fence": fence})


class Transactor(Protocol):
    """A journal that does small jobs between two commits; see :meth:`.SqlJournal.transact`."""

    async def transact(self, work: Any) -> Any:
        """Do ``work`` in one transaction."""


def held(connection: Connection) -> list[Lease]:
    """List the leases in a journal, by episode; none if it has no such table."""
    if not inspect(connection).has_table(leases.name):
        return []
    wanted = select(leases.c.fence, leases.c.episode_id, leases.c.owner, leases.c.expires_ms)
    return [Lease(*row) for row in connection.execute(wanted.order_by(leases.c.episode_id))]


reservation_tables: Final = MetaData()

reserved: Final = Table(
    "reserved",
    reservation_tables,
    Column("day", Date, primary_key=True),
    Column("what", short_text(64), primary_key=True),
    Column("amount", Double, nullable=False),
)
"""One row per day (UTC) and cap: what all processes reserved. Not part of the record."""

begun: Final = Table(
    "begun",
    reservation_tables,
    Column("number", BigInteger, Identity(), primary_key=True),
    Column("what", Text(collation="C"), nullable=False),
    Column("whose", Text(collation="C"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Index("begun_at", "what", "at"),
)
"""One row per recent start, with a digest of who started it."""

KEPT_DAYS: Final = 7
"""Days for which reservations are kept."""

LOCK: Final = 0x53504544
"""Key of the advisory lock under which starts are counted, held until the end of the transaction."""

_NOW: Final = {
    "postgresql": text(
        "SELECT CAST(now() AT TIME ZONE 'UTC' AS date) AS day, extract(epoch FROM "
        "date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day' - (now() AT TIME ZONE 'UTC')) "
        "AS left_s"
    ),
    "sqlite": text("SELECT date('now') AS day, 86400 - strftime('%s', 'now') % 86400 AS left_s"),
}
_OPEN: Final = text(
    "INSERT INTO reserved (day, what, amount) VALUES (:day, :what, :amount) ON CONFLICT DO NOTHING"
).bindparams(bindparam("day", type_=Date))
_RESERVE: Final = text(
    "UPDATE reserved SET amount = amount + :amount WHERE day = :day AND what = :what"
).bindparams(bindparam("day", type_=Date))
_ALONE: Final = text("SELECT pg_advisory_xact_lock(:key)")
_OVER: Final = text(
    "DELETE FROM begun WHERE what = :what AND at < clock_timestamp() - make_interval(secs => :period_s)"
)
_AGE_OF_ALL: Final = (
    "SELECT extract(epoch FROM clock_timestamp() - at) FROM begun WHERE what = :what {whose}"
    "AND at > clock_timestamp() - make_interval(secs => :period_s) "
    "ORDER BY at DESC OFFSET :before LIMIT 1"
)
_AGE: Final = text(_AGE_OF_ALL.format(whose=""))
_AGE_OF_ONE: Final = text(_AGE_OF_ALL.format(whose="AND whose = :whose "))
_COUNT_BEGINNING: Final = text("INSERT INTO begun (what, whose) VALUES (:what, :whose) RETURNING number")
_UNDO: Final = text("DELETE FROM begun WHERE number = :number")


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserved part of a daily cap.

    Args:
        day: The day, UTC.
        amount: The reserved amount; less than requested if no more is left, 0 if nothing is.
        left_s: Seconds until the day ends.
    """

    day: date
    amount: float
    left_s: float


@dataclass(frozen=True, slots=True)
class BeginLimit:
    """A rate limit for starts.

    Args:
        count: Maximum starts in any period; 0 means no limit.
        period_s: The period, in seconds.
    """

    count: int
    period_s: float


@dataclass(frozen=True, slots=True)
class BeginDecision:
    """Whether something may start; if so, it is counted.

    Args:
        number: Number for :meth:`Reservations.undo`; ``None`` if it may not start.
        wait_s: Seconds until it may start; 0 if it may now.
        own: Whether the caller's own limit is reached rather than the common one.
    """

    number: int | None
    wait_s: float = 0.0
    own: bool = False


class Reservations:
    """Reservations shared by the processes on one journal.

    Methods raise :class:`~spectator.errors.JournalError` while the database cannot be read or written.

    Args:
        journal: The journal, written by several processes.
    """

    def __init__(self, journal: Transactor) -> None:
        self._journal = journal

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Initialize today's usage from the record if nothing is reserved yet."""

        def work(connection: Connection) -> None:
            day, _ = _today(connection)
            connection.execute(reserved.delete().where(reserved.c.day < day - timedelta(days=KEPT_DAYS)))
            for what, amount in used.items():
                connection.execute(_OPEN, {"day": day, "what": what, "amount": amount})

        await self._journal.transact(work)

    async def reserve(self, what: str, *, cap: float, amount: float, overdrawn: float = 0.0) -> Reserved:
        """Reserve a part of today's cap.

        Args:
            amount: The requested amount; less is reserved if less is left.
            overdrawn: What this process used beyond its reservations; always counted.
        """

        def work(connection: Connection) -> Reserved:
            day, left_s = _today(connection)
            connection.execute(_OPEN, {"day": day, "what": what, "amount": 0.0})
            row = select(reserved.c.amount).where(reserved.c.day == day, reserved.c.what == what)
            taken = connection.execute(row.with_for_update()).scalar_one()
            part = min(amount, max(0.0, cap - taken - overdrawn))
            connection.execute(_RESERVE, {"what": what, "day": day, "amount": overdrawn + part})
            return Reserved(day, part, left_s)

        part: Reserved = await self._journal.transact(work)
        return part

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Return the unused part of a day's reservation; a negative amount was used beyond it.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        values = {"what": what, "day": day, "amount": -unused}
        await self._journal.transact(lambda connection: connection.execute(_RESERVE, values))

    async def begin(self, what: str, whose: str, *, of_one: BeginLimit, of_all: BeginLimit) -> BeginDecision:
        """Count a start if the limits allow it.

        Args:
            whose: A digest of who starts it.
            of_one: Limit for each starter.
            of_all: Limit for all together.
        """

        def work(connection: Connection) -> BeginDecision:
            connection.execute(_ALONE, {"key": LOCK})
            period_s = max(of_one.period_s, of_all.period_s)
            connection.execute(_OVER, {"what": what, "period_s": period_s})
            values = {"what": what, "whose": whose}
            for often, statement in ((of_one, _AGE_OF_ONE), (of_all, _AGE)):
                if often.count:
                    window = {"before": often.count - 1, "period_s": often.period_s}
                    age = connection.scalar(statement, {**values, **window})
                    if age is not None and float(age) < often.period_s:
                        return BeginDecision(None, often.period_s - float(age), often is of_one)
            return BeginDecision(connection.execute(_COUNT_BEGINNING, values).scalar_one())

        found: BeginDecision = await self._journal.transact(work)
        return found

    async def undo(self, number: int) -> None:
        """Undo the count of something that did not start.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        await self._journal.transact(lambda connection: connection.execute(_UNDO, {"number": number}))


def _today(connection: Connection) -> tuple[date, float]:
    """Return the database's day, UTC, and the seconds until it ends."""
    row = connection.execute(_NOW[connection.dialect.name]).one()
    day = date.fromisoformat(row.day) if isinstance(row.day, str) else row.day
    return day, float(row.left_s)


fleet_tables: Final = MetaData()

fleet_runs: Final = Table(
    "fleet_runs",
    fleet_tables,
    Column("name", short_text(64), primary_key=True),
    Column("plan", Text, nullable=False),
    Column("began_ms", number(), nullable=False),
    Column("tokens", number(), nullable=False, server_default="0"),
    Column("cost", Double, nullable=False, server_default="0"),
)
"""One row per run: what it plays, as JSON, and what its workers reserved of its caps.

Its name is the ``run_id`` of its episodes. Not part of the record."""

NOT_OF_A_FLEET: Final = "NOT EXISTS (SELECT 1 FROM fleet_runs WHERE fleet_runs.name = episodes.run_id)"
"""SQL condition: the episode does not belong to a fleet."""

_BEGIN_RUN: Final = text(
    "INSERT INTO fleet_runs (name, plan, began_ms) VALUES (:name, :plan, :began_ms) ON CONFLICT DO NOTHING"
)
_CHANGE_RUN: Final = text("UPDATE fleet_runs SET plan = :plan WHERE name = :name")
EVER: Final = date.max
"""The day of reservations that are not per day."""

_ADD_SPENT: Final = {
    what: text(f"UPDATE fleet_runs SET {what} = {what} + :amount WHERE name = :name")
    for what in ("tokens", "cost")
}
_READ_SPENT: Final = {
    what: text(f"UPDATE fleet_runs SET {what} = :amount WHERE name = :name AND {what} < :amount")
    for what in _ADD_SPENT
}


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A stored run.

    Args:
        name: Its name, and the ``run_id`` of its episodes.
        plan: What it plays, as JSON.
        began_ms: When it began, Unix time in milliseconds.
    """

    name: str
    plan: str
    began_ms: int


class FleetRuns:
    """The runs in one journal that several processes write.

    Methods raise :class:`~spectator.errors.JournalError` while the database cannot be read or written.
    """

    def __init__(self, journal: Transactor) -> None:
        self._journal = journal

    async def begin(self, row: FleetRow) -> FleetRow:
        """Store a run unless one of its name exists; return the stored one."""

        def work(connection: Connection) -> FleetRow:
            connection.execute(_BEGIN_RUN, {"name": row.name, "plan": row.plan, "began_ms": row.began_ms})
            return rows(connection, row.name)[0]

        kept: FleetRow = await self._journal.transact(work)
        return kept

    async def change(self, name: str, plan: str) -> None:
        """Replace the plan of a run, for workers that join it from now on."""
        await self._journal.transact(
            lambda connection: connection.execute(_CHANGE_RUN, {"name": name, "plan": plan})
        )


class RunReservations:
    """Reservations of one run's caps by its workers; see :class:`.day_share.ReservationStore`.

    Methods raise :class:`~spectator.errors.JournalError` while the database cannot be read or written.

    Args:
        journal: The journal, written by several processes.
    """

    def __init__(self, journal: Transactor, name: str) -> None:
        self._journal = journal
        self._name = name

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Raise the counts to at least the usage in the record."""

        def work(connection: Connection) -> None:
            for what, amount in used.items():
                connection.execute(_READ_SPENT[what], {"name": self._name, "amount": amount})

        await self._journal.transact(work)

    async def reserve(self, what: str, *, cap: float, amount: float, overdrawn: float = 0.0) -> Reserved:
        """Reserve a part of a cap: ``tokens``, in whole numbers, or ``cost``."""

        def work(connection: Connection) -> Reserved:
            row = select(fleet_runs.c[what]).where(fleet_runs.c.name == self._name).with_for_update()
            taken = float(connection.execute(row).scalar_one())
            wanted = math.ceil(amount) if what == "tokens" else amount
            part = min(wanted, max(0.0, cap - taken - overdrawn))
            connection.execute(_ADD_SPENT[what], {"name": self._name, "amount": overdrawn + part})
            return Reserved(EVER, part, math.inf)

        part: Reserved = await self._journal.transact(work)
        return part

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Return the unused part of a reservation; a negative amount was used beyond it.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        values = {"name": self._name, "amount": -unused}
        await self._journal.transact(lambda connection: connection.execute(_ADD_SPENT[what], values))


def rows(connection: Connection, name: str | None = None) -> list[FleetRow]:
    """List the runs, or the one of this name, oldest first."""
    if not inspect(connection).has_table(fleet_runs.name):
        return []
    wanted = select(fleet_runs.c.name, fleet_runs.c.plan, fleet_runs.c.began_ms)
    if name is not None:
        wanted = wanted.where(fleet_runs.c.name == name)
    found: Any = connection.execute(wanted.order_by(fleet_runs.c.began_ms, fleet_runs.c.name))
    return [FleetRow(*row) for row in found]


def not_of_a_fleet() -> ColumnElement[bool]:
    """Return the condition that an episode does not belong to a fleet."""
    return ~exists().where(fleet_runs.c.name == episodes.c.run_id)
