"""Owns the way from every older version of the journal's tables to the present one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, select, text, update

from spectator.journal.chain import GENESIS, extend
from spectator.journal.schema import SCHEMA_VERSION, episodes, events, removals, schema

logger = logging.getLogger(__name__)

BATCH: Final = 1000
"""Events that are rewritten at once."""


def migrate(connection: Connection, version: int) -> None:
    """Bring tables of ``version`` to the present one; the caller's transaction makes it all or nothing.

    Args:
        connection: Within a transaction that also holds changes of tables.
        version: From 1 to the present one.
    """
    for step in range(version, SCHEMA_VERSION):
        logger.info("the journal is brought from schema version %d to %d", step, step + 1)
        MIGRATIONS[step](connection)
        connection.execute(update(schema).values(version=step + 1))


def _add_chain(connection: Connection) -> None:
    """1 to 2: digests beside the events; the end's detail, number and digest beside the episode."""
    binary = events.c.digest.type.compile(connection.dialect)
    for table, column, kind in (
        ("events", "digest", binary),
        ("episodes", "detail", "TEXT"),
        ("episodes", "end_seq", "INTEGER"),
        ("episodes", "end_digest", binary),
    ):
        connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {column} {kind}"))
    removals.create(connection)
    for episode_id in connection.scalars(select(events.c.episode_id).distinct()).all():
        _chain(connection, episode_id)


def _chain(connection: Connection, episode_id: str) -> None:
    seq, digest, last = 0, GENESIS, ""
    wanted = (
        select(events.c.seq, events.c.text).where(events.c.episode_id == episode_id).order_by(events.c.seq)
    )
    while rows := connection.execute(wanted.where(events.c.seq > seq).limit(BATCH)).all():
        digests = []
        for seq, last in rows:
            digest = extend(digest, last)
            digests.append({"number": seq, "digest": digest})
        connection.execute(
            update(events).where(events.c.episode_id == episode_id, events.c.seq == bindparam("number")),
            digests,
        )
    ended = update(episodes).where(episodes.c.episode_id == episode_id, episodes.c.ended_at.is_not(None))
    connection.execute(ended.values(end_seq=seq, end_digest=digest, detail=_detail(last)))


def _detail(end: str) -> str | None:
    try:
        detail = json.loads(end)["data"].get("detail")
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return detail if isinstance(detail, str) else None


MIGRATIONS: Final[Mapping[int, Callable[[Connection], None]]] = {1: _add_chain}
"""By the version that each starts from."""

OLD_VIEWS: Final[Mapping[int, tuple[str, ...]]] = {
    1: (
        "CREATE TEMP VIEW events AS SELECT episode_id, seq, text, NULL AS digest FROM main.events",
        "CREATE TEMP VIEW episodes AS SELECT episode_id, epoch, environment, title, captain, captain_label, "
        "opponent, pack, seed, started_at, ended_at, reason, score, result, turns, "
        "NULL AS detail, NULL AS end_seq, NULL AS end_digest FROM main.episodes",
    ),
}
"""How a reader of an embedded journal sees old tables as present ones, without touching them."""
