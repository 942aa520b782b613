"""The measurement of what random damage to a journal does: nothing may crash, and nothing be lost unsaid.

``python -m benchmarks corruption`` damages a thousand copies of one journal, each in another way, lets the
services of a server start on each, and reads every episode as viewers do. An episode is served whole, or
refused in words; a start never fails.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure
from server.services import Services
from server.settings import Settings
from server.wiring import open_services
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.errors import SpectatorError

TIMES: Final = 1_000
TURNS: Final = 40
ENDED: Final = 3
PAGE_BYTES: Final = 4096

Record = Mapping[str, list[str]]
"""The events of each episode, as they were recorded."""


def measure() -> Iterator[Figure]:
    """Damage a journal a thousand times over."""
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory() as folder:
        found = Counter(outcomes(Path(folder), TIMES, seed=1))
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(found.items()))
    lost = sum(count for outcome, count in found.items() if outcome.startswith(("lost", "crash")))
    yield Figure(
        f"episodes after {TIMES:,} random corruptions of their journal", told, "0 lost, 0 crashes", "-"
    )
    yield Figure("lost unsaid, or crashes", str(lost), "0", "-")


def outcomes(folder: Path, times: int, seed: int) -> Iterator[str]:
    """What became of each episode of each damaged copy, in words.

    Args:
        folder: Room for the copies.
        times: How many.
        seed: Of the damage.
    """
    whole = folder / "whole"
    record = asyncio.run(_recorded(whole))
    for number in range(times):
        rng = Random(f"{seed}-{number}")
        copy = folder / "copy"
        shutil.copytree(whole, copy)
        kind = rng.choice(sorted(DAMAGE))
        DAMAGE[kind](copy / "journal.db", rng)
        yield from asyncio.run(_served(copy, record, kind))
        shutil.rmtree(copy)


def _settings(folder: Path) -> Settings:
    return Settings(data_dir=folder, environment="counting", voice="silent", max_episodes=4)


async def _recorded(folder: Path) -> Record:
    """Play a few episodes, all but the last to their end, and read them."""
    async with open_services(_settings(folder)) as services:
        plan = services.supervisor.plan
        for seed in range(ENDED):
            request = EpisodeRequest("counting", seed=seed, pace=Pace.MAX, options={"turns": TURNS})
            live = await services.supervisor.start(plan(request))
            await live.wait()
        endless = EpisodeRequest("counting", seed=9, pace=Pace.MAX, options={"turns": 1_000_000})
        live = await services.supervisor.start(plan(endless))
        while live.turn < TURNS:  # noqa: ASYNC110 - nothing tells of single turns
            await asyncio.sleep(0)
        await services.supervisor.pause(live.episode_id, by="operator")
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        record: dict[str, list[str]] = {}
        for episode_id, text in journal.execute(
            "SELECT episode_id, text FROM events ORDER BY episode_id, seq"
        ):
            record.setdefault(episode_id, []).append(text)
    return record


async def _served(folder: Path, record: Record, kind: str) -> list[str]:
    """How each episode of ``record`` is served from the journal in ``folder``."""
    try:
        async with open_services(_settings(folder)) as services:
            return [f"{await _shown(services, name, texts)} ({kind})" for name, texts in record.items()]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is counted
        return [f"crash: {error!r} ({kind})"]


async def _shown(services: Services, episode_id: str, texts: list[str]) -> str:
    if list(services.settings.data_dir.glob("*damaged*")):
        return "set aside with its journal"
    try:
        summary = await services.public_views.episode(episode_id)
        shown = await services.public_views.texts(episode_id)
    except SpectatorError:
        return "refused in words"
    if shown[: len(texts)] == texts:
        return "whole"
    return "not found" if summary is None else "lost unsaid"


def _flip(path: Path, rng: Random) -> None:
    """Change single bytes anywhere in the file."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 64)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content)


def _blank(path: Path, rng: Random) -> None:
    """Fill a page with zeros."""
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES
    content[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(content)


def _cut(path: Path, rng: Random) -> None:
    """Cut the file."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def _rows(change: str) -> Callable[[Path, Random], None]:
    """Change one row or several of the events by a statement over ``:one`` and ``:other``, row ids."""

    def damage(path: Path, rng: Random) -> None:
        with closing(sqlite3.connect(path)) as journal, journal:
            rows = [row for (row,) in journal.execute("SELECT rowid FROM events")]
            journal.execute(change, {"one": rng.choice(rows), "other": rng.choice(rows)})

    return damage


DAMAGE: Final[Mapping[str, Callable[[Path, Random], None]]] = {
    "bytes changed": _flip,
    "a page blank": _blank,
    "the file cut": _cut,
    "an event gone": _rows("DELETE FROM events WHERE rowid = :one"),
    "events gone": _rows("DELETE FROM events WHERE rowid BETWEEN min(:one, :other) AND max(:one, :other)"),
    "a text replaced": _rows(
        "UPDATE events SET text = (SELECT text FROM events WHERE rowid = :other) WHERE rowid = :one"
    ),
    "a text changed": _rows("UPDATE events SET text = replace(text, '1', '2') WHERE rowid = :one"),
    "a text cut": _rows("UPDATE events SET text = substr(text, 1, length(text) / 2) WHERE rowid = :one"),
    "a text of zeros": _rows("UPDATE events SET text = zeroblob(40) WHERE rowid = :one"),
    "a digest changed": _rows("UPDATE events SET digest = zeroblob(32) WHERE rowid = :one"),
}
"""Ways to damage a journal."""
