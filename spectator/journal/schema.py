"""The journal's tables."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.types import TypeEngine

SCHEMA_VERSION: Final = 1
"""Version of the tables; a journal of another version is not opened."""

metadata: Final = MetaData()


def short_text(length: int) -> TypeEngine[str]:
    """Return a type for text of about ``length`` characters.

    In PostgreSQL, which enforces lengths and sorts by language, it is unlimited text, sorted by bytes.
    """
    return String(length).with_variant(Text(collation="C"), "postgresql")


def number() -> TypeEngine[int]:
    """Return a type for integers of 8 bytes."""
    return Integer().with_variant(BigInteger(), "postgresql")


schema: Final = Table("schema", metadata, Column("version", Integer, primary_key=True))

incarnations: Final = Table(
    "incarnations",
    metadata,
    Column("number", number(), primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("begins", number(), nullable=False),
)
"""One row per incarnation of the database (:mod:`.incarnation`); ``begins`` is the first transaction
(PostgreSQL) or ``rowid`` of an event in it."""

events: Final = Table(
    "events",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("digest", LargeBinary(32)),
)
"""One row per event; ``text`` is its one encoding, never parsed and written again.

Not ``WITHOUT ROWID``: there SQLite gives every row larger than a quarter of a page its own pages, so that
events of 1.1 KB took 56 MB instead of 17 MB, at twice the CPU.
"""

episodes: Final = Table(
    "episodes",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("epoch", short_text(32), nullable=False),
    Column("environment", short_text(64), nullable=False),
    Column("title", Text, nullable=False),
    Column("captain", short_text(64), nullable=False),
    Column("captain_label", Text, nullable=False),
    Column("opponent", short_text(64), nullable=False),
    Column("pack", short_text(64), nullable=False),
    Column("seed", short_text(20), nullable=False),
    Column("started_at", short_text(32), nullable=False),
    Column("ended_at", short_text(32)),
    Column("reason", short_text(32)),
    Column("score", Float),
    Column("result", Text),
    Column("turns", number()),
    Column("detail", Text),
    Column("end_seq", number()),
    Column("end_digest", LargeBinary(32)),
    Column("parent", short_text(64)),
    Column("run_id", short_text(64)),
    Column("group_id", short_text(64)),
    Column("attempt", number()),
    Index("episodes_unended", "ended_at", "episode_id"),
    Index("episodes_environment", "environment", "episode_id"),
    Index("episodes_captain", "captain", "episode_id"),
    Index("episodes_seed", "seed", "episode_id"),
    Index("episodes_parent", "parent", "episode_id"),
    Index("episodes_run", "run_id", "episode_id"),
    Index("episodes_group", "group_id", "episode_id"),
)
"""The index of episodes, updated in the same transactions as the events that it is derived from."""

messages: Final = Table(
    "messages",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Each message and tool shown to a model, once per episode; ``digest`` is the SHA-256 of its JSON.

``body`` is that JSON, or its zlib compression if that is shorter: one begins with ``{``, the other with
``x``.
"""

calls: Final = Table(
    "calls",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("place", number(), primary_key=True, autoincrement=False),
    Column("kept", number(), nullable=False),
    Column("messages", LargeBinary, nullable=False),
    Column("tools", LargeBinary),
    Column("reply", LargeBinary),
    Column("prompt_kept", number(), nullable=False),
    Column("prompt_token_ids", LargeBinary),
    Column("token_ids", LargeBinary),
    Column("logprobs", LargeBinary),
    Column("beside", Text, nullable=False),
)
"""One row per model call: ``place`` counts the calls behind the decision of event ``seq``, from 0.

Its prompt is the first ``kept`` messages of the same actor's previous call, followed by ``messages``: digests
of 32 bytes each. ``tools`` has digests too; null means those of the previous call. Its prompt's tokens are
the first ``prompt_kept`` tokens of prompt and reply of the previous call, followed by ``prompt_token_ids``.
Numbers are packed: one byte ``i``, ``q``, ``f`` or ``d`` as in Python's ``struct``, then little-endian.
``reply`` is null if the event contains it. ``beside`` is JSON: weight versions, parameters, measurements.
"""

truths: Final = Table(
    "truths",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""The sealed truth of an ended episode: JSON, compressed like messages."""

checkpoints: Final = Table(
    "checkpoints",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The state of an episode after event ``seq``, so that it can be resumed without replaying its whole record.

``digest`` is the SHA-256 of that event's digest and ``body``; a row that does not match is ignored.
"""

removals: Final = Table("removals", metadata, Column("episode_id", short_text(64), primary_key=True))
"""Episodes that are being removed: no longer in the index, but still with events."""

COMMITTED: Final = (
    "ALTER TABLE events ADD COLUMN txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)",
    "CREATE INDEX events_txid ON events (txid)",
)
"""Additions in PostgreSQL: the transaction of each event, to find what was committed since a mark although
many processes write at once (:func:`.queries.news`)."""
