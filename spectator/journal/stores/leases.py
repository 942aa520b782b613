"""Leases: who may record which episode, by a number that grows and that every append is held against.

A lease is a row with a number that is never given out twice. Each commit looks for the rows of its leases in
the same transaction; so an owner that was deposed is rejected, however long it slept and whatever its clock
says. See :mod:`.ownership` for who takes and removes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    inspect,
    select,
    text,
)

from spectator.journal.stores.schema import number, short_text

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
"""One row an episode that is being played; made where leases are used. It is no part of the record."""

_LET_GO: Final = text("DELETE FROM leases WHERE fence = :fence")
_TAKE: Final = text(
    "INSERT INTO leases (episode_id, owner, expires_ms) VALUES (:episode, :owner, :expires_ms) "
    "ON CONFLICT (episode_id) DO UPDATE SET owner = excluded.owner WHERE leases.owner = excluded.owner "
    "RETURNING fence"
)


class NotHeld(ValueError):
    """No lease of the episode has this number."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to record an episode.

    Args:
        fence: Its number; greater than that of every lease before it.
        episode_id: The episode.
        owner: Who holds it.
        expires_ms: When its owner should have been heard of again, Unix time in milliseconds; to be shown
            only: what ends a lease is that its row goes.
    """

    fence: int
    episode_id: str
    owner: str
    expires_ms: int


def take(connection: Connection, episode_id: str, owner: str, expires_ms: int) -> int | None:
    """Take the lease of an episode, or keep it; its number, ``None`` where another owner has it."""
    values = {"episode": episode_id, "owner": owner, "expires_ms": expires_ms}
    found = connection.execute(_TAKE, values).first()
    return None if found is None else int(found.fence)


def not_held(fence: int, episode_id: str) -> NotHeld:
    """The error of whoever records under a lease that is over."""
    return NotHeld(f"lease {fence} of {episode_id} is over: the episode is played elsewhere")


def let_go(connection: Connection, fence: int) -> None:
    """End a lease."""
    connection.execute(_LET_GO, {"fence": fence})


class Transacting(Protocol):
    """A journal that does small work between two commits; see :meth:`.sqlite.SqlJournal.transact`."""

    async def transact(self, work: Any) -> Any:
        """Do ``work`` in one transaction."""
        ...


def held(connection: Connection) -> list[Lease]:
    """The leases in a journal, by episode; none where they were never used."""
    if not inspect(connection).has_table(leases.name):
        return []
    wanted = select(leases.c.fence, leases.c.episode_id, leases.c.owner, leases.c.expires_ms)
    return [Lease(*row) for row in connection.execute(wanted.order_by(leases.c.episode_id))]
