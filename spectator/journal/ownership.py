"""Ownership of episodes if several processes write one journal.

A process records an episode under a lease (:mod:`.coordination`) and locks the lease's row in each commit. So
a commit happens entirely before or entirely after the removal of the lease, and later commits of a deposed
process are rejected, whatever any clock says. Each process increments a number to show that it is alive; a
process whose number no longer changes may be deposed. The statements are the same for PostgreSQL and SQLite,
whose single writer locks the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Column, ColumnElement, Connection, MetaData, Table, delete, select, text

from spectator.journal.coordination import NOT_OF_A_FLEET, LeaseNotHeld, Transactor, leases, not_of_a_fleet
from spectator.journal.held_leases import FlightLimit, HeldLeases
from spectator.journal.schema import episodes, number, short_text

INTERVAL_S: Final = 2.0
"""Seconds between two heartbeats, and between two checks of the others' heartbeats."""

SILENT_CHECKS: Final = 5
"""Consecutive checks with the same heartbeat after which a process counts as dead.

Checks are counted instead of reading a clock: time in which this process was stopped, or the database was
unreachable, does not count.
"""


class LivenessCheck:
    """Compares the heartbeats of other processes from check to check."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # the last heartbeat, and how often it was the same

    def missing(self, signs: Mapping[str, int], looks: int) -> list[str]:
        """Check once more; return processes whose heartbeat was the same ``looks`` times in a row.

        Args:
            signs: The current heartbeat of each other process.
            looks: Number of checks after which a process counts as dead.

        >>> check = LivenessCheck()
        >>> [check.missing({"a": 1, "b": beat}, 2) for beat in (1, 2, 3)]
        [[], [], ['a']]
        """
        before = self._seen
        self._seen = {
            name: (sign, before[name][1] + 1 if name in before and before[name][0] == sign else 0)
            for name, sign in signs.items()
        }
        return [name for name, (_, same) in self._seen.items() if same >= looks]


owner_tables: Final = MetaData()

owners: Final = Table(
    "owners",
    owner_tables,
    Column("name", short_text(64), primary_key=True),
    Column("beat", number(), nullable=False),
)
"""One row per writing process."""

rooms: Final = Table(
    "rooms",
    owner_tables,
    Column("name", short_text(64), primary_key=True),
    Column("free", number(), nullable=False),
    Column("handing", number(), nullable=False, server_default="0"),
)
"""How many more episodes each process could play, and how many it is about to hand over to others."""

_ROOM: Final = text(
    "INSERT INTO rooms (name, free) VALUES (:name, :free) ON CONFLICT (name) DO UPDATE "
    "SET free = :free, handing = CASE WHEN :handing THEN rooms.handing ELSE 0 END"
)
_ONE_BY_ONE: Final = select(rooms.c.name).order_by(rooms.c.name).with_for_update()
_CLAIM_ROOM: Final = text(
    "UPDATE rooms SET handing = handing + 1 WHERE name = :name "
    "AND (SELECT coalesce(sum(free), 0) FROM rooms JOIN owners USING (name) WHERE name <> :name) > ("
    f"SELECT count(*) FROM episodes WHERE ended_at IS NULL AND {NOT_OF_A_FLEET} "
    "AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.episode_id = episodes.episode_id)"
    ") + (SELECT sum(handing) FROM rooms)"
)
_HANDED: Final = text("UPDATE rooms SET handing = handing - 1 WHERE name = :name AND handing > 0")
_OF_A_FLEET: Final = text(f"SELECT 1 FROM episodes WHERE episode_id = :episode AND NOT ({NOT_OF_A_FLEET})")


class Ownership:
    """The leases of this process, and the state of other processes that write the same journal.

    Methods raise :class:`~spectator.errors.JournalError` while the database cannot be read or written.
    """

    def __init__(self, journal: Transactor, fences: HeldLeases) -> None:
        self.name = fences.name
        """Name of this process."""
        self._journal = journal
        self._fences = fences

    async def beat(
        self, free: int = 0, *, handing: bool = False, expires_ms: int | None = None
    ) -> Mapping[str, int]:
        """Send a heartbeat; return the heartbeats of the other processes.

        Args:
            free: How many more episodes this process could play now.
            handing: Whether it is about to hand episodes over; if not, room that it still claims is released.
            expires_ms: Expiry of its leases for readers, Unix time in milliseconds.
        """

        def work(connection: Connection) -> dict[str, int]:
            self._fences.register(connection, by=1)
            connection.execute(_ROOM, {"name": self.name, "free": free, "handing": handing})
            if expires_ms is not None:
                self._fences.renew(connection, expires_ms)
            found = living(connection)
            found.pop(self.name)
            return found

        others: dict[str, int] = await self._journal.transact(work)
        return others

    async def claim_room(self) -> bool:
        """Reserve room at another process for an episode; return whether there was any.

        Room needed by unowned episodes, or reserved before, is not available. It stays reserved until
        :meth:`hand_over` or :meth:`give_up_room`.
        """

        def work(connection: Connection) -> bool:
            connection.execute(_ONE_BY_ONE)
            return bool(connection.execute(_CLAIM_ROOM, {"name": self.name}).rowcount)

        claimed: bool = await self._journal.transact(work)
        return claimed

    async def hand_over(self, episode_id: str) -> None:
        """Release the lease of an episode for which room was reserved.

        A second call changes nothing, so a call whose outcome is unknown can be repeated.
        """

        def work(connection: Connection) -> None:
            if self._fences.release(connection, episode_id):
                connection.execute(_HANDED, {"name": self.name})

        await self._journal.transact(work)

    async def give_up_room(self) -> None:
        """Release reserved room that is not needed."""
        await self._journal.transact(lambda connection: connection.execute(_HANDED, {"name": self.name}))

    async def others(self) -> list[str]:
        """List the other writing processes."""
        return sorted(await self.beat())

    async def depose(self, name: str) -> list[str]:
        """Remove every lease of another process; return its episodes."""
        freed: list[str] = await self._journal.transact(lambda connection: depose(connection, name))
        return freed

    async def unowned_episodes(self, limit: int) -> list[str]:
        """List up to ``limit`` unended episodes without a lease, newest first; none of a fleet."""
        found: list[str] = await self._journal.transact(
            lambda connection: unowned_episodes(connection, limit)
        )
        return found

    async def claim(self, episode_id: str) -> bool:
        """Take the lease of an episode; return whether this process holds it now.

        Episodes of runs are leased with :meth:`claim_remaining` instead. A lease that this process lost is
        taken again if it is free.
        """

        def work(connection: Connection) -> bool:
            if connection.execute(_OF_A_FLEET, {"episode": episode_id}).first() is not None:
                return False
            try:
                self._fences.claim(connection, episode_id)
            except LeaseNotHeld:
                return False
            return True

        claimed: bool = await self._journal.transact(work)
        return claimed

    async def claim_remaining(
        self, episode_ids: Sequence[str], limit: int, within: FlightLimit
    ) -> Mapping[str, bool] | None:
        """Take the leases of the first ``limit`` free, unended episodes of a run.

        Args:
            episode_ids: The remaining episodes, in order of preference; this process must not be recording
                any of them.
            limit: Maximum number of leases.
            within: The run, and its limit for all processes.

        Returns:
            The leased episodes, each with whether it has recorded events; ``None`` if the run's limit is
            reached.
        """

        def work(connection: Connection) -> dict[str, bool] | None:
            return self._fences.claim_remaining(connection, episode_ids, limit, within)

        claimed: dict[str, bool] | None = await self._journal.transact(work)
        return claimed

    async def release(self, episode_id: str) -> None:
        """Release the lease of an episode, if this process holds it."""
        await self._journal.transact(lambda connection: self._fences.release(connection, episode_id))


def living(connection: Connection) -> dict[str, int]:
    """Return the heartbeat of each writing process."""
    rows = connection.execute(select(owners.c.name, owners.c.beat)).all()
    return {row.name: row.beat for row in rows}


def depose(connection: Connection, name: str) -> list[str]:
    """Remove every lease and the registration of a process; return its episodes.

    Waits for a commit in progress; later commits are rejected. A claim registers its process before it takes
    leases, so once the registration is deleted no claim is in progress, and the leases of the last one are
    removed too.
    """
    mine = select(leases.c.fence).where(leases.c.owner == name)
    held = connection.scalars(mine.order_by(leases.c.fence).with_for_update()).all()
    ended = _end(connection, leases.c.fence.in_(held))
    connection.execute(delete(owners).where(owners.c.name == name))
    connection.execute(delete(rooms).where(rooms.c.name == name))
    return ended + _end(connection, leases.c.owner == name)


def _end(connection: Connection, which: ColumnElement[bool]) -> list[str]:
    gone = delete(leases).where(which).returning(leases.c.fence, leases.c.episode_id)
    return [row.episode_id for row in sorted(connection.execute(gone), key=lambda row: row.fence)]


def unowned_episodes(connection: Connection, limit: int) -> list[str]:
    """List unended episodes without a lease, newest first; none of a fleet."""
    held = select(leases.c.episode_id)
    wanted = select(episodes.c.episode_id).where(
        episodes.c.ended_at.is_(None), episodes.c.episode_id.not_in(held), not_of_a_fleet()
    )
    return list(connection.scalars(wanted.order_by(episodes.c.episode_id.desc()).limit(limit)))
