"""Brings every older version of the journal's tables to the present one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, text, update

from spectator.journal.chain import GENESIS, extend
from spectator.journal.stores.schema import SCHEMA_VERSION, events, schema

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
    for statement in (
        f"CREATE TABLE events_2 (episode_id VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL, "
        f"digest {binary}, PRIMARY KEY (episode_id, seq))",
        "CREATE TABLE removals (episode_id VARCHAR(64) NOT NULL, PRIMARY KEY (episode_id))",
        "ALTER TABLE episodes ADD COLUMN detail TEXT",
        "ALTER TABLE episodes ADD COLUMN end_seq INTEGER",
        f"ALTER TABLE episodes ADD COLUMN end_digest {binary}",
    ):
        connection.execute(text(statement))
    for episode_id in connection.scalars(text("SELECT DISTINCT episode_id FROM events")).all():
        _chain(connection, episode_id)
    connection.execute(text("DROP TABLE events"))
    connection.execute(text("ALTER TABLE events_2 RENAME TO events"))


def _chain(connection: Connection, episode_id: str) -> None:
    seq, digest, last = 0, GENESIS, ""
    wanted = text(
        "SELECT seq, text FROM events WHERE episode_id = :episode_id AND seq > :seq ORDER BY seq LIMIT :batch"
    )
    add = text("INSERT INTO events_2 VALUES (:episode_id, :seq, :text, :digest)")
    while rows := connection.execute(wanted, {"episode_id": episode_id, "seq": seq, "batch": BATCH}).all():
        chained = []
        for seq, last in rows:
            digest = extend(digest, last)
            chained.append({"episode_id": episode_id, "seq": seq, "text": last, "digest": digest})
        connection.execute(add, chained)
    end = text(
        "UPDATE episodes SET end_seq = :seq, end_digest = :digest, detail = :detail "
        "WHERE episode_id = :episode_id AND ended_at IS NOT NULL"
    )
    connection.execute(end, {"seq": seq, "digest": digest, "detail": _detail(last), "episode_id": episode_id})


def _detail(end: str) -> str | None:
    detail = _member(end, "detail")
    return detail if isinstance(detail, str) else None


def _member(recorded: str, name: str) -> Any:
    """A member of an event's data; ``None`` where the record is damaged."""
    try:
        return json.loads(recorded)["data"].get(name)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _add_parent(connection: Connection) -> None:
    """2 to 3: what an episode was forked from, and indexes for what a history is searched by."""
    connection.execute(text("ALTER TABLE episodes ADD COLUMN parent VARCHAR(64)"))
    for column in ("environment", "captain", "seed", "parent"):
        connection.execute(text(f"CREATE INDEX episodes_{column} ON episodes ({column}, episode_id)"))
    forked = text("SELECT episode_id, text FROM events WHERE seq = 1 AND text LIKE '%parent%'")
    name = text("UPDATE episodes SET parent = :parent WHERE episode_id = :episode_id")
    for episode_id, first in connection.execute(forked).all():
        parent = _member(first, "parent")
        if isinstance(parent, dict):
            connection.execute(name, {"parent": parent.get("episode_id"), "episode_id": episode_id})


def _add_calls(connection: Connection) -> None:
    """3 to 4: what models were shown and answered, the sealed truth, and what an episode was played for."""
    binary = events.c.digest.type.compile(connection.dialect)
    for table in (
        f"messages (episode_id VARCHAR(64) NOT NULL, digest {binary} NOT NULL, body {binary} NOT NULL, "
        "PRIMARY KEY (episode_id, digest))",
        "calls (episode_id VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, place INTEGER NOT NULL, "
        f"kept INTEGER NOT NULL, messages {binary} NOT NULL, tools {binary}, reply {binary}, "
        f"prompt_kept INTEGER NOT NULL, prompt_token_ids {binary}, token_ids {binary}, logprobs {binary}, "
        "beside TEXT NOT NULL, PRIMARY KEY (episode_id, seq, place))",
        f"truths (episode_id VARCHAR(64) NOT NULL, body {binary} NOT NULL, PRIMARY KEY (episode_id))",
    ):
        connection.execute(text(f"CREATE TABLE {table}"))
    for column, kind in (("run_id", "VARCHAR(64)"), ("group_id", "VARCHAR(64)"), ("attempt", "INTEGER")):
        connection.execute(text(f"ALTER TABLE episodes ADD COLUMN {column} {kind}"))
    for name in ("run", "group"):
        connection.execute(text(f"CREATE INDEX episodes_{name} ON episodes ({name}_id, episode_id)"))


def _add_checkpoints(connection: Connection) -> None:
    """4 to 5: where unended episodes stand, so that they can be played on without their whole records."""
    binary = events.c.digest.type.compile(connection.dialect)
    columns = f"episode_id VARCHAR(64) NOT NULL, seq INTEGER NOT NULL, digest {binary} NOT NULL"
    connection.execute(
        text(f"CREATE TABLE checkpoints ({columns}, body {binary} NOT NULL, PRIMARY KEY (episode_id, seq))")
    )


MIGRATIONS: Final[Mapping[int, Callable[[Connection], None]]] = {
    1: _add_chain,
    2: _add_parent,
    3: _add_calls,
    4: _add_checkpoints,
}
"""By the version that each starts from."""

_NO_CALLS: Final = (
    "CREATE TEMP VIEW messages AS SELECT NULL AS episode_id, NULL AS digest, NULL AS body WHERE 0",
    "CREATE TEMP VIEW calls AS SELECT NULL AS episode_id, NULL AS seq, NULL AS place, NULL AS kept, "
    "NULL AS messages, NULL AS tools, NULL AS reply, NULL AS prompt_kept, NULL AS prompt_token_ids, "
    "NULL AS token_ids, NULL AS logprobs, NULL AS beside WHERE 0",
    "CREATE TEMP VIEW truths AS SELECT NULL AS episode_id, NULL AS body WHERE 0",
)
_NO_RUN: Final = "NULL AS run_id, NULL AS group_id, NULL AS attempt"

OLD_VIEWS: Final[Mapping[int, tuple[str, ...]]] = {
    1: (
        "CREATE TEMP VIEW events AS SELECT episode_id, seq, text, NULL AS digest FROM main.events",
        "CREATE TEMP VIEW episodes AS SELECT episode_id, epoch, environment, title, captain, captain_label, "
        "opponent, pack, seed, started_at, ended_at, reason, score, result, turns, "
        f"NULL AS detail, NULL AS end_seq, NULL AS end_digest, NULL AS parent, {_NO_RUN} FROM main.episodes",
        *_NO_CALLS,
    ),
    2: (f"CREATE TEMP VIEW episodes AS SELECT *, NULL AS parent, {_NO_RUN} FROM main.episodes", *_NO_CALLS),
    3: (f"CREATE TEMP VIEW episodes AS SELECT *, {_NO_RUN} FROM main.episodes", *_NO_CALLS),
    4: (),  # who only reads needs no checkpoints
}
"""How a reader of an embedded journal sees old tables as present ones, without touching them."""
