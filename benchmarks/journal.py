"""The measurement of the journal: appends from many episodes, beside bare SQLite with the same rows."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from benchmarks.figures import Figure
from spectator.events import Event, RecordedEvent, record
from spectator.journal import chain
from spectator.journal.base import Synchronous
from spectator.journal.stores import writer
from spectator.journal.stores.sqlite import SqlJournal

EVENTS = 3
"""Events of one append: a decision, what happened, the step."""

SIZE = 1000
"""Characters of each event's own text."""

SECONDS = 1.5
ROUNDS = 5


def measure() -> list[Figure]:
    """All figures, in alternating rounds."""
    kinds: dict[tuple[int, Synchronous, bool], str] = {
        (1, "normal", True): "one episode",
        (64, "normal", True): "64 episodes at once",
        (64, "normal", False): "64 episodes at once, without the chain",
        (1, "full", True): "one episode, synchronous=full",
        (64, "full", True): "64 episodes at once, synchronous=full",
    }
    ours: dict[tuple[int, Synchronous, bool], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    bare: dict[Synchronous, list[float]] = {"normal": [], "full": []}
    for _ in range(ROUNDS):
        for kind, found in ours.items():
            found.append(_appends(*kind))
        for synchronous, rates in bare.items():
            rates.append(_bare(synchronous))
    figures = [
        Figure(
            f"appends of three 1 KB events a second, {name}",
            f"{statistics.median(rate for rate, _ in ours[kind]):,.0f}, "
            f"{1e6 * statistics.median(cpu for _, cpu in ours[kind]):.0f} us of CPU each",
            "-",
            f"bare SQLite, a commit each: {statistics.median(bare[kind[1]]):,.0f}",
        )
        for kind, name in kinds.items()
    ]
    return [*figures, _digest()]


def _batch(name: str, first: int) -> list[RecordedEvent]:
    return [
        record(Event(name, "e", seq, "2026-11-21T05:00:00.000Z", seq, "x.happened", {"text": "x" * SIZE}))
        for seq in range(first, first + EVENTS)
    ]


def _appends(episodes: int, synchronous: Synchronous, chained: bool) -> tuple[float, float]:
    """Appends a second, and seconds of CPU of one, the making of the events left out."""
    extend = chain.extend if chained else lambda digest, text: digest
    with (
        TemporaryDirectory(prefix="spectator-") as folder,
        mock.patch.object(writer, "extend", extend),
    ):
        return asyncio.run(_many(Path(folder), episodes, synchronous))


async def _many(folder: Path, episodes: int, synchronous: Synchronous) -> tuple[float, float]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", synchronous=synchronous)
    depth = max(20, 6000 // episodes)
    ready = [[_batch(f"ep-{n:03d}", 1 + EVENTS * k) for k in range(depth)] for n in range(episodes)]
    until = time.perf_counter() + SECONDS

    async def author(batches: Sequence[Sequence[RecordedEvent]]) -> int:
        done = 0
        for batch in batches:
            await journal.append(batch)
            done += 1
            if time.perf_counter() > until:
                break
        return done

    began, cpu = time.perf_counter(), time.process_time()
    done = sum(await asyncio.gather(*(author(batches) for batches in ready)))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    await journal.aclose()
    return done / took, used / done


def _bare(synchronous: Synchronous) -> float:
    """Commits of the same rows a second by SQLite alone."""
    with TemporaryDirectory(prefix="spectator-") as folder:
        connection = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        for pragma in ("page_size=8192", "journal_mode=WAL", f"synchronous={synchronous}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(
            "CREATE TABLE events (episode_id TEXT, seq INT, text TEXT, PRIMARY KEY (episode_id, seq))"
        )
        rows = [
            [("ep", one.event.seq, one.text) for one in _batch("ep", 1 + EVENTS * k)] for k in range(6000)
        ]
        began, done = time.perf_counter(), 0
        for batch in rows:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events VALUES (?, ?, ?)", batch)
            connection.execute("COMMIT")
            done += 1
            if time.perf_counter() - began > SECONDS:
                break
        rate = done / (time.perf_counter() - began)
        connection.close()
        return rate


def _digest() -> Figure:
    """What the chain costs an event by itself."""
    text = _batch("ep", 1)[0].text
    digest, count = chain.GENESIS, 200_000
    began = time.process_time()
    for _ in range(count):
        digest = chain.extend(digest, text)
    cost = (time.process_time() - began) / count
    began = time.process_time()
    for _ in range(count):
        pass
    empty = (time.process_time() - began) / count
    return Figure(
        "the chain's digest of one 1 KB event",
        f"{1e6 * cost:.2f} us of CPU",
        "-",
        f"{1e9 * empty:.0f} ns an empty loop",
    )
