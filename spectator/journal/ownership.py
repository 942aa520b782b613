"""Own episodes where several processes write one journal.

A process records an episode under a lease (:mod:`.coordination`) and locks its row in the transaction of
each commit. So a commit comes entirely before or entirely after the removal of the lease, and what a
deposed process still sends is rejected, whatever any clock says. Each process increments a number to show
that it is alive; a process whose number stands still may be deposed. The statements are the same for
PostgreSQL and SQLite, whose single writer locks the whole file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    delete,
    select,
    text,
)

from spectator.journal.coordination import (
    NOT_OF_A_FLEET,
    LeaseNotHeld,
    Transactor,
    fleet_runs,
    fleet_tables,
    lease_not_held,
    leases,
    not_of_a_fleet,
    release_lease,
    take_lease,
)
from spectator.journal.schema import episodes, number, short_text

INTERVAL_S: Final = 2.0
"""Seconds between two signs of life, and between two looks at those of others."""

SILENT_CHECKS: Final = 5
"""Looks in a row at the same sign of life after which a process counts as gone. They are counted and no clock
is read: time in which this process stood still, or the database could not be reached, does not count.
"""


class LivenessCheck:
    """The signs of life of others, as they were at the last looks."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # the last sign, and how often it was the same

    def missing(self, signs: Mapping[str, int], looks: int) -> list[str]:
        """Look once more; those whose sign was the same ``looks`` times in a row.

        Args:
            signs: Of each of the others, the number that it counts up.
            looks: After how many a process counts as gone.

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


fleet_leases: Final = Table(
    "fleet_leases",
    fleet_tables,
    Column("fence", number(), primary_key=True, autoincrement=False),
    Column("run", short_text(64), nullable=False, index=True),
)
"""Of which run each lease is that was taken for a fleet; a lease that is over does not count. No part of the
record."""

_OVER: Final = text(
    "DELETE FROM fleet_leases WHERE run = :run "
    "AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.fence = fleet_leases.fence)"
)
_COUNT: Final = text("SELECT count(*) FROM fleet_leases WHERE run = :run")
_NOTE: Final = text("INSERT INTO fleet_leases (fence, run) VALUES (:fence, :run) ON CONFLICT DO NOTHING")


@dataclass(frozen=True, slots=True)
class FlightLimit:
    """How many episodes of a run may be played at once, by whomever.

    Args:
        run: The run.
        most: At most so many; 0 means no limit.
    """

    run: str
    most: int = 0


def lease_remaining(
    connection: Connection,
    owner: tuple[str, int],
    episode_ids: Sequence[str],
    limit: int,
    within: FlightLimit,
) -> Mapping[str, int] | None:
    """Take the leases of the first ``limit`` episodes that are free and have not ended.

    Args:
        connection: Within a transaction.
        owner: Who takes them, and until when readers may show them as held.
        episode_ids: Those that are owed, in the order in which they are wanted.
        limit: At most so many.
        within: Of which run they are, and what all may hold of it.

    Returns:
        The numbers of the leases, by episode; ``None`` where all hold as many as they may.
    """
    if within.most:
        row = select(fleet_runs.c.name).where(fleet_runs.c.name == within.run).with_for_update()
        connection.execute(row)  # one after the other: each sees what others took
        connection.execute(_OVER, {"run": within.run})
        limit = min(limit, within.most - connection.execute(_COUNT, {"run": within.run}).scalar_one())
        if limit < 1:
            return None
    taken: dict[str, int] = {}
    for episode_id in sorted(
        _free(connection, owner[0], episode_ids)[:limit]
    ):  # one order for all: no deadlock
        fence = take_lease(connection, episode_id, *owner)
        if fence is not None:
            taken[episode_id] = fence
    if within.most and taken:
        connection.execute(_NOTE, [{"run": within.run, "fence": fence} for fence in taken.values()])
    return taken


def _free(connection: Connection, owner: str, episode_ids: Sequence[str]) -> list[str]:
    """Those of some episodes that have not ended and that no other owner holds, in their order."""
    held = select(leases.c.episode_id).where(leases.c.episode_id.in_(episode_ids), leases.c.owner != owner)
    ended = select(episodes.c.episode_id).where(
        episodes.c.episode_id.in_(episode_ids), episodes.c.ended_at.is_not(None)
    )
    gone = set(connection.scalars(held.union_all(ended)))
    return [one for one in episode_ids if one not in gone]


owner_tables: Final = MetaData()

owners: Final = Table(
    "owners",
    owner_tables,
    Column("name", short_text(64), primary_key=True),
    Column("beat", number(), nullable=False),
)
"""One row a process that writes; made only where several may."""

rooms: Final = Table(
    "rooms",
    owner_tables,
    Column("name", short_text(64), primary_key=True),
    Column("free", number(), nullable=False),
    Column("handing", number(), nullable=False, server_default="0"),
)
"""How many episodes more each process could play, and how many it is about to hand over to others."""

_ROOM: Final = text(
    "INSERT INTO rooms (name, free) VALUES (:name, :free) ON CONFLICT (name) DO UPDATE "
    "SET free = :free, handing = CASE WHEN :handing THEN rooms.handing ELSE 0 END"
)
_FILL: Final = text("UPDATE rooms SET free = free - 1 WHERE name = :name AND free > 0")
_ONE_BY_ONE: Final = select(rooms.c.name).order_by(rooms.c.name).with_for_update()
_CLAIM_ROOM: Final = text(
    "UPDATE rooms SET handing = handing + 1 WHERE name = :name "
    "AND (SELECT coalesce(sum(free), 0) FROM rooms JOIN owners USING (name) WHERE name <> :name) > ("
    f"SELECT count(*) FROM episodes WHERE ended_at IS NULL AND {NOT_OF_A_FLEET} "
    "AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.episode_id = episodes.episode_id)"
    ") + (SELECT sum(handing) FROM rooms)"
)
_HANDED: Final = text("UPDATE rooms SET handing = handing - 1 WHERE name = :name AND handing > 0")
_REGISTER: Final = text(
    "INSERT INTO owners (name, beat) VALUES (:name, 0) "
    "ON CONFLICT (name) DO UPDATE SET beat = owners.beat + :by"
)
_HELD: Final = "SELECT fence, episode_id FROM leases WHERE fence = ANY(%s) ORDER BY fence FOR UPDATE"
_HELD_IN_FILE: Final = "SELECT fence, episode_id FROM leases WHERE fence IN (SELECT value FROM json_each(?))"
_RENEW: Final = text("UPDATE leases SET expires_ms = :expires_ms WHERE owner = :owner")
_OF_A_FLEET: Final = text(f"SELECT 1 FROM episodes WHERE episode_id = :episode AND NOT ({NOT_OF_A_FLEET})")


class HeldLeases:
    """The numbers of the leases that this process holds; belongs to the thread that writes.

    Args:
        name: This process, unlike any other.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.expires_ms = 0
        """Until when readers may show the leases of this process as held; 0 for as long as they are there."""
        self._numbers: dict[str, int] = {}
        self._claimed: set[str] = set()

    def number(self, episode_id: str) -> int | None:
        """That of an episode's lease; ``None`` where this process never held one, or gave it back."""
        return self._numbers.get(episode_id)

    def committed(self, recorded: Iterable[str], taken: Mapping[str, int], over: Iterable[str]) -> None:
        """Remember a commit: the episodes recorded in it, and the leases taken and given back."""
        self._claimed.difference_update(recorded)
        self._numbers |= taken
        for episode_id in over:
            self._numbers.pop(episode_id, None)

    def claim(self, connection: Connection, episode_id: str) -> None:
        """Take a lease before anything is recorded; see :meth:`take`."""
        self._numbers[episode_id] = self.take(connection, episode_id)
        self._claimed.add(episode_id)

    def claim_remaining(
        self, connection: Connection, episode_ids: Sequence[str], limit: int, within: FlightLimit
    ) -> dict[str, bool] | None:
        """Lease the first ``limit`` free episodes; see :meth:`Ownership.claim_remaining`."""
        self.register(connection)
        found = lease_remaining(connection, (self.name, self.expires_ms), episode_ids, limit, within)
        if not found:
            return None if found is None else {}
        taken = dict(found)
        begun_of = select(episodes.c.episode_id, episodes.c.ended_at)
        known = connection.execute(begun_of.where(episodes.c.episode_id.in_(taken))).all()
        for episode_id in [row.episode_id for row in known if row.ended_at is not None]:
            release_lease(connection, taken.pop(episode_id))
        self._numbers |= taken
        self._claimed.update(taken)
        begun = {row.episode_id for row in known}
        return {one: one in begun for one in episode_ids if one in taken}

    def release(self, connection: Connection, episode_id: str) -> bool:
        """Give a lease back; return whether this process still held it."""
        mine = (leases.c.episode_id == episode_id, leases.c.owner == self.name)
        released = connection.execute(delete(leases).where(*mine)).rowcount > 0
        self.committed([episode_id], {}, [episode_id])
        return released

    def is_claimed(self, episode_id: str) -> bool:
        """Whether a lease was claimed and nothing recorded under it yet."""
        return episode_id in self._claimed

    def register(self, connection: Connection, by: int = 0) -> None:
        """Write that this process is there, and count its number up ``by`` so much."""
        connection.execute(_REGISTER, {"name": self.name, "by": by})

    def renew(self, connection: Connection, expires_ms: int) -> None:
        """Write until when readers may show the leases of this process as held."""
        self.expires_ms = expires_ms
        connection.execute(_RENEW, {"owner": self.name, "expires_ms": expires_ms})

    def held(self, connection: Connection, numbers: Sequence[int]) -> Mapping[int, str]:
        """Those of leases that are held, each with its episode, until the end of the transaction."""
        if not numbers:
            return {}
        if connection.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(_HELD_IN_FILE, (json.dumps(list(numbers)),)).all()
        else:
            rows = connection.exec_driver_sql(_HELD, (list(numbers),)).all()
        return {row.fence: row.episode_id for row in rows}

    def take(self, connection: Connection, episode_id: str) -> int:
        """Take a lease of an episode that no other process holds; its own is told again.

        Raises:
            LeaseNotHeld: Another one does.
        """
        self.register(connection)
        fence = take_lease(connection, episode_id, self.name, self.expires_ms)
        if fence is None:
            raise LeaseNotHeld(f"{episode_id} is played by another process")
        connection.execute(_FILL, {"name": self.name})
        return fence


