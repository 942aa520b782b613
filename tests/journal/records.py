"""Small records for tests of the journal."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from spectator.events import Event, RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Store:
    """Where the journal of a folder is, and how its tables are changed behind its back."""

    url: Callable[[Path], str]
    execute: Callable[[Path, str], list[tuple[Any, ...]]]


def _execute(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "journal.db")) as connection, connection:
        return connection.execute(statement).fetchall()


STORE = Store(lambda folder: f"sqlite:///{folder / 'journal.db'}", _execute)
"""That of the test that runs; the fixture ``each_store`` puts another one here."""


def url_of(folder: Path) -> str:
    return STORE.url(folder)


def execute(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run SQLite's ``statement`` on the journal of a folder, whichever store that has; its rows."""
    return STORE.execute(folder, statement)


def as_postgresql(statement: str) -> str:
    """A statement of SQLite's with its blobs as PostgreSQL writes them.

    >>> as_postgresql("UPDATE truths SET body = x'00'")
    "UPDATE truths SET body = '\\\\x00'::bytea"
    """
    statement = re.sub(r"CAST\(('[^']*') AS BLOB\)", r"convert_to(\1, 'UTF8')", statement)
    statement = re.sub(r"zeroblob\((\d+)\)", lambda found: f"x'{'00' * int(found[1])}'", statement)
    return re.sub(r"\bx'([0-9a-f]*)'", r"'\\x\1'::bytea", statement)


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    return asyncio.run(work)


def started(episode_id: str, *, environment: str = "counting", captain: str = "heuristic") -> RecordedEvent:
    seat = {"policy": captain, "label": captain.title(), "source": "heuristic"}
    other = {"policy": "random", "label": "Random", "source": "random"}
    data = {
        "environment": environment,
        "title": environment.title(),
        "seats": {"home": seat, "away": other},
        "agent": "home",
        "pack": "default",
        "seed": 2**53 - 1,
    }
    return record(Event(episode_id, "e1", 1, "2026-11-21T05:00:00.000Z", 0, "episode.started", data))


def said(episode_id: str, seq: int, text: str = "x") -> RecordedEvent:
    return record(Event(episode_id, "e1", seq, "now", seq, "counting.number_said", {"text": text}))


def ended(episode_id: str, seq: int, reason: str = "finished") -> RecordedEvent:
    data = {"reason": reason, "score": 0.5, "result": "home won", "turns": seq - 2}
    return record(Event(episode_id, "e1", seq, "2026-11-21T06:00:00.000Z", seq, "episode.ended", data))


def seqs(events: Sequence[RecordedEvent]) -> list[int]:
    return [recorded.event.seq for recorded in events]


async def depose_others(journal: SqlJournal) -> None:
    """Take the episodes of every other process that writes, as whoever missed it would."""
    if journal.ownership is not None:
        for name in await journal.ownership.others():
            await journal.ownership.depose(name)
