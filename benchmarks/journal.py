"""Measure appends to the journal, with and without model calls, next to bare SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.figures import Figure
from spectator.events import Event, RecordedEvent, record
from spectator.journal import contract, writer
from spectator.journal.contract import Attachments, Synchronous
from spectator.journal.sql_journal import SqlJournal
from spectator.model_calls import ModelCall

EVENTS = 3
"""Events of one append: a decision, what happened, the step."""

SIZE = 1000
"""Characters of each event's own text."""

CONVERSATION = 100
"""Calls of a conversation; each adds to the one before."""

SITUATION = 3000
"""Characters of the situation in each call, and of the tools in all of them."""

TOKENS = 200
"""Tokens of an answer, with ids and log probabilities; each call adds twenty to the prompt."""

SECONDS = 1.5
ROUNDS = 5


def measure() -> list[Figure]:
    """Return all figures, measured in alternating rounds."""
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
    return [*figures, *_with_calls(), _digest()]


def _with_calls() -> list[Figure]:
    """Compare appends with and without a model call, in alternating rounds."""
    kinds = {
        "no call": _plain,
        "a call without tokens": _calling(False),
        "a call with tokens": _calling(True),
    }
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, make in kinds.items():
            found[kind].append(_appends(64, "normal", True, make))
    plain = statistics.median(cpu for _, cpu in found["no call"])
    return [
        Figure(
            f"the same, 64 episodes at once, {kind} beside each",
            f"{statistics.median(rate for rate, _ in found[kind]):,.0f}, "
            f"{1e6 * statistics.median(cpu for _, cpu in found[kind]):.0f} us of CPU each",
            "-",
            f"{statistics.median(cpu for _, cpu in found[kind]) / plain:.2f} x without",
        )
        for kind in kinds
    ]


Make = Callable[[str, int], list[tuple[list[RecordedEvent], Attachments | None]]]
"""Makes appends of one episode: (name, number)."""


def _plain(name: str, depth: int) -> list[tuple[list[RecordedEvent], Attachments | None]]:
    return [(_batch(name, 1 + EVENTS * k), None) for k in range(depth)]


def _calling(tokens: bool) -> Make:
    """Return a maker of appends whose decisions have calls of a growing conversation."""

    def make(name: str, depth: int) -> list[tuple[list[RecordedEvent], Attachments | None]]:
        tools = [{"type": "function", "function": {"name": "act", "description": "x" * SITUATION}}]
        appends: list[tuple[list[RecordedEvent], Attachments | None]] = []
        shown: list[dict[str, Any]] = []
        ids = array("q")
        for k in range(depth):
            if k % CONVERSATION == 0:
                shown, ids = [{"role": "system", "content": f"You are {name}, for the time {k}."}], array("q")
            situation = "".join(f'"{word}":{k * word},' for word in range(SITUATION // 10))
            shown = [*shown, {"role": "user", "content": situation}]
            ids += array("q", range(20 * k, 20 * k + 20))
            call = ModelCall(
                messages=shown,
                tools=tools,
                prompt_token_ids=ids[:] if tokens else None,
                token_ids=array("q", range(TOKENS)) if tokens else None,
                logprobs=array("d", [-0.125 * n for n in range(TOKENS)]) if tokens else None,
            )
            first, *others = _batch(name, 1 + EVENTS * k)
            exchange = {"request": "0" * 64, "reply": {"content": "x"}, "failure": None, "digest": "0" * 64}
            data = {"actor": "home", "exchanges": [exchange], **first.event.data}
            decided = record(replace(first.event, type="decision.made", data=data))
            appends.append(([decided, *others], Attachments(calls=[[call]])))
            shown = [*shown, {"role": "assistant", "content": f"act {k}"}]
        return appends

    return make


def _batch(name: str, first: int) -> list[RecordedEvent]:
    return [
        record(Event(name, "e", seq, "2026-11-21T05:00:00.000Z", seq, "x.happened", {"text": "x" * SIZE}))
        for seq in range(first, first + EVENTS)
    ]


def _appends(
    episodes: int, synchronous: Synchronous, chained: bool, make: Make = _plain
) -> tuple[float, float]:
    """Measure appends a second and CPU seconds per append, without making the events."""
    extend = contract.extend if chained else lambda digest, text: digest
    with (
        TemporaryDirectory(prefix="spectator-") as folder,
        mock.patch.object(writer, "extend", extend),
    ):
        return asyncio.run(_many(Path(folder), episodes, synchronous, make))


async def _many(folder: Path, episodes: int, synchronous: Synchronous, make: Make) -> tuple[float, float]:
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", synchronous=synchronous)
    depth = max(20, 6000 // episodes)
    ready = [make(f"ep-{n:03d}", depth) for n in range(episodes)]
    until = time.perf_counter() + SECONDS

    async def author(batches: Sequence[tuple[Sequence[RecordedEvent], Attachments | None]]) -> int:
        done = 0
        for batch, attachments in batches:
            await journal.append(batch, attachments=attachments)
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
    """Measure commits of the same rows a second by SQLite alone."""
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
    """Measure the cost of the chain's digest per event."""
    text = _batch("ep", 1)[0].text
    digest, count = contract.GENESIS, 200_000
    began = time.process_time()
    for _ in range(count):
        digest = contract.extend(digest, text)
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
