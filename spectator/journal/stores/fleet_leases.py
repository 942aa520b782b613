"""Leases of a fleet's episodes: some of those that are owed and free, at most so many of a run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Table, Text, text

from spectator.journal.stores.fleet_runs import fleet_tables

fleet_leases: Final = Table(
    "fleet_leases",
    fleet_tables,
    Column("fence", BigInteger, primary_key=True, autoincrement=False),
    Column("run", Text(collation="C"), nullable=False, index=True),
)
"""Of which run each lease is that was taken for a fleet; a lease that is over does not count. No part of the
record."""

_LOCK: Final = text("SELECT 1 FROM fleet_runs WHERE name = :run FOR UPDATE")
_OVER: Final = text(
    "DELETE FROM fleet_leases WHERE run = :run "
    "AND NOT EXISTS (SELECT FROM leases WHERE leases.fence = fleet_leases.fence)"
)
_COUNT: Final = text("SELECT count(*) FROM fleet_leases WHERE run = :run")
_NOTE: Final = text(
    "INSERT INTO fleet_leases (fence, run) SELECT unnest(CAST(:fences AS bigint[])), :run "
    "ON CONFLICT (fence) DO NOTHING"
)
_TAKE_OWED: Final = text(
    "INSERT INTO leases (episode_id, owner, expires_ms) SELECT owed.id, :owner, 0 "
    "FROM unnest(CAST(:ids AS text[])) WITH ORDINALITY AS owed (id, place) "
    "WHERE NOT EXISTS (SELECT FROM leases WHERE leases.episode_id = owed.id AND leases.owner <> :owner) "
    "AND NOT EXISTS (SELECT FROM episodes WHERE episodes.episode_id = owed.id AND ended_at IS NOT NULL) "
    "ORDER BY place LIMIT :most "
    "ON CONFLICT (episode_id) DO UPDATE SET owner = excluded.owner WHERE leases.owner = excluded.owner "
    "RETURNING episode_id, fence"
)


@dataclass(frozen=True, slots=True)
class FlightLimit:
    """How many episodes of a run may be played at once, by whomever.

    Args:
        run: The run.
        most: At most so many; 0 means no limit.
    """

    run: str
    most: int = 0


def take_owed(
    connection: Connection, owner: str, episode_ids: Sequence[str], limit: int, within: FlightLimit
) -> Mapping[str, int] | None:
    """Take the leases of the first ``limit`` episodes that are free and have not ended.

    Args:
        connection: Within a transaction.
        owner: Who takes them.
        episode_ids: Those that are owed, in the order in which they are wanted.
        limit: At most so many.
        within: Of which run they are, and what all may hold of it.

    Returns:
        The numbers of the leases, by episode; ``None`` where all hold as many as they may.
    """
    if within.most:
        connection.execute(_LOCK, {"run": within.run})  # one after the other: each sees what others took
        connection.execute(_OVER, {"run": within.run})
        limit = min(limit, within.most - connection.execute(_COUNT, {"run": within.run}).scalar_one())
        if limit < 1:
            return None
    wanted = {"ids": list(episode_ids), "owner": owner, "most": limit}
    taken = {row.episode_id: row.fence for row in connection.execute(_TAKE_OWED, wanted)}
    if within.most and taken:
        connection.execute(_NOTE, {"run": within.run, "fences": list(taken.values())})
    return taken
