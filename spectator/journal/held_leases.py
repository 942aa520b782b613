"""The leases of episodes that this process holds, and the check of them in each commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Column, Connection, Table, delete, select, text

from spectator.journal.coordination import (
    LeaseNotHeld,
    fleet_runs,
    fleet_tables,
    lease_not_held,
    leases,
    release_lease,
    take_lease,
)
from spectator.journal.incarnation import Acknowledged, RecordBehind
from spectator.journal.schema import episodes, number, short_text

fleet_leases: Final = Table(
    "fleet_leases",
    fleet_tables,
    Column("fence", number(), primary_key=True, autoincrement=False),
    Column("run", short_text(64), nullable=False, index=True),
)
"""The run of each lease taken for a fleet; rows of released leases do not count. Not part of the record."""

_OVER: Final = text(
    "DELETE FROM fleet_leases WHERE run = :run "
    "AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.fence = fleet_leases.fence)"
)


_COUNT: Final = text("SELECT count(*) FROM fleet_leases WHERE run = :run")
_NOTE: Final = text("INSERT INTO fleet_leases (fence, run) VALUES (:fence, :run) ON CONFLICT DO NOTHING")


@dataclass(frozen=True, slots=True)
class FlightLimit:
    """How many episodes of a run may be played at once by all processes together.

    Args:
        most: Maximum number; 0 means no limit.
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
    """Take the leases of the first ``limit`` free, unended episodes.

    Args:
        owner: Name of the new owner, and the expiry that readers show.
        episode_ids: The remaining episodes, in order of preference.
        limit: Maximum number of leases.
        within: The run, and its limit for all processes.

    Returns:
        The numbers of the leases, by episode; ``None`` if the run's limit is reached.
    """
    if within.most:
        row = select(fleet_runs.c.name).where(fleet_runs.c.name == within.run).with_for_update()
        connection.execute(row)  # serialize, so that each process sees the leases of the others
        connection.execute(_OVER, {"run": within.run})
        limit = min(limit, within.most - connection.execute(_COUNT, {"run": within.run}).scalar_one())
        if limit < 1:
            return None
    taken: dict[str, int] = {}
    # Sorted, so that processes lock rows in the same order and cannot deadlock.
    for episode_id in sorted(_free(connection, owner[0], episode_ids)[:limit]):
        fence = take_lease(connection, episode_id, *owner)
        if fence is not None:
            taken[episode_id] = fence
    if within.most and taken:
        connection.execute(_NOTE, [{"run": within.run, "fence": fence} for fence in taken.values()])
    return taken


def _free(connection: Connection, owner: str, episode_ids: Sequence[str]) -> list[str]:
    """Return the unended episodes among ``episode_ids`` that no other owner holds, in order."""
    held = select(leases.c.episode_id).where(leases.c.episode_id.in_(episode_ids), leases.c.owner != owner)
    ended = select(episodes.c.episode_id).where(
        episodes.c.episode_id.in_(episode_ids), episodes.c.ended_at.is_not(None)
    )
    gone = set(connection.scalars(held.union_all(ended)))
    return [one for one in episode_ids if one not in gone]


_FILL: Final = text("UPDATE rooms SET free = free - 1 WHERE name = :name AND free > 0")
_REGISTER: Final = text(
    "INSERT INTO owners (name, beat) VALUES (:name, 0) "
    "ON CONFLICT (name) DO UPDATE SET beat = owners.beat + :by"
)


_HELD: Final = (
    "SELECT fence, episode_id, "
    "(SELECT max(seq) FROM events WHERE events.episode_id = leases.episode_id) AS seq FROM leases WHERE "
)
_ON_SERVER: Final = _HELD + "fence = ANY(%s) AND owner = %s ORDER BY fence FOR UPDATE OF leases"
_IN_FILE: Final = _HELD + "fence IN (SELECT value FROM json_each(?)) AND owner = ?"
_RENEW: Final = text("UPDATE leases SET expires_ms = :expires_ms WHERE owner = :owner")


