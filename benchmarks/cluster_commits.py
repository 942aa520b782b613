"""The rate at which one server's journal records steps in PostgreSQL, beside bare commits of its own."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Final

from spectator.events import Event, RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster

WINDOW_S: Final = 4.0


def recorded_steps(url: str, episodes: int, events: int) -> float:
    """Steps a second that as many episodes at once record, each of so many events of 1 KB."""
    return asyncio.run(_record(url, episodes, events))


async def _record(url: str, episodes: int, events: int) -> float:
    journal, steps = await SqlJournal.open(url), 0
    until = time.monotonic() + WINDOW_S

    async def play(episode_id: str) -> None:
        nonlocal steps
        for step in count():
            if time.monotonic() > until:
                return
            first = step * events + 1
            await journal.append([_event(episode_id, seq) for seq in range(first, first + events)])
            steps += 1

    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(episodes):
                tasks.create_task(play(f"ep-{time.monotonic_ns()}-{number}"))
    finally:
        await journal.aclose()
    return steps / WINDOW_S


def bare_commits(cluster: Cluster, database: str = "postgres") -> float:
    """Commits a second of one small row each, one after the other over one connection."""
    with cluster.connect(database) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (text text)")
        connection.commit()
        done, until = 0, time.monotonic() + WINDOW_S
        while time.monotonic() < until:
            connection.execute("INSERT INTO bare VALUES (%s)", ("x" * 1000,))
            connection.commit()
            done += 1
    return done / WINDOW_S


def _event(episode_id: str, seq: int) -> RecordedEvent:
    said = {"text": "x" * 900}
    return record(Event(episode_id, "e1", seq, "2026-11-21T05:00:00.000Z", seq, "counting.number_said", said))
