"""Leases: who may record which episode, by a number that grows and that every append is held against.

A lease is a row with a number that is never given out twice. Whoever records under it names the number, and
the database looks for the row in the same transaction; so an owner that was deposed is refused, however long
it slept and whatever its clock says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
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

_HELD: Final = "SELECT 1 FROM leases WHERE fence = ? AND episode_id = ?"
_LET_GO: Final = text("DELETE FROM leases WHERE fence = :fence")
_OVER: Final = text("DELETE FROM leases WHERE owner NOT IN (SELECT name FROM owners)")


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


def prove_held(connection: Connection, fence: int, episode_id: str) -> None:
    """Make sure that a lease is held in an embedded journal, which nobody else writes meanwhile.

    Raises:
        NotHeld: It is not.
    """
    if connection.exec_driver_sql(_HELD, (fence, episode_id)).first() is None:
        raise not_held(fence, episode_id)


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


class Leases:
    """The leases of one embedded journal; whoever writes the journal gives them out.

    Use :meth:`begin`.

    >>> import asyncio, tempfile
    >>> from spectator.journal.stores.sqlite import SqlJournal
    >>> async def depose(folder):
    ...     journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
    ...     leases = await Leases.begin(journal)
    ...     first = await leases.take("w-1", ["ep-1"], expires_ms=0)
    ...     await leases.depose("w-1")
    ...     second = await leases.take("w-2", ["ep-1"], expires_ms=0)
    ...     await journal.aclose()
    ...     return first[0].fence < second[0].fence, [one.owner for one in second]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(depose(folder))
    (True, ['w-2'])
    """

    def __init__(self, journal: Transacting) -> None:
        self._journal = journal

    @classmethod
    async def begin(cls, journal: Transacting) -> Leases:
        """Begin to give out leases; whatever a process before this one gave out is over.

        Raises:
            JournalError: The journal cannot be written.
        """
        await journal.transact(_begin)
        return cls(journal)

    async def take(self, owner: str, episode_ids: Sequence[str], *, expires_ms: int) -> Sequence[Lease]:
        """Leases of ``episode_ids`` for ``owner``, all or none.

        Raises:
            JournalError: One is held already, or the journal cannot be written.
        """

        def work(connection: Connection) -> list[Lease]:
            taken = []
            for episode_id in episode_ids:
                row = {"episode_id": episode_id, "owner": owner, "expires_ms": expires_ms}
                fence = connection.execute(insert(leases).values(row).returning(leases.c.fence)).scalar_one()
                taken.append(Lease(fence, episode_id, owner, expires_ms))
            return taken

        taken: list[Lease] = await self._journal.transact(work)
        return taken

    async def renew(self, owners: Sequence[str], *, expires_ms: int) -> None:
        """Note that ``owners`` were heard of."""
        heard = update(leases).where(leases.c.owner.in_(owners)).values(expires_ms=expires_ms)
        await self._journal.transact(lambda connection: connection.execute(heard))

    async def release(self, fence: int) -> None:
        """End a lease whose episode has not ended."""
        await self._journal.transact(lambda connection: let_go(connection, fence))

    async def depose(self, owner: str) -> None:
        """End every lease of ``owner``: nothing that it still sends is recorded."""
        gone = delete(leases).where(leases.c.owner == owner)
        await self._journal.transact(lambda connection: connection.execute(gone))


def _begin(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # where servers hold leases too, for which they stand
        connection.execute(_OVER)
        return
    lease_tables.create_all(connection)
    connection.execute(delete(leases))


def held(connection: Connection) -> list[Lease]:
    """The leases in a journal, by episode; none where they were never used."""
    if not inspect(connection).has_table(leases.name):
        return []
    wanted = select(leases.c.fence, leases.c.episode_id, leases.c.owner, leases.c.expires_ms)
    return [Lease(*row) for row in connection.execute(wanted.order_by(leases.c.episode_id))]
