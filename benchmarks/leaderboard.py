"""The measurement of the leaderboard over 10,000 recorded episodes: reading them, and looking at it."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import Figure
from benchmarks.serving import server_in
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodeRequest, plan_episode
from spectator.evaluation.figures import figures_of
from spectator.events import RecordedEvent, decode, record
from spectator.journal.stores.sqlite import SqlJournal
from spectator.runs.jobs import Job
from spectator.runs.workers import Order, play_apart

EPISODES = 10_000
LOOKS = 200
CAPTAINS = 12
"""Captains and packs that the episodes are spread over: 12 x 12 pairs in 4 packs."""
PACKS = 4
BURST = 200
"""Episodes that are appended at once while the journal is filled."""


def measure() -> list[Figure]:
    """Fill a journal, start a server on it, look, and start it again."""
    episode = _played("counting", "heuristic", None, {"turns": 1})
    match = _played("cricket", "heuristic", "tactician", {"max_overs": 5})
    with TemporaryDirectory(prefix="spectator-board-") as folder:
        asyncio.run(_fill(Path(folder), episode))
        first, looks, pages, health = _served(Path(folder))
        again = _served(Path(folder))[0]
    one = _median([_timed(match) for _ in range(30)])
    return [
        Figure(
            "figures of a 5-over match from its record",
            f"median {1000 * one:.1f} ms for {len(match)} events",
            "< 50 ms",
            f"decoding it alone {1000 * _median([_decoding(match) for _ in range(30)]):.1f} ms",
        ),
        Figure(f"a server's first reading of {EPISODES:,} short episodes", f"{first:.1f} s", "-", "-"),
        Figure(f"the same {EPISODES:,} after a restart", f"{again:.1f} s", "< 5 s", "-"),
        Figure("GET /api/leaderboard", _spread(looks), "p99 < 50 ms", f"/health {_spread(health)}"),
        Figure("GET /leaderboard", _spread(pages), "p99 < 100 ms", f"/health {_spread(health)}"),
    ]


def _played(
    environment: str, captain: str, opponent: str | None, options: dict[str, int]
) -> list[RecordedEvent]:
    request = EpisodeRequest(environment, captain, opponent, seed=1, pace=Pace.MAX, options=options)
    job = Job.of(plan_episode(request, draw_seed=lambda: 0))
    return [decode(text) for text in play_apart(Order(job, "ep-0"))[0]]


async def _fill(folder: Path, episode: list[RecordedEvent]) -> None:
    """One-turn episodes of the smallest world, told under many captains' names."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
    for begin in range(0, EPISODES, BURST):
        numbers = range(begin, min(EPISODES, begin + BURST))
        await asyncio.gather(*(journal.append(_as(number, episode)) for number in numbers))
    await journal.aclose()


def _as(number: int, episode: list[RecordedEvent]) -> list[RecordedEvent]:
    told = []
    for one in episode:
        data = one.event.data
        if one.event.type == "episode.started":
            seat = {**data["seats"]["counter"], "policy": f"captain-{number % CAPTAINS}"}
            other = {**seat, "policy": f"captain-{number // CAPTAINS % CAPTAINS}"}
            data = {**data, "pack": f"pack-{number % PACKS}", "seats": {"counter": seat, "other": other}}
        event = dataclasses.replace(one.event, episode_id=f"ep-{number:08}", data=data)
        told.append(record(event))
    return told


def _served(folder: Path) -> tuple[float, list[float], list[float], list[float]]:
    """Seconds until all is read, then of looks, pages and probes."""
    with (
        server_in(folder, {"SPECTATOR_ENVIRONMENT": "counting"}) as base,
        httpx.Client(base_url=base) as client,
    ):
        began = time.perf_counter()
        while True:
            board = client.get("/api/leaderboard").json()
            if board["episodes"] == EPISODES and not board["owed"]:
                break
            time.sleep(0.05)
        took = time.perf_counter() - began
        paths = ("/api/leaderboard", "/leaderboard", "/health")
        looks = {path: [_look(client, path) for _ in range(LOOKS)] for path in paths}
        return took, looks[paths[0]], looks[paths[1]], looks[paths[2]]


def _look(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - began


def _timed(match: list[RecordedEvent]) -> float:
    texts = [one.text for one in match]
    began = time.perf_counter()
    figures_of(decode(text) for text in texts)
    return time.perf_counter() - began


def _decoding(match: list[RecordedEvent]) -> float:
    texts = [one.text for one in match]
    began = time.perf_counter()
    for text in texts:
        decode(text)
    return time.perf_counter() - began


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"median {1000 * _median(ordered):.2f} ms, p99 {1000 * ordered[int(0.99 * len(ordered))]:.2f} ms"
