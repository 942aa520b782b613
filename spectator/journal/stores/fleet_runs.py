"""Runs of rollouts that lie in a journal of several processes: what each plays, and what it spent.

Whoever plays a run needs this row and nothing else. Its episodes are the run's alone: servers that write the
same journal neither take them over nor list them among their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    MetaData,
    Table,
    Text,
    exists,
    inspect,
    select,
    text,
)
from sqlalchemy.sql.elements import ColumnElement

from spectator.journal.stores.leases import Transacting
from spectator.journal.stores.schema import episodes

fleet_tables: Final = MetaData()

fleet_runs: Final = Table(
    "fleet_runs",
    fleet_tables,
    Column("name", Text(collation="C"), primary_key=True),
    Column("plan", Text, nullable=False),
    Column("began_ms", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost", Double, nullable=False, server_default="0"),
    Column("seconds", Double, nullable=False, server_default="0"),
)
"""One row a run: what it plays, as JSON, and what those who play it told that they spent. Its name is the
``run_id`` of its episodes. No part of the record."""

NOT_OF_A_FLEET: Final = "NOT EXISTS (SELECT FROM fleet_runs WHERE fleet_runs.name = episodes.run_id)"
"""Whether an episode is no fleet's, for statements of their own."""

_BEGIN: Final = text(
    "INSERT INTO fleet_runs (name, plan, began_ms) VALUES (:name, :plan, :began_ms) ON CONFLICT DO NOTHING"
)
_CHANGE: Final = text("UPDATE fleet_runs SET plan = :plan WHERE name = :name")
_SPEND: Final = text(
    "UPDATE fleet_runs SET tokens = tokens + :tokens, cost = cost + :cost, seconds = seconds + :seconds "
    "WHERE name = :name RETURNING tokens, cost, seconds"
)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A run as it is kept.

    Args:
        name: Its name, and the ``run_id`` of its episodes.
        plan: What it plays, as JSON.
        began_ms: When it began, Unix time in milliseconds.
    """

    name: str
    plan: str
    began_ms: int


class FleetRuns:
    """The runs in one journal on a database server.

    Args:
        journal: The journal.
    """

    def __init__(self, journal: Transacting) -> None:
        self._journal = journal

    async def begin(self, row: FleetRow) -> FleetRow:
        """Keep a run where there is none of its name; what is kept by now.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> FleetRow:
            connection.execute(_BEGIN, {"name": row.name, "plan": row.plan, "began_ms": row.began_ms})
            return rows(connection, row.name)[0]

        kept: FleetRow = await self._journal.transact(work)
        return kept

    async def change(self, name: str, plan: str) -> None:
        """Keep another plan of a run, for those who join it from now on.

        Raises:
            JournalError: The database cannot be written now.
        """
        await self._journal.transact(
            lambda connection: connection.execute(_CHANGE, {"name": name, "plan": plan})
        )

    async def spend(self, name: str, tokens: int, cost: float, seconds: float) -> tuple[int, float, float]:
        """Count what this process spent on a run; the sums of all since it began.

        Args:
            name: The run.
            tokens: Tokens more.
            cost: Money more.
            seconds: Seconds of asking more.

        Raises:
            JournalError: The database cannot be written now.
        """
        more = {"name": name, "tokens": tokens, "cost": cost, "seconds": seconds}

        def work(connection: Connection) -> tuple[int, float, float]:
            row = connection.execute(_SPEND, more).one()
            return int(row.tokens), float(row.cost), float(row.seconds)

        sums: tuple[int, float, float] = await self._journal.transact(work)
        return sums


def rows(connection: Connection, name: str | None = None) -> list[FleetRow]:
    """The runs, or the one of this name, those that began first first; none in a journal without any."""
    if not inspect(connection).has_table(fleet_runs.name):
        return []
    wanted = select(fleet_runs.c.name, fleet_runs.c.plan, fleet_runs.c.began_ms)
    if name is not None:
        wanted = wanted.where(fleet_runs.c.name == name)
    found: Any = connection.execute(wanted.order_by(fleet_runs.c.began_ms, fleet_runs.c.name))
    return [FleetRow(*row) for row in found]


def not_of_a_fleet() -> ColumnElement[bool]:
    """Whether an episode is no fleet's."""
    return ~exists().where(fleet_runs.c.name == episodes.c.run_id)
