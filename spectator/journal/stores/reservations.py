"""What several processes may use together: parts of a day's caps, and how often something may begin.

It is reserved in the database before it is used, and what was reserved stays counted until whoever has it
gives it back. So a process that dies leaves the others too little, never too much. No clock is read but the
database's. Caps can be reserved in an embedded journal too; beginnings are counted on a server alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

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
    func,
    select,
    text,
)

from spectator.journal.stores.leases import Transacting
from spectator.journal.stores.schema import short_text

reservation_tables: Final = MetaData()

reserved: Final = Table(
    "reserved",
    reservation_tables,
    Column("day", Date, primary_key=True),
    Column("what", short_text(64), primary_key=True),
    Column("amount", Double, nullable=False),
)
"""One row a day, UTC, and cap: what all processes reserved of it. No part of the record."""

begun: Final = Table(
    "begun",
    reservation_tables,
    Column("number", BigInteger, Identity(), primary_key=True),
    Column("what", Text(collation="C"), nullable=False),
    Column("whose", Text(collation="C"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Index("begun_at", "what", "at"),
)
"""One row for everything that began lately, with a digest of whose it was."""

KEPT_DAYS: Final = 7
"""Days for which it can be read what was reserved."""

LOCK: Final = 0x53504544
"""Key of the advisory lock under which a beginning is counted; it is held by a transaction, no longer."""

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
_ADD: Final = text(
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
_BEGIN: Final = text("INSERT INTO begun (what, whose) VALUES (:what, :whose) RETURNING number")
_UNDO: Final = text("DELETE FROM begun WHERE number = :number")


@dataclass(frozen=True, slots=True)
class Reserved:
    """A part of what all processes may use on a day.

    Args:
        day: The day, UTC.
        amount: How much was reserved; less than was asked for where no more is left, and 0 where nothing is.
        left_s: Seconds until the day is over.
    """

    day: date
    amount: float
    left_s: float


@dataclass(frozen=True, slots=True)
class Often:
    """How often something may begin.

    Args:
        count: How many times in any stretch of time; 0 means no limit.
        period_s: How long that is, seconds.
    """

    count: int
    period_s: float


@dataclass(frozen=True, slots=True)
class Begun:
    """Whether something may begin, counted where it may.

    Args:
        number: What it is given back by; ``None`` where it may not.
        wait_s: Seconds until it may; 0 where it may now.
        own: Whether it is the limit of whoever asks that is reached, not that of all.
    """

    number: int | None
    wait_s: float = 0.0
    own: bool = False


class Reservations:
    """What the processes on one journal reserved.

    Args:
        journal: The journal, written by several processes.
    """

    def __init__(self, journal: Transacting) -> None:
        self._journal = journal

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Let today begin with what the record says was used, where nobody has reserved anything yet.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> None:
            day, _ = _today(connection)
            connection.execute(reserved.delete().where(reserved.c.day < day - timedelta(days=KEPT_DAYS)))
            for what, amount in used.items():
                connection.execute(_OPEN, {"day": day, "what": what, "amount": amount})

        await self._journal.transact(work)

    async def reserve(self, what: str, *, cap: float, amount: float, owed: float = 0.0) -> Reserved:
        """Reserve a part of what may be used today.

        Args:
            what: Of what.
            cap: How much all processes may use.
            amount: How much is wanted; as much of it is reserved as is left.
            owed: What was used beyond what this process had reserved; counted whatever is left.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> Reserved:
            day, left_s = _today(connection)
            connection.execute(_OPEN, {"day": day, "what": what, "amount": 0.0})
            row = select(reserved.c.amount).where(reserved.c.day == day, reserved.c.what == what)
            taken = connection.execute(row.with_for_update()).scalar_one()
            part = min(amount, max(0.0, cap - taken - owed))
            connection.execute(_ADD, {"what": what, "day": day, "amount": owed + part})
            return Reserved(day, part, left_s)

        part: Reserved = await self._journal.transact(work)
        return part

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Give back what is left of what was reserved on a day; what is below 0 was used beyond it.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        values = {"what": what, "day": day, "amount": -unused}
        await self._journal.transact(lambda connection: connection.execute(_ADD, values))

    async def begin(self, what: str, whose: str, *, of_one: Often, of_all: Often) -> Begun:
        """Count something that begins, where it may.

        Args:
            what: What it is.
            whose: A digest of who begins it.
            of_one: How often one may.
            of_all: How often all together may.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> Begun:
            connection.execute(_ALONE, {"key": LOCK})
            period_s = max(of_one.period_s, of_all.period_s)
            connection.execute(_OVER, {"what": what, "period_s": period_s})
            values = {"what": what, "whose": whose}
            for often, statement in ((of_one, _AGE_OF_ONE), (of_all, _AGE)):
                if often.count:
                    window = {"before": often.count - 1, "period_s": often.period_s}
                    age = connection.scalar(statement, {**values, **window})
                    if age is not None and float(age) < often.period_s:
                        return Begun(None, often.period_s - float(age), often is of_one)
            return Begun(connection.execute(_BEGIN, values).scalar_one())

        found: Begun = await self._journal.transact(work)
        return found

    async def undo(self, number: int) -> None:
        """Count it no more: it did not come about.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        await self._journal.transact(lambda connection: connection.execute(_UNDO, {"number": number}))


def _today(connection: Connection) -> tuple[date, float]:
    """The day by the database's clock, UTC, and the seconds until it is over."""
    row = connection.execute(_NOW[connection.dialect.name]).one()
    day = date.fromisoformat(row.day) if isinstance(row.day, str) else row.day
    return day, float(row.left_s)