class HeldLeases:
    """The numbers of the leases that this process holds; belongs to the thread that writes.

    Args:
        name: Unique name of this process.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.expires_ms = 0
        """Expiry of this process's leases for readers; 0 for no expiry."""
        self.acknowledged = Acknowledged()
        """The acknowledged ends of its episodes' records."""
        self._numbers: dict[str, int] = {}
        self._claimed: set[str] = set()

    def number(self, episode_id: str) -> int | None:
        """Return the number of an episode's lease; ``None`` if this process has none."""
        return self._numbers.get(episode_id)

    def committed(self, recorded: Iterable[str], taken: Mapping[str, int], over: Iterable[str]) -> None:
        """Note the episodes recorded, and the leases taken and released, in a commit."""
        self._claimed.difference_update(recorded)
        self._numbers |= taken
        for episode_id in over:
            self._numbers.pop(episode_id, None)

    def claim(self, connection: Connection, episode_id: str) -> None:
        """Take a lease before anything is recorded; see :meth:`take`."""
        self._numbers[episode_id] = self.take(connection, episode_id)
        self._claimed.add(episode_id)
        self.acknowledged.give_up(episode_id)

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
        released = self.release_row(connection, episode_id)
        self.committed([episode_id], {}, [episode_id])
        self.acknowledged.forget(episode_id)
        return released

    def release_row(self, connection: Connection, episode_id: str) -> bool:
        """Delete the lease of an episode that this process must not record any more.

        Its next append is rejected.
        """
        mine = (leases.c.episode_id == episode_id, leases.c.owner == self.name)
        return connection.execute(delete(leases).where(*mine)).rowcount > 0

    def is_claimed(self, episode_id: str) -> bool:
        """Return whether a lease was claimed but nothing was recorded under it yet."""
        return episode_id in self._claimed

    def register(self, connection: Connection, by: int = 0) -> None:
        """Register this process, and increment its heartbeat by ``by``."""
        connection.execute(_REGISTER, {"name": self.name, "by": by})

    def renew(self, connection: Connection, expires_ms: int) -> None:
        """Set the expiry of this process's leases for readers."""
        self.expires_ms = expires_ms
        connection.execute(_RENEW, {"owner": self.name, "expires_ms": expires_ms})

    def held(self, connection: Connection, numbers: Sequence[int]) -> Mapping[int, tuple[str, int]]:
        """Lock the leases that still exist, until the end of the transaction.

        Returns:
            The episode of each, and the number of its last event.
        """
        if not numbers:
            return {}
        if connection.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(_IN_FILE, (json.dumps(list(numbers)), self.name)).all()
        else:
            rows = connection.exec_driver_sql(_ON_SERVER, (list(numbers), self.name)).all()
        return {row.fence: (row.episode_id, row.seq or 0) for row in rows}

    def take(self, connection: Connection, episode_id: str) -> int:
        """Take the lease of an episode, or return the one already held.

        Raises:
            LeaseNotHeld: Another process holds it.
        """
        self.register(connection)
        fence = take_lease(connection, episode_id, self.name, self.expires_ms)
        if fence is None:
            raise LeaseNotHeld(f"{episode_id} is played by another process")
        connection.execute(_FILL, {"name": self.name})
        return fence


class CommitLeases:
    """Checks the leases of the episodes of one commit, within its transaction."""

    def __init__(self, fences: HeldLeases, connection: Connection, wanted: Iterable[str]) -> None:
        self._fences = fences
        self._connection = connection
        self._taken: dict[str, int] = {}
        self._proved: set[str] = set()
        self._over: set[str] = set()
        numbers = map(fences.number, wanted)
        self._held = fences.held(connection, sorted({one for one in numbers if one is not None}))

    def prove(self, episode_id: str) -> bool:
        """Check that the lease of an episode is held; take it if this process never had one.

        Returns:
            Whether the lease is new here, so that others may have recorded the episode before.

        Raises:
            LeaseNotHeld: It is not held.
            RecordBehind: Events that were acknowledged are gone.
        """
        if episode_id in self._taken:
            return False
        fence = self._fences.number(episode_id)
        if fence is None or episode_id in self._over:
            self._taken[episode_id] = self._fences.take(self._connection, episode_id)
            return True
        of, seq = self._held.get(fence, ("", 0))
        if of != episode_id:
            raise lease_not_held(fence, episode_id)
        if seq < self._fences.acknowledged.last(episode_id):
            raise RecordBehind(f"events of {episode_id} after event {seq} were lost")
        self._proved.add(episode_id)
        return self._fences.is_claimed(episode_id)

    def let_go(self, episode_id: str) -> None:
        """Release the lease of an episode that ends in this commit."""
        number = self._taken.pop(episode_id, None) or self._fences.number(episode_id)
        if number is not None:
            release_lease(self._connection, number)
        self._over.add(episode_id)

    def committed(self) -> None:
        """Note the leases taken and released."""
        self._fences.committed(self._proved, self._taken, self._over)
