"""Owns the figures of asking models: ``python -m benchmarks.llm``.

The endpoint is a process of its own, so that only the client's work is counted (user and system time of this
process). Beside each figure stand, from the same interleaved run, a client made by hand on a bare socket and
aiohttp with nothing around it; both encode and decode the same bodies.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import aiohttp
import orjson

from benchmarks.endpoint import TOKENS, endpoint
from benchmarks.figures import HEADER, Figure, ms, percentile
from spectator.bus.memory import MemoryBus
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.base import World
from spectator.episodes import request as requests
from spectator.episodes.driver import EpisodeLimits
from spectator.episodes.pacing import Pace
from spectator.episodes.request import EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.journal.sql import SqlJournal
from spectator.llm.address import StaticAddress
from spectator.llm.breaker import Breaker
from spectator.llm.chat import ChatRequest
from spectator.llm.client import ChatClient, ClientLimits
from spectator.observations import Observation
from spectator.policies.captains import ModelCaptain, Seat, model_presets
from spectator.policies.model import ModelPolicy
from spectator.policies.prompting import Briefing

ROUNDS = 5

MESSAGES = [{"role": "system", "content": "You decide. " * 20}] + [
    {"role": role, "content": "The situation, in so many words, as it was then. " * 8}
    for _ in range(5)
    for role in ("user", "assistant")
]
"""A prompt of eleven messages, about 4 kB."""


class BareClient:
    """The least that a client can do: one connection for each task, no errors, no limits, no retries."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def complete(self, body: dict[str, Any]) -> Any:
        """Ask; a stream is joined to one text."""
        data = orjson.dumps(body)
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        )
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
            % (len(data), data)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            answer: Any = await self._stream(reader)
        else:
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            answer = orjson.loads(await reader.readexactly(length))
        self._idle.append((reader, writer))
        return answer

    async def _stream(self, reader: asyncio.StreamReader) -> str:
        parts = []
        while size := int(await reader.readline(), 16):
            event = await reader.readexactly(size + 2)
            if event[6:12] != b"[DONE]":
                parts.append(orjson.loads(event[6:])["choices"][0]["delta"].get("content", ""))
        await reader.readline()
        return "".join(parts)

    async def aclose(self) -> None:
        """Close."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()


class PlainClient:
    """aiohttp as it comes."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self._session = aiohttp.ClientSession()

    async def complete(self, body: dict[str, Any]) -> Any:
        """Ask; a stream is joined to one text."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url, data=orjson.dumps(body), headers=headers) as response:
            if not body.get("stream"):
                return orjson.loads(await response.read())
            events = [
                orjson.loads(line[6:]) async for line in response.content if line.startswith(b"data: {")
            ]
            return "".join(event["choices"][0]["delta"].get("content", "") for event in events)

    async def aclose(self) -> None:
        """Close."""
        await self._session.close()


async def _cpu_per_call(call: Callable[[], Awaitable[Any]], calls: int, tasks: int) -> float:
    """Seconds of processor time of this process for one call."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(call() for _ in range(tasks)))
    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return (time.process_time() - began) / calls


def chat_client(port: int) -> ChatClient:
    """The client of this library, with everything that it does in earnest."""
    clock, limits = SystemClock(), ClientLimits(concurrency=64)
    return ChatClient(
        limits.transport(),
        StaticAddress(f"http://127.0.0.1:{port}/v1"),
        clock=clock,
        rng=random.Random(1),
        limits=limits,
        breaker=Breaker(clock),
    )


async def cpu_of_a_call(name: str, *, calls: int, tasks: int, target: str, **fields: Any) -> Figure:
    """Processor time of one call beside those of the others; medians of interleaved rounds."""
    request = ChatRequest(model="bench", messages=MESSAGES, **fields)
    body: dict[str, Any] = {"model": "bench", "messages": MESSAGES}
    body |= {key: True for key in ("stream", "logprobs") if fields.get(key)}
    with endpoint() as port:
        ours, bare, plain = chat_client(port), BareClient(port), PlainClient(port)
        rounds = [
            (
                await _cpu_per_call(lambda: ours.complete(request, deadline=60), calls, tasks),
                await _cpu_per_call(lambda: bare.complete(body), calls, tasks),
                await _cpu_per_call(lambda: plain.complete(body), calls, tasks),
            )
            for _ in range(ROUNDS)
        ]
        for client in (ours, bare, plain):
            await client.aclose()
    mine, least, usual = (1e6 * statistics.median(column) for column in zip(*rounds, strict=True))
    over_bare = statistics.median(own / other for own, other, _ in rounds)
    over_plain = statistics.median(own / other for own, _, other in rounds)
    value = f"{mine:.0f} us: {over_bare:.1f} x a bare socket, {over_plain:.2f} x bare aiohttp"
    return Figure(name, value, target, f"bare socket {least:.0f} us, bare aiohttp {usual:.0f} us")


def _seat(world: World) -> Seat:
    return Seat(Briefing(f"{world.title}. {world.summary}"), world.captains[world.default_captain].build)


