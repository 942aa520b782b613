"""Copies ended episodes, row by row, from one embedded journal into a new one of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from spectator.errors import JournalDamaged, JournalError
from spectator.journal.stores.database import open_database
from spectator.journal.stores.schema import calls, episodes, events, messages, metadata, schema, truths

COPIED: Final = (events, messages, calls, truths, episodes)
"""The tables that hold an episode; checkpoints are no part of a record."""

_BATCH: Final = 500
"""Episodes that are copied by one statement."""


def copy_episodes(source: Path, target: Path, episode_ids: Sequence[str]) -> None:
    """Write a new journal that holds these episodes and nothing else; every row is as it was.

    The source is read in one transaction and may be written meanwhile. The copy is a single file, complete
    without a write-ahead log.

    Args:
        source: A journal's file.
        target: Where the copy goes; there is nothing yet.
        episode_ids: Which episodes; they have ended.

    Raises:
        JournalError: The source cannot be read, lacks one of them, or the copy cannot be written.
    """
    made = open_database(f"sqlite:///{target}", writable=True)
    made.engine.dispose()
    assert made.lock is not None
    try:
        with closing(sqlite3.connect(target, isolation_level=None, uri=True)) as copy:
            copy.execute("ATTACH DATABASE ? AS source", (f"{source.absolute().as_uri()}?mode=ro",))
            copy.execute("BEGIN")
            for first in range(0, len(episode_ids), _BATCH):
                _copy_rows(copy, episode_ids[first : first + _BATCH])
            copy.execute("COMMIT")
            copied = copy.execute("SELECT count(*) FROM main.episodes").fetchone()[0]
            copy.execute("DETACH DATABASE source")
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            copy.execute("VACUUM")
    except sqlite3.Error as error:
        raise JournalError(f"the episodes of {source} cannot be copied: {error}") from error
    finally:
        made.lock.release()
    if copied != len(episode_ids):
        raise JournalError(f"{source} has {copied} of the {len(episode_ids)} episodes that are to be copied")


def _copy_rows(copy: sqlite3.Connection, episode_ids: Sequence[str]) -> None:
    wanted = ", ".join("?" * len(episode_ids))
    for table in COPIED:
        names = ", ".join(column.name for column in table.columns)
        copy.execute(
            f"INSERT INTO main.{table.name} ({names}) SELECT {names} FROM source.{table.name} "
            f"WHERE episode_id IN ({wanted})",
            list(episode_ids),
        )


def need_plain_journal(path: Path) -> None:
    """Let a journal's file from elsewhere through only if it holds our tables and nothing that computes.

    A database may bring views and triggers of its own, which run when it is read.

    Raises:
        JournalDamaged: It is no such file.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            found = database.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise JournalDamaged(f"{path.name} is no journal, or not all of one: {error}") from error
    for problem in _foreign(found):
        raise JournalDamaged(f"{path.name} {problem}")


def _foreign(found: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    tables = {name for kind, name, _ in found if kind == "table"}
    for kind, name, of in found:
        if kind not in ("table", "index") or of not in metadata.tables:
            yield f"holds the {kind} {name[:80]!r}, which no journal of Spectator has"
    for table in (schema, *COPIED):
        if table.name not in tables:
            yield f"lacks the table {table.name!r} of a journal"
