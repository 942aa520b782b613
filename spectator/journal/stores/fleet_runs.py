"""Runs of rollouts in a journal that several processes write: what each plays, and what it spent.

A process needs this row and nothing else to play a run. The episodes belong to the run alone: servers that
write the same journal neither take them over nor list them among their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from sqlalchemy import Column, Connection, Double, MetaData, Table, Text, exists, inspect, select, text
from sqlalchemy.sql.elements import ColumnElement

from spectator.journal.stores.leases import Transacting
from spectator.journal.stores.reservations import Reserved
from spectator.journal.stores.schema import episodes, number, short_text

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
"""One row a run: what it plays, as JSON, and what all who play it reserved of its caps. Its name is the
``run_id`` of its episodes. Not part of the record."""

NOT_OF_A_FLEET: Final = "NOT EXISTS (SELECT 1 FROM fleet_runs WHERE fleet_runs.name = episodes.run_id)"
"""Whether an episode is no fleet's, for statements of their own."""

_BEGIN: Final = text(
    "INSERT INTO fleet_runs (name, plan, began_ms) VALUES (:name, :plan, :began_ms) ON CONFLICT DO NOTHING"
)
_CHANGE: Final = text("UPDATE fleet_runs SET plan = :plan WHERE name = :name")
EVER: Final = date.max
"""The day of what is not counted by days."""

_ADD: Final = {
    what: text(f"UPDATE fleet_runs SET {what} = {what} + :amount WHERE name = :name")
    for what in ("tokens", "cost")
}
_SPENT: Final = {
    what: text(f"UPDATE fleet_runs SET {what} = :amount WHERE name = :name AND {what} < :amount")
    for what in _ADD
}


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
    """The runs in one journal that several processes write.

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


class RunReservations:
    """What the processes that play one run reserved of its caps; see :class:`.day_part.Reserves`.

    Args:
        journal: Written by several processes.
        name: The run.
    """

    def __init__(self, journal: Transacting, name: str) -> None:
        self._journal = journal
        self._name = name

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Count at least what the record says was used.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> None:
            for what, amount in used.items():
                connection.execute(_SPENT[what], {"name": self._name, "amount": amount})

        await self._journal.transact(work)

    async def reserve(self, what: str, *, cap: float, amount: float, owed: float = 0.0) -> Reserved:
        """Reserve a part of what may be used: ``tokens``, which are whole, or ``cost``.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> Reserved:
            row = select(fleet_runs.c[what]).where(fleet_runs.c.name == self._name).with_for_update()
            taken = float(connection.execute(row).scalar_one())
            wanted = math.ceil(amount) if what == "tokens" else amount
            part = min(wanted, max(0.0, cap - taken - owed))
            connection.execute(_ADD[what], {"name": self._name, "amount": owed + part})
            return Reserved(EVER, part, math.inf)

        part: Reserved = await self._journal.transact(work)
        return part

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Give back what is left of what was reserved; what is below 0 was used beyond it.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        values = {"name": self._name, "amount": -unused}
        await self._journal.transact(lambda connection: connection.execute(_ADD[what], values))


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