def captain(world: World, port: int, *, stream: bool) -> Callable[[int], Any]:
    """Builds a model captain of ``world`` that asks the endpoint at ``port``."""
    table = ModelCaptain(
        label="Bench", base_url=f"http://127.0.0.1:{port}/v1", model="bench", stream=stream, timeout_s=60
    )
    return model_presets(
        {"llm:bench": table}, _seat(world), variables={}, clock=SystemClock(), rng=random.Random()
    )["llm:bench"].build


def situations(world: World, count: int) -> list[Observation]:
    """What the default captains see while they play, as far as the answer of the endpoint is legal there."""
    seen: list[Observation] = []
    environment = world.environment()
    captains = {actor: world.captains[world.default_captain].build(n) for n, actor in enumerate(world.actors)}
    options = world.options_type().model_dump(mode="json")
    seed = 0
    while len(seen) < count:
        seed += 1
        observation = environment.reset(seed=seed, episode_id="bench", options=options)
        while not observation.done:
            if any(action["tool"] == "play_delivery" for action in observation.legal_actions):
                seen.append(observation)
            assert observation.actor is not None
            decision = captains[observation.actor].choose(observation)  # type: ignore[attr-defined]
            observation = environment.step(decision.action)
    return seen[:count]


async def cpu_of_a_decision(*, stream: bool) -> Figure:
    """Processor time of a whole decision in a match: prompt, history, call, parsing, validation."""
    world = load_world("cricket")
    seen = situations(world, 200)
    with endpoint() as port:
        times = []
        for number in range(ROUNDS):
            policy: ModelPolicy = captain(world, port, stream=stream)(number)
            began = time.process_time()
            decisions = [await policy.decide(observation, deadline=60) for observation in seen]
            times.append((time.process_time() - began) / len(seen))
            await policy.aclose()
            if stream:
                assert {decision.source for decision in decisions} == {"model"}
    kind = f"streamed, {TOKENS} thoughts" if stream else "whole answer that must be repaired and fails"
    return Figure(f"CPU of a live decision, {kind}", ms(statistics.median(times)), "< 1 ms", "-")


async def stalls_of_eight_matches() -> Figure:
    """How long the event loop was kept from other work by eight matches between streaming models."""
    world = load_world("cricket")
    with endpoint(pause_s=0.002) as port:
        preset = dataclasses.replace(world.captains["heuristic"], build=captain(world, port, stream=True))
        led = dataclasses.replace(world, captains={"heuristic": preset}, opponents={"heuristic": preset})
        with mock.patch.object(requests, "load_world", lambda name: led):
            stalls, work = await _play_eight()
    value = (
        f"work between two turns of the loop: p99 {ms(percentile(work, 0.99))}, worst {ms(max(work))}; "
        f"on the clock: p99 {ms(percentile(stalls, 0.99))}, worst {ms(max(stalls))}"
    )
    idle = f"an idle loop, on the clock: worst {ms(await _quiet_stall())}"
    return Figure("event loop stalls, 8 matches of streaming models", value, "< 20 ms", idle)


async def _play_eight() -> tuple[list[float], list[float]]:
    """Stalls of the loop while eight matches are played: by the clock, and by its own processor time."""
    stalls: list[float] = []
    work: list[float] = []

    async def watch() -> None:
        while True:
            began, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - began - 0.001)
            work.append(time.thread_time() - worked)

    ids = itertools.count()
    with TemporaryDirectory() as folder:
        journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
        async with asyncio.TaskGroup() as tasks:
            supervisor = Supervisor(
                journal=journal,
                bus=MemoryBus(),
                clock=SystemClock(),
                tasks=tasks,
                slots=8,
                limits=EpisodeLimits(),
                new_id=lambda: f"ep-{next(ids)}",
                new_epoch=lambda: "e",
                draw_seed=lambda: 1,
            )
            match = EpisodeRequest("cricket", pace=Pace.MAX, options={"max_overs": 1})
            episodes = [await supervisor.start(match) for _ in range(8)]
            watching = tasks.create_task(watch())
            for episode in episodes:
                assert (await episode.wait()).reason == "finished"
            watching.cancel()
        await journal.aclose()
    return stalls, work


async def _quiet_stall() -> float:
    """The worst stall of a loop that has nothing else to do, in a second: what the machine itself takes."""
    worst, until = 0.0, time.perf_counter() + 1.0
    while (began := time.perf_counter()) < until:
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - began - 0.001)
    return worst


async def measure() -> list[Figure]:
    """All figures."""
    return [
        await cpu_of_a_call("CPU of a call, one at a time", calls=500, tasks=1, target="< 1 ms"),
        await cpu_of_a_call("CPU of a call, 64 at once", calls=2_000, tasks=64, target="1.3 x bare aiohttp"),
        await cpu_of_a_call(
            "CPU of a call with log probabilities and token ids, 64 at once",
            calls=1_000,
            tasks=64,
            target="1.4 x bare aiohttp",
            logprobs=True,
            token_ids=True,
        ),
        await cpu_of_a_call(
            f"CPU of a streamed call of {TOKENS} pieces", calls=200, tasks=16, target="< 1 ms", stream=True
        ),
        await cpu_of_a_decision(stream=True),
        await cpu_of_a_decision(stream=False),
        await stalls_of_eight_matches(),
    ]


def main() -> None:
    """Measure and print."""
    print(HEADER)
    for figure in asyncio.run(measure()):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
