"""Summaries of episodes, read from the index: one by its id, or those that a filter lets through."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection, func, or_, select

from spectator.journal.base import EpisodeFilter, EpisodeSummary
from spectator.journal.stores.fleet_runs import not_of_a_fleet
from spectator.journal.stores.leases import leases
from spectator.journal.stores.schema import episodes, events

SEARCHED: Final = (
    "result", "title", "environment", "captain", "captain_label", "opponent", "pack", "seed", "reason",
    "episode_id",
)  # fmt: skip
"""Columns that a search looks through."""

FILTERED: Final = (
    "environment", "captain", "opponent", "pack", "reason", "parent", "run_id", "group_id", "attempt",
)  # fmt: skip
"""Columns whose value a filter can ask for."""

_OWN: Final = events.c.episode_id == episodes.c.episode_id

_SUMMARIES: Final = select(
    *episodes.c,
    func.coalesce(episodes.c.end_seq, select(func.max(events.c.seq)).where(_OWN).scalar_subquery()).label(
        "head_seq"
    ),
    select(events.c.digest)
    .where(_OWN)
    .order_by(events.c.seq.desc())
    .limit(1)
    .scalar_subquery()
    .label("digest"),
)
"""Every episode, with the number and the digest of its last event."""

SUMMARY_FIELDS: Final = tuple(field.name for field in fields(EpisodeSummary))


def summary(connection: Connection, episode_id: str) -> EpisodeSummary | None:
    """Summary of one episode; ``None`` where there is no such episode."""
    wanted = _SUMMARIES.where(episodes.c.episode_id == episode_id)
    found = connection.execute(wanted).mappings().first()
    return None if found is None else _summary(found)


def summaries(connection: Connection, wanted: EpisodeFilter) -> list[EpisodeSummary]:
    """Summaries of the episodes that are ``wanted``, newest first."""
    query = _SUMMARIES.order_by(episodes.c.episode_id.desc()).limit(wanted.limit)
    for name in FILTERED:
        if (value := getattr(wanted, name)) is not None:
            query = query.where(episodes.c[name] == value)
    if wanted.parents:
        query = query.where(episodes.c.parent.in_(wanted.parents))
    if wanted.seed is not None:
        query = query.where(episodes.c.seed == str(wanted.seed))
    if wanted.text is not None:
        query = query.where(
            or_(*(episodes.c[name].icontains(wanted.text, autoescape=True) for name in SEARCHED))
        )
    if wanted.ended is not None:
        query = query.where(
            episodes.c.ended_at.is_not(None) if wanted.ended else episodes.c.ended_at.is_(None)
        )
    if wanted.before is not None:
        query = query.where(episodes.c.episode_id < wanted.before)
    return [_summary(row) for row in connection.execute(query).mappings()]


def held_by_others(connection: Connection, owner: str) -> list[EpisodeSummary]:
    """Summaries of the episodes without an end of which others than ``owner`` hold leases, oldest first.

    Those of fleets are left out: they are shown with their run.
    """
    held = select(leases.c.episode_id).where(leases.c.owner != owner)
    wanted = _SUMMARIES.where(
        episodes.c.ended_at.is_(None), episodes.c.episode_id.in_(held), not_of_a_fleet()
    )
    rows = connection.execute(wanted.order_by(episodes.c.episode_id)).mappings()
    return [_summary(row) for row in rows]


def heads(connection: Connection, episode_ids: Collection[str]) -> dict[str, int]:
    """The number of the last event of each of some episodes; without those that are not there."""
    last = select(func.max(events.c.seq)).where(_OWN).scalar_subquery()
    wanted = select(episodes.c.episode_id, last.label("head")).where(episodes.c.episode_id.in_(episode_ids))
    return {row.episode_id: row.head for row in connection.execute(wanted)}


def _summary(row: Any) -> EpisodeSummary:
    told = {name: row[name] for name in SUMMARY_FIELDS}
    digest = row["digest"]
    return EpisodeSummary(
        **{**told, "seed": int(row["seed"]), "digest": None if digest is None else digest.hex()}
    )
