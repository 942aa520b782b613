"""Random damage to a journal never stops a start and is never passed over in silence.

Copies of a journal are damaged at random, each in another way. The services of a server start on each copy
and read every episode as viewers do. An episode is served whole, or rejected with an error.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from server.services import Services
from server.settings import Settings
from server.wiring import open_services
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.errors import SpectatorError

TIMES: Final = 40
TURNS: Final = 40
ENDED: Final = 3
PAGE_BYTES: Final = 4096

Record = Mapping[str, list[str]]
"""The recorded events of each episode."""


def test_damage_never_stops_a_start_and_is_never_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    found = list(outcomes(tmp_path, TIMES, seed=3))
    assert len(found) == TIMES * (ENDED + 1)
    assert [one for one in found if one.startswith(("crash", "lost"))] == []
    assert {one.partition(" (")[0] for one in found} >= {
        "whole",
        "rejected with an error",
        "set aside with its journal",
    }


def outcomes(folder: Path, times: int, seed: int) -> Iterator[str]:
    """Damage ``times`` copies of a journal; yields how each of their episodes is served."""
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
    """Play a few episodes, all but the last to their end, and return their events."""
    async with open_services(_settings(folder)) as services:
        plan = services.supervisor.plan
        for seed in range(ENDED):
            request = EpisodeRequest("counting", seed=seed, pace=Pace.MAX, options={"turns": TURNS})
            live = await services.supervisor.start(plan(request))
            await live.wait()
        endless = EpisodeRequest("counting", seed=9, pace=Pace.MAX, options={"turns": 1_000_000})
        live = await services.supervisor.start(plan(endless))
        while live.turn < TURNS:  # noqa: ASYNC110 - there is no event for single turns
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
    """Return how each episode of ``record`` is served from the journal in ``folder``."""
    try:
        async with open_services(_settings(folder)) as services:
            return [f"{await _shown(services, name, texts)} ({kind})" for name, texts in record.items()]
    except Exception as error:  # noqa: BLE001 - every error counts as a crash
        return [f"crash: {error!r} ({kind})"]


async def _shown(services: Services, episode_id: str, texts: list[str]) -> str:
    if list(services.settings.data_dir.glob("*damaged*")):
        return "set aside with its journal"
    try:
        summary = await services.public_views.episode(episode_id)
        shown = await services.public_views.texts(episode_id)
    except SpectatorError:
        return "rejected with an error"
    if shown[: len(texts)] == texts:
        return "whole"
    return "not found" if summary is None else "lost silently"


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
    """Change events by an SQL statement with the row ids ``:one`` and ``:other``."""

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
