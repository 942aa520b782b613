"""Prune the oldest episodes of a journal and free their space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import Any, Final

from sqlalchemy import Column, Connection, Integer, Table, delete, func, insert, inspect, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import GenericFunction

from spectator.clock import timestamp
from spectator.journal.coordination import fleet_runs, leases, not_of_a_fleet
from spectator.journal.database import run_to_its_end
from spectator.journal.schema import calls, checkpoints, episodes, events, messages, removals, truths

BATCH: Final = 200
"""Rows removed, and pages freed, in one transaction."""

ROW_BYTES: Final = 120
"""Approximate overhead of an event or a message: key, digest and SQLite's own, in bytes."""

SIZES: Final[tuple[tuple[Table, tuple[Column[Any], ...]], ...]] = (
    (events, (events.c.text,)),
    (messages, (messages.c.body,)),
    (
        calls,
        (
            calls.c.messages,
            calls.c.tools,
            calls.c.reply,
            calls.c.prompt_token_ids,
            calls.c.token_ids,
            calls.c.logprobs,
            calls.c.beside,
        ),
    ),
    (truths, (truths.c.body,)),
)
"""The tables of an episode's data, and the large columns of each."""

MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Keep:
    """Retention limits for ended episodes; 0 means no limit.

    Args:
        episodes: Maximum number of ended episodes.
        days: Maximum days since the end.
        mb: Maximum size of the journal in million bytes.
    """

    episodes: int = 0
    days: float = 0.0
    mb: float = 0.0

    def __post_init__(self) -> None:
        if min(self.episodes, self.days, self.mb) < 0:
            raise ValueError(f"retention limits must not be negative: {self}")


@dataclass(frozen=True, slots=True)
class Surplus:
    """An episode to be pruned.

    Args:
        ended_at: When it ended, RFC 3339.
        bytes: Approximate size.
        why: The exceeded limit: ``age``, ``count`` or ``size``.
    """

    episode_id: str
    ended_at: str
    events: int
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Size of a journal.

    Args:
        episodes: Number of episodes, including unended ones.
        bytes: Size on the disk, without the write-ahead log.
    """

    episodes: int
    bytes: int
    free_bytes: int


def figures(connection: Connection) -> Figures:
    """Measure the journal."""
    if _is_server(connection):
        return _figures_of_server(connection)
    size, pages, free = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_size", "page_count", "freelist_count")
    )
    count = connection.scalar(select(func.count()).select_from(episodes)) or 0
    return Figures(count, size * pages, size * free)


def _figures_of_server(connection: Connection) -> Figures:
    """Measure the tables in PostgreSQL."""
    size = sum(
        connection.scalar(select(func.pg_total_relation_size(table.name))) or 0
        for table in (*(table for table, _ in SIZES), episodes, checkpoints)
    )
    count = connection.scalar(select(func.count()).select_from(episodes)) or 0
    return Figures(count, size, 0)


def _used_bytes(connection: Connection) -> int:
    """Return the size of the journal's content; PostgreSQL's tables also keep free space."""
    if not _is_server(connection):
        size = figures(connection)
        return size.bytes - size.free_bytes
    return sum(int(connection.execute(_content(table, columns)).one()[1]) for table, columns in SIZES)


def _content(table: Table, columns: tuple[Column[Any], ...]) -> Any:
    """Make a query for the number of a table's rows and their approximate size."""
    sizes = [func.coalesce(byte_length(column), 0) for column in columns]
    return select(func.count(), func.coalesce(func.sum(reduce(add, sizes)), 0) + func.count() * ROW_BYTES)