class CommitLeases:
    """The leases of the episodes of one commit, proved within its transaction.

    Args:
        fences: What this process holds.
        connection: Within the transaction.
        wanted: The episodes.
    """

    def __init__(self, fences: HeldLeases, connection: Connection, wanted: Iterable[str]) -> None:
        self._fences = fences
        self._connection = connection
        self._taken: dict[str, int] = {}
        self._proved: set[str] = set()
        self._over: set[str] = set()
        numbers = map(fences.number, wanted)
        self._held = fences.held(connection, sorted({one for one in numbers if one is not None}))

    def prove(self, episode_id: str) -> bool:
        """Make sure that a lease of an episode is held; one that was never given out here is taken.

        Args:
            episode_id: The episode.

        Returns:
            Whether it is new here, so that others may have recorded the episode meanwhile.

        Raises:
            LeaseNotHeld: It is not held.
        """
        if episode_id in self._taken:
            return False
        fence = self._fences.number(episode_id)
        if fence is None or episode_id in self._over:
            self._taken[episode_id] = self._fences.take(self._connection, episode_id)
            return True
        if self._held.get(fence) != episode_id:
            raise lease_not_held(fence, episode_id)
        self._proved.add(episode_id)
        return self._fences.is_claimed(episode_id)

    def let_go(self, episode_id: str) -> None:
        """End the lease of an episode that ends in this commit."""
        number = self._taken.pop(episode_id, None) or self._fences.number(episode_id)
        if number is not None:
            release_lease(self._connection, number)
        self._over.add(episode_id)

    def committed(self) -> None:
        """Remember what was taken and what is over."""
        self._fences.committed(self._proved, self._taken, self._over)


