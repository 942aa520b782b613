"""Owns the journal's tables."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, Index, Integer, MetaData, String, Table, Text

SCHEMA_VERSION: Final = 1
"""Version of the tables; a journal of another version is not touched."""

metadata: Final = MetaData()

schema: Final = Table("schema", metadata, Column("version", Integer, primary_key=True))

events: Final = Table(
    "events",
    metadata,
    Column("episode_id", String(64), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""One row an event; ``text`` is its one encoding, never parsed and written again."""

episodes: Final = Table(
    "episodes",
    metadata,
    Column("episode_id", String(64), primary_key=True),
    Column("epoch", String(32), nullable=False),
    Column("environment", String(64), nullable=False),
    Column("title", Text, nullable=False),
    Column("captain", String(64), nullable=False),
    Column("captain_label", Text, nullable=False),
    Column("opponent", String(64), nullable=False),
    Column("pack", String(64), nullable=False),
    Column("seed", String(20), nullable=False),
    Column("started_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("reason", String(32)),
    Column("score", Float),
    Column("result", Text),
    Column("turns", Integer),
    Index("episodes_unended", "ended_at", "episode_id"),
)
"""The index of episodes, kept in the same transactions as the events that it is derived from."""