def _is_server(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


class byte_length(GenericFunction[int]):
    """Bytes of a text or a blob; in PostgreSQL of its stored, possibly compressed form."""

    type = Integer()
    inherit_cache = True


@compiles(byte_length)
def _of_blob(element: byte_length, compiler: SQLCompiler, **more: Any) -> str:
    return f"length(CAST({compiler.process(element.clauses, **more)} AS BLOB))"


@compiles(byte_length, "postgresql")
def _of_stored(element: byte_length, compiler: SQLCompiler, **more: Any) -> str:
    return f"pg_column_size({compiler.process(element.clauses, **more)})::bigint"


def surplus(connection: Connection, keep: Keep, now: datetime) -> list[Surplus]:
    """List the episodes to prune, oldest end first."""
    return list(_surplus(connection, keep, now))


def _surplus(connection: Connection, keep: Keep, now: datetime) -> Iterator[Surplus]:
    if keep == Keep():
        return
    over: ColumnElement[bool] = episodes.c.ended_at.is_not(None)
    if inspect(connection).has_table(fleet_runs.name):
        over = over & not_of_a_fleet()  # a fleet would play removed episodes again
    too_many = (
        connection.scalar(select(func.count()).select_from(episodes).where(over)) or 0
    ) - keep.episodes
    too_large = _used_bytes(connection) - keep.mb * MB if keep.mb else 0.0
    oldest = timestamp(now - timedelta(days=keep.days))
    ordered = select(episodes.c.episode_id, episodes.c.ended_at).where(over)
    for episode_id, ended_at in connection.execute(
        ordered.order_by(episodes.c.ended_at, episodes.c.episode_id)
    ).all():
        if keep.days and ended_at < oldest:
            why = "age"
        elif keep.episodes and too_many > 0:
            why = "count"
        elif keep.mb and too_large > 0:
            why = "size"
        else:
            return
        count, room = _room(connection, episode_id)
        too_many -= 1
        too_large -= room
        yield Surplus(episode_id, ended_at, count, room, why)


def _room(connection: Connection, episode_id: str) -> tuple[int, int]:
    """Return an episode's number of events and approximate size."""
    counts, room = [], 0
    for table, columns in SIZES:
        wanted = _content(table, columns).where(table.c.episode_id == episode_id)
        count, taken = connection.execute(wanted).one()
        counts.append(count)
        room += int(taken)
    return counts[0], room


def unended_bytes(connection: Connection) -> dict[str, int]:
    """Return the approximate size of each unended episode's events."""
    ids = connection.scalars(select(episodes.c.episode_id).where(episodes.c.ended_at.is_(None))).all()
    size = func.coalesce(func.sum(byte_length(events.c.text)), 0)
    return {
        one: connection.execute(select(size).where(events.c.episode_id == one)).scalar_one() for one in ids
    }


def begin_removal(connection: Connection, episode_id: str) -> None:
    """Remove an ended episode from the index; its events are removed later, in batches.

    Does nothing if it is gone or has not ended.
    """
    row = delete(episodes).where(episodes.c.episode_id == episode_id, episodes.c.ended_at.is_not(None))
    if connection.execute(row).rowcount:
        connection.execute(insert(removals).values(episode_id=episode_id))


def unfinished(connection: Connection) -> list[str]:
    """List episodes whose removal or staging is unfinished.

    On a server, episodes with a lease are excluded: they are being staged now.
    """
    begun = select(removals.c.episode_id)
    if connection.dialect.name == "postgresql":
        begun = begun.where(removals.c.episode_id.not_in(select(leases.c.episode_id)))
    return list(connection.scalars(begun))


def continue_removal(connection: Connection, episode_id: str) -> bool:
    """Remove the next batch of rows of an episode; return whether there may be more."""
    if connection.scalar(select(removals.c.episode_id).where(removals.c.episode_id == episode_id)) is None:
        return False
    for table, key in ((calls, calls.c.seq), (messages, messages.c.digest), (events, events.c.seq)):
        if _remove_some(connection, episode_id, table, key):
            return True
    for table in (truths, checkpoints):
        connection.execute(delete(table).where(table.c.episode_id == episode_id))
    connection.execute(delete(removals).where(removals.c.episode_id == episode_id))
    return False


def _remove_some(connection: Connection, episode_id: str, table: Table, key: Column[Any]) -> bool:
    """Remove a batch of an episode's rows in ``table`` by ``key``; return whether there were any."""
    mine = table.c.episode_id == episode_id
    keys = connection.scalars(select(key).where(mine).order_by(key).limit(BATCH)).all()
    if keys:
        connection.execute(delete(table).where(mine, key <= keys[-1]))
    return bool(keys)


def give_back(connection: Connection) -> bool:
    """Free some pages; return whether there may be more. PostgreSQL does this itself."""
    if _is_server(connection):
        return False
    before = figures(connection).free_bytes
    run_to_its_end(connection, f"PRAGMA incremental_vacuum({BATCH})")
    return 0 < figures(connection).free_bytes < before
