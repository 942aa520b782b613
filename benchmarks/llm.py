"""The figures of asking models: ``python -m benchmarks.llm``.

The endpoint is a process of its own, so that only the client's work is counted (user and system time of this
process). Beside each figure stand, from the same interleaved run, a client made by hand on a bare socket and
aiohttp with nothing around it; both encode and decode the same bodies.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import orjson
import uvloop

from benchmarks.endpoint import TOKENS, endpoint
from benchmarks.figures import HEADER, Figure, ms, percentile
from server.app import build_server
from server.process.serving import listen
from server.settings import Settings
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.world import World
from spectator.llm.address import StaticAddress
from spectator.llm.breaker import Breaker
from spectator.llm.chat import ChatRequest
from spectator.llm.client import ChatClient, ClientLimits
from spectator.observations import Observation
from spectator.policies.captain_table import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelSeat, model_presets
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


def chat_client(port: int, concurrency: int = 64) -> ChatClient:
    """The client of this library, with everything that it does in earnest."""
    clock, limits = SystemClock(), ClientLimits(concurrency=concurrency, connections=max(128, concurrency))
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


def _seat(world: World) -> ModelSeat:
    return ModelSeat(Briefing(f"{world.title}. {world.summary}"), world.captains[world.default_captain].build)


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
    """Processor time of a whole decision in a match: prompt, history, call, thoughts, parsing, validation."""
    world = load_world("cricket")
    seen = situations(world, 200)
    body = {"model": "bench", "messages": MESSAGES, "stream": stream}
    with endpoint() as port:
        plain, times, usual = PlainClient(port), [], []
        for number in range(ROUNDS):
            policy: ModelPolicy = captain(world, port, stream=stream)(number)
            policy.think_aloud(lambda thought: None)
            began = time.process_time()
            decisions = [await policy.decide(observation, deadline=60) for observation in seen]
            times.append((time.process_time() - began) / len(seen))
            await policy.aclose()
            if stream:
                assert {decision.source for decision in decisions} == {"model"}
            usual.append(await _cpu_per_call(lambda: plain.complete(body), 200, 1))
        await plain.aclose()
    kind = f"streamed, {TOKENS} thoughts" if stream else "whole answer that must be repaired and fails"
    ratio = statistics.median(own / other for own, other in zip(times, usual, strict=True))
    value = f"{ms(statistics.median(times))}, best {ms(min(times))}: {ratio:.1f} x one call of bare aiohttp"
    limit = f"one call of bare aiohttp {ms(statistics.median(usual))}, best {ms(min(usual))}"
    return Figure(f"CPU of a live decision, {kind}", value, "< 1 ms", limit)


async def stalls_of_eight_matches() -> Figure:
    """How long the event loop of a server was kept from other work by eight matches of streaming models."""
    with endpoint(pause_s=0.002) as port:
        stalls, work, frames = await _serve_eight(port)
    value = (
        f"work between two turns of the loop: p99 {ms(percentile(work, 0.99))}, worst {ms(max(work))}; "
        f"on the clock: p99 {ms(percentile(stalls, 0.99))}, worst {ms(max(stalls))}; "
        f"{frames['thought']} frames of thoughts and {frames['event']} events told"
    )
    idle = f"an idle loop, on the clock: worst {ms(await _quiet_stall())}"
    return Figure("event loop stalls, 8 matches of streaming models", value, "< 20 ms", idle)


async def _serve_eight(port: int) -> tuple[list[float], list[float], dict[str, int]]:
    """Stalls of a server's loop while a crowd in another process plays: by the clock, and by its own time."""
    stalls: list[float] = []
    work: list[float] = []

    async def watch() -> None:
        while True:
            began, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - began - 0.001)
            work.append(time.thread_time() - worked)

    with TemporaryDirectory() as folder:
        captains = Path(folder) / "captains.toml"
        captains.write_text(
            f'[captains.bench]\nlabel = "Bench"\nmodel = "bench"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        )
        settings = Settings(
            port=0, data_dir=Path(folder), max_episodes=8, captains_file=captains, llm_live="llm:bench"
        )
        server, listener = build_server(settings), listen(settings)
        gc.freeze()  # as the server's own process does
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        crowd = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.thinkers", base, stdout=asyncio.subprocess.PIPE
        )
        watching = asyncio.create_task(watch())  # not before: to begin a process takes this one's loop 15 ms
        told, _ = await crowd.communicate()
        watching.cancel()
        server.should_exit = True
        await serving
        listener.close()
    return stalls, work, json.loads(told)


async def cancelling_a_decision(rounds: int = 30) -> Figure:
    """From the cancellation of a decision to the end of its connection at the endpoint."""
    world = load_world("cricket")
    (seen,) = situations(world, 1)
    asked, closed = asyncio.Event(), asyncio.Event()

    class Silent(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            asked.set()

        def connection_lost(self, exc: Exception | None) -> None:
            closed.set()

    listener = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
    times = []
    for number in range(rounds):
        asked.clear()
        closed.clear()
        policy = captain(world, listener.sockets[0].getsockname()[1], stream=True)(number)
        deciding = asyncio.create_task(policy.decide(seen, deadline=60))
        await asked.wait()
        began = time.perf_counter()
        deciding.cancel()
        await closed.wait()
        times.append(time.perf_counter() - began)
        await policy.aclose()
    listener.close()
    value = f"median {ms(percentile(times, 0.5))}, worst {ms(max(times))}"
    return Figure("from a decision's cancellation to the end of its request", value, "< 100 ms", "-")


async def _quiet_stall() -> float:
    """The worst stall of a loop that has nothing else to do, in a second: what the machine itself takes."""
    worst, until = 0.0, time.perf_counter() + 1.0
    while (began := time.perf_counter()) < until:
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - began - 0.001)
    return worst


async def measure() -> list[Figure]:
    """All figures."""
    gc.freeze()  # as the server's own process does
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
        await cancelling_a_decision(),
    ]


def main() -> None:
    """Measure and print."""
    print(HEADER)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for figure in runner.run(measure()):
            print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
