"""Run a fleet of rollouts for measurements, and the same calls by aiohttp and orjson alone."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.chat import ChatRequest
from spectator.llm.wire_forms import encode_request
from spectator.rollouts.fleet import OnBegin, run_rollouts
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.request import RolloutRequest

TURNS = 10
"""Model calls of an episode."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """Cost of calls.

    Args:
        calls: Number of calls.
        cpu_s: Processor time of the process, seconds.
        wall_s: Wall time, seconds.
    """

    calls: int
    cpu_s: float
    wall_s: float

    @property
    def us(self) -> float:
        """Microseconds of processor time for a call."""
        return 1e6 * self.cpu_s / self.calls


class Stopwatch:
    """Measures from its creation."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cost(self, calls: int) -> CallCost:
        """Return the cost of ``calls``."""
        return CallCost(calls, time.process_time() - self._cpu, time.perf_counter() - self._wall)


def asked(port: int, episodes: int, turns: int, *, tokens: bool = False) -> RolloutRequest:
    """Return the measured run: counting, with the whole history in every prompt."""
    model = {
        "label": "bench", "base_url": f"http://127.0.0.1:{port}/v1", "model": "bench", "stream": False,
        "timeout_s": 300.0, "context_tokens": 1_000_000, "tokens": tokens,
    }  # fmt: skip
    return RolloutRequest.model_validate(
        {"environment": "counting", "options": {"turns": turns}, "episodes": episodes, "model": model}
    )


async def fleet(
    port: int,
    folder: Path,
    *,
    episodes: int,
    in_flight: int,
    turns: int = TURNS,
    tokens: bool = False,
    on_begin: OnBegin = lambda running: None,
) -> CallCost:
    """Play a run into ``folder``, with all first requests in flight at once."""
    watch = Stopwatch()
    report = await run_rollouts(
        asked(port, episodes, turns, tokens=tokens), folder,
        concurrency=in_flight, clock=SystemClock(), load=load_world, rng=random.Random(1),
        deadlines=Deadlines(startup_jitter_s=0.0), on_begin=on_begin,
    )  # fmt: skip
    cost = watch.cost(episodes * turns)
    assert report.over == episodes and report.report.succeeded, report
    assert sum(result.turns for result in report.report.last) == cost.calls
    return cost


async def bodies_of(folder: Path, *, tokens: bool) -> list[dict[str, Any]]:
    """Return the requests of one episode from a run's record."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        (one,) = await journal.episodes(EpisodeFilter(limit=1))
        calls = [recorded.call async for recorded in journal.calls(one.episode_id)]
    finally:
        await journal.aclose()
    return [
        orjson.loads(
            encode_request(
                ChatRequest(
                    messages=call.messages, tools=call.tools, logprobs=tokens, token_ids=tokens, **call.about
                )
            )
        )
        for call in calls
    ]


async def bare(port: int, bodies: Sequence[dict[str, Any]], *, episodes: int, in_flight: int) -> CallCost:
    """Make the same calls by aiohttp and orjson."""
    url, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"Content-Type": "application/json"}
    left = iter(range(episodes))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def play() -> None:
            for _ in left:
                for body in bodies:
                    async with session.post(url, data=orjson.dumps(body), headers=headers) as response:
                        orjson.loads(await response.read())

        watch = Stopwatch()
        await asyncio.gather(*(play() for _ in range(in_flight)))
    return watch.cost(episodes * len(bodies))


async def bare_on_asyncio(
    port: int, bodies: Sequence[dict[str, Any]], *, episodes: int, in_flight: int
) -> CallCost:
    """Make the same calls on asyncio's own loop, the usual setup, in a thread."""

    def run() -> CallCost:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return runner.run(bare(port, bodies, episodes=episodes, in_flight=in_flight))

    return await asyncio.to_thread(run)


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this process and its new threads to one core; other processes keep theirs."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


async def summaries(folder: Path) -> Sequence[EpisodeSummary]:
    """Return the episodes of a run."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        return await journal.episodes(EpisodeFilter(limit=1000))
    finally:
        await journal.aclose()
