"""What a fleet of rollouts costs a model call: ``python -m benchmarks rollouts``.

A call is everything that ``spectator rollouts run`` does for one: the episode's share of its start and end,
the prompt, the request, the answer, the decision, the world's step, its events, and the durable record of
events and call. Counted is the processor time of the whole process, user and system, all threads. Beside it,
in the same run and on the same loop, aiohttp with orjson makes the same calls: it encodes the same bodies,
with as many in flight, decodes the same answers, and records nothing. The endpoint is another process.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import orjson
import uvloop

from benchmarks.endpoint import endpoint
from benchmarks.figures import Figure, spread
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.journal.base import EpisodeFilter
from spectator.journal.stores.sqlite import SqlJournal
from spectator.llm.chat import ChatRequest
from spectator.llm.wire import encode_request
from spectator.rollouts.fleet import OnBegin, run_rollouts
from spectator.rollouts.request import RolloutRequest

ROUNDS = 5
TURNS = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """What calls took.

    Args:
        calls: How many.
        cpu_s: Processor time of the process, seconds.
        wall_s: Seconds on the clock.
    """

    calls: int
    cpu_s: float
    wall_s: float

    @property
    def us(self) -> float:
        """Microseconds of processor time for a call."""
        return 1e6 * self.cpu_s / self.calls


class Stopwatch:
    """Measures from its making on."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cost(self, calls: int) -> Cost:
        """What ``calls`` took."""
        return Cost(calls, time.process_time() - self._cpu, time.perf_counter() - self._wall)


def asked(port: int, episodes: int, turns: int, *, tokens: bool = False) -> RolloutRequest:
    """The run that is measured: counting, with the whole history in every prompt."""
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
    on_begin: OnBegin = lambda underway: None,
) -> Cost:
    """Play a run into ``folder``."""
    watch = Stopwatch()
    report = await run_rollouts(
        asked(port, episodes, turns, tokens=tokens), folder,
        concurrency=in_flight, clock=SystemClock(), load=load_world, rng=random.Random(1), on_begin=on_begin,
    )  # fmt: skip
    cost = watch.cost(episodes * turns)
    assert report.over == episodes and report.report.succeeded, report
    assert sum(result.turns for result in report.report.last) == cost.calls
    return cost


async def bodies_of(folder: Path, *, tokens: bool) -> list[dict[str, Any]]:
    """The requests of one episode of a run, as its record has them."""
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


async def bare(port: int, bodies: Sequence[dict[str, Any]], *, episodes: int, in_flight: int) -> Cost:
    """The same calls by aiohttp and orjson."""
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


async def cost_of_a_call(
    name: str, target: str, *, episodes: int, in_flight: int, tokens: bool = False, latency_s: float = 0.0,
    rounds: int = ROUNDS,
) -> Figure:  # fmt: skip
    """Processor time of a call; rounds of the fleet and of bare aiohttp take turns."""
    ratios, ours, plain = [], [], []
    with endpoint(latency_s=latency_s) as port, TemporaryDirectory(prefix="spectator-") as kept:
        await fleet(port, Path(kept, "first"), episodes=1, in_flight=1, tokens=tokens)
        bodies = await bodies_of(Path(kept, "first"), tokens=tokens)
        await bare(port, bodies, episodes=in_flight, in_flight=in_flight)
        for number in range(rounds):
            folder = Path(kept, str(number))
            own = await fleet(port, folder, episodes=episodes, in_flight=in_flight, tokens=tokens)
            other = await bare(port, bodies, episodes=episodes, in_flight=in_flight)
            ours.append(own.us)
            plain.append(other.us)
            ratios.append(own.us / other.us)
    value = f"{spread(ratios)} x: {statistics.median(ours):.0f} us"
    return Figure(name, value, target, f"aiohttp and orjson {statistics.median(plain):.0f} us")


def measure() -> list[Figure]:
    """All figures."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure())


async def _measure() -> list[Figure]:
    gc.freeze()
    return [
        await cost_of_a_call(
            "CPU of a recorded call, 64 in flight", "<= 1.3 x, then 0.6 x", episodes=256, in_flight=64
        ),
        await cost_of_a_call(
            "the same with token ids and log probabilities",
            "<= 1.4 x",
            episodes=256,
            in_flight=64,
            tokens=True,
        ),
    ]
