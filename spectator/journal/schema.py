"""Define the journal's tables."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

SCHEMA_VERSION: Final = 1
"""Version of the tables; a journal of another version is not touched."""

metadata: Final = MetaData()


def short_text(length: int) -> TypeEngine[str]:
    """Text of about ``length`` characters; in PostgreSQL, which enforces lengths and sorts by language, any
    text, in the order of its bytes.
    """
    return String(length).with_variant(Text(collation="C"), "postgresql")


def number() -> TypeEngine[int]:
    """A whole number of 8 bytes, which SQLite's are anyway."""
    return Integer().with_variant(BigInteger(), "postgresql")


schema: Final = Table("schema", metadata, Column("version", Integer, primary_key=True))

events: Final = Table(
    "events",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("digest", LargeBinary(32)),
)
"""One row an event; ``text`` is its one encoding, never parsed and written again.

Not ``WITHOUT ROWID``: there SQLite gives every row beyond a quarter of a page pages of its own, so that
events of 1.1 KB took 56 MB where they take 17 MB now, at twice the CPU.
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
"""The index of episodes, kept in the same transactions as the events that it is derived from."""

messages: Final = Table(
    "messages",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""Each message and each tool that a model was shown, once an episode; ``digest`` is the SHA-256 of its JSON.

``body`` is that JSON, or zlib's compression of it where that is shorter: one begins with ``{``, the other
with ``x``.
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
"""One row a call to a model: ``place`` counts the calls behind the decision that is event ``seq``, from 0.

Its prompt is the first ``kept`` messages of the call before it for the same actor, and then ``messages``:
digests of 32 bytes each. ``tools`` likewise; null means those of the call before it. Its prompt's tokens are
the first ``prompt_kept`` of prompt and answer of the call before it, and then ``prompt_token_ids``. Numbers
are packed: one byte ``i``, ``q``, ``f`` or ``d`` as in Python's ``struct``, then little-endian. ``reply`` is
null where the event holds it. ``beside`` is JSON: the weights' versions, how it was asked, what was measured.
"""

truths: Final = Table(
    "truths",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""The sealed truth of an ended episode: JSON, compressed as messages are."""

checkpoints: Final = Table(
    "checkpoints",
    metadata,
    Column("episode_id", short_text(64), primary_key=True),
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""Where an unended episode stood after event ``seq``, so that it can be played on without its whole record.

``digest`` is the SHA-256 of that event's digest and ``body``; a row that does not fit is as good as none.
"""

removals: Final = Table("removals", metadata, Column("episode_id", short_text(64), primary_key=True))
"""Episodes that are being removed: gone from the index, their events not yet all gone."""

COMMITTED: Final = (
    "ALTER TABLE events ADD COLUMN txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)",
    "CREATE INDEX events_txid ON events (txid)",
)
"""What PostgreSQL's tables have beyond these: the transaction of each event, so that what was committed since
a moment can be told though many write at once (:mod:`.news`)."""