class Ownership:
    """Which episodes this process may record, and what became of the others that write the same journal.

    Args:
        journal: The journal.
        fences: The leases that this process holds.
    """

    def __init__(self, journal: Transactor, fences: HeldLeases) -> None:
        self.name = fences.name
        """This process."""
        self._journal = journal
        self._fences = fences

    async def beat(
        self, free: int = 0, *, handing: bool = False, expires_ms: int | None = None
    ) -> Mapping[str, int]:
        """Show that this process lives; the others, each with the number that it counts up.

        Args:
            free: How many episodes more it could play now.
            handing: Whether it is about to hand any over; where not, room that it still claims is given back.
            expires_ms: Until when readers may show its leases as held, Unix time in milliseconds.

        Raises:
            JournalError: The database cannot be written now.
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
        """Keep room at another process for an episode that nobody plays yet; whether there was any.

        Room that episodes left alone need, or that was claimed before, is not given out again. It is kept
        until :meth:`hand_over` or :meth:`give_up_room`.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> bool:
            connection.execute(_ONE_BY_ONE)
            return bool(connection.execute(_CLAIM_ROOM, {"name": self.name}).rowcount)

        claimed: bool = await self._journal.transact(work)
        return claimed

    async def hand_over(self, episode_id: str) -> None:
        """Give back the lease of an episode that room was claimed for; from now on that episode needs it.

        A second call changes nothing, so a call whose outcome is unknown can be repeated.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> None:
            if self._fences.release(connection, episode_id):
                connection.execute(_HANDED, {"name": self.name})

        await self._journal.transact(work)

    async def give_up_room(self) -> None:
        """Let others have room that was claimed and is not needed.

        Raises:
            JournalError: The database cannot be written now.
        """
        await self._journal.transact(lambda connection: connection.execute(_HANDED, {"name": self.name}))

    async def others(self) -> list[str]:
        """The other processes that write."""
        return sorted(await self.beat())

    async def depose(self, name: str) -> list[str]:
        """End every lease of another process; the episodes that it held.

        Raises:
            JournalError: The database cannot be written now.
        """
        freed: list[str] = await self._journal.transact(lambda connection: depose(connection, name))
        return freed

    async def unowned_episodes(self, limit: int) -> list[str]:
        """Episodes without an end of which nobody holds a lease, the newest first, at most ``limit``.

        Those of fleets are not among them.

        Raises:
            JournalError: The database cannot be read now.
        """
        found: list[str] = await self._journal.transact(
            lambda connection: unowned_episodes(connection, limit)
        )
        return found

    async def claim(self, episode_id: str) -> bool:
        """Take the lease of an episode, or have it already; whether this process may record it now.

        Episodes of runs are leased by :meth:`claim_remaining` instead. A lease that was held here and lost is
        taken again.

        Raises:
            JournalError: The database cannot be written now.
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
        """Take the leases of the first ``limit`` of a fleet's episodes that are free and have not ended.

        Args:
            episode_ids: Those that are owed, in the order in which they are wanted; this process records none
                of them now.
            limit: At most so many.
            within: Of which run they are, and how many of it may be played at once.

        Returns:
            Those that were taken, each with whether something is recorded of it already; ``None`` where as
            many of the run are played as may be.

        Raises:
            JournalError: The database cannot be written now.
        """

        def work(connection: Connection) -> dict[str, bool] | None:
            return self._fences.claim_remaining(connection, episode_ids, limit, within)

        claimed: dict[str, bool] | None = await self._journal.transact(work)
        return claimed

    async def release(self, episode_id: str) -> None:
        """Give the lease of an episode back, for others to take; at once where none is held.

        Raises:
            JournalError: The database cannot be written now.
        """
        await self._journal.transact(lambda connection: self._fences.release(connection, episode_id))


def living(connection: Connection) -> dict[str, int]:
    """The processes that write, each with the number that it counts up."""
    rows = connection.execute(select(owners.c.name, owners.c.beat)).all()
    return {row.name: row.beat for row in rows}


def depose(connection: Connection, name: str) -> list[str]:
    """End every lease of a process, and its being there; the episodes that it held.

    What it commits meanwhile is waited for; nothing that it sends afterwards is recorded. A claim writes that
    its process is there before it takes leases, so once the row of that is gone, no claim is under way: what
    the last one took is ended then.
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
    """Episodes without an end of which nobody holds a lease, the newest first; none of a fleet's."""
    held = select(leases.c.episode_id)
    wanted = select(episodes.c.episode_id).where(
        episodes.c.ended_at.is_(None), episodes.c.episode_id.not_in(held), not_of_a_fleet()
    )
    return list(connection.scalars(wanted.order_by(episodes.c.episode_id.desc()).limit(limit)))
