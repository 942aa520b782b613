"""Leases of a fleet's episodes: some of those that are owed and free, at most so many of a run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Column, Connection, Table, select, text

from spectator.journal.stores.fleet_runs import fleet_runs, fleet_tables
from spectator.journal.stores.leases import leases, take
from spectator.journal.stores.schema import episodes, number, short_text

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


def take_owed(
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
        fence = take(connection, episode_id, *owner)
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
