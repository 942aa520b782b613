"""Measure a recorded call to a model, independent of the world: ``python -m benchmarks.recorded_call``.

The library's client makes the call and its record: fingerprint and digest, the conversation, the reply, token
ids and log probabilities if requested. A durable call is also committed to a journal on disk, with the event
of its decision, before the next call of its conversation, and the event is published (to no viewers here).
Conversations have ten calls, and each prompt holds all earlier messages. World, prompts, policy and the
driver's turn are not included; ``benchmarks.rollouts`` measures a fleet's turn with all of them.

Counted is the processor time of the whole process, user and system, all threads, on one core, as for one
worker of a fleet with a worker per core. The endpoint has the other cores. In the same run aiohttp with
orjson makes the same calls: it encodes the same bodies, with as many in flight, decodes the same answers, and
records nothing. It does so on asyncio's own loop, the usual setup, on which the targets are based, and on
uvloop, which we use.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import uvloop

from benchmarks.endpoint import TOKENS, endpoint
from benchmarks.figures import HEADER, Figure, spread
from benchmarks.fleets import CallCost, Stopwatch, bare, bare_on_asyncio, one_core
from spectator.bus import MemoryBus
from spectator.cli.rollouts_run import collect_rarely
from spectator.clock import SystemClock
from spectator.events import Event, EventEncoder, encode_json
from spectator.journal.contract import Attachments
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.chat import ChatRequest, Conversation, FrozenMessage, FrozenPrefix
from spectator.llm.client import ChatClient, ClientLimits
from spectator.llm.endpoints import StaticAddress
from spectator.llm.exchanges import answered, call_answered
from spectator.llm.retry import CircuitBreaker
from spectator.llm.wire_forms import encode_request

ROUNDS: Final = 5
TURNS: Final = 10
"""Calls of a conversation."""

AT: Final = "2026-11-21T05:00:00.000Z"
SITUATION: Final = "The situation, in so many words, as it was then. " * 8


@dataclass(frozen=True, slots=True)
class Asking:
    """One measurement.

    Args:
        in_flight: Conversations at once.
        conversations: How many in all.
        tokens: Whether token ids and log probabilities are asked for and recorded.
        latency_s: Seconds before the endpoint answers.
    """

    in_flight: int
    conversations: int
    tokens: bool = False
    latency_s: float = 0.0


def _said() -> Iterator[FrozenMessage]:
    yield FrozenMessage({"role": "system", "content": "You decide. " * 20})
    for number in range(TURNS):
        yield FrozenMessage({"role": "user", "content": f"Turn {number}. {SITUATION}"})
        yield FrozenMessage({"role": "assistant", "content": "word " * TOKENS})


SAID: Final = tuple(_said())
"""What is said in each conversation: rules, and then a question and an answer by turns."""


def requests(tokens: bool) -> Iterator[ChatRequest]:
    """Yield the questions of one conversation; each begins with the one before."""
    beginning = FrozenPrefix()
    for asked in range(1, len(SAID), 2):
        messages = Conversation(SAID[: asked + 1], asked, beginning)
        yield ChatRequest(model="bench", messages=messages, logprobs=tokens, token_ids=tokens)


def chat_client(port: int, concurrency: int) -> ChatClient:
    """Return the library's client with its usual limits, retries and breaker."""
    clock, limits = SystemClock(), ClientLimits(concurrency=concurrency, connections=max(128, concurrency))
    return ChatClient(
        limits.transport(),
        StaticAddress(f"http://127.0.0.1:{port}/v1"),
        clock=clock,
        rng=random.Random(1),
        limits=limits,
        breaker=CircuitBreaker(clock),
    )


async def converse(client: ChatClient, journal: SqlJournal | None, name: str, *, tokens: bool) -> None:
    """Make the calls of one conversation; commit them if there is a ``journal``."""
    encoder, bus = EventEncoder(name, "e"), MemoryBus()
    for number, request in enumerate(requests(tokens), 1):
        answer = await client.complete(request, deadline=60)
        call = call_answered(request, answer)
        exchange = answered(call)
        if journal is None:
            continue
        data = {"actor": "bench", "source": "model", "raw_text": answer.text, "exchanges": [exchange]}
        decided = encoder.encode(number, AT, number, "decision.made", encode_json(data))
        decided.event = Event(name, "e", number, AT, number, "decision.made", data)
        await journal.append([decided], attachments=Attachments([[call]]))
        bus.publish([decided])


async def _at_once(asking: Asking, play: Callable[[], Awaitable[None]]) -> CallCost:
    left = iter(range(asking.conversations))

    async def work() -> None:
        for _ in left:
            await play()

    watch = Stopwatch()
    await asyncio.gather(*(work() for _ in range(asking.in_flight)))
    return watch.cost(asking.conversations * TURNS)


async def costs(asking: Asking) -> dict[str, list[CallCost]]:
    """Measure calls: record made, durable, by aiohttp, and by aiohttp on uvloop, in turns."""
    bodies: list[dict[str, Any]] = [orjson.loads(encode_request(one)) for one in requests(asking.tokens)]
    names = (f"ep-{number}" for number in itertools.count())
    found: dict[str, list[CallCost]] = {"made": [], "durable": [], "aiohttp": [], "uvloop": []}
    with (
        endpoint(latency_s=asking.latency_s) as port,
        one_core(),
        TemporaryDirectory(prefix="spectator-") as folder,
    ):
        journal = await SqlJournal.open(f"sqlite:///{Path(folder, 'journal.db')}")
        client = chat_client(port, asking.in_flight)
        for _ in range(ROUNDS + 1):
            for kind, where in (("made", None), ("durable", journal)):
                cost = await _at_once(
                    asking,
                    lambda where=where: converse(client, where, next(names), tokens=asking.tokens),  # type: ignore[misc]
                )
                found[kind].append(cost)
            found["aiohttp"].append(
                await bare_on_asyncio(port, bodies, episodes=asking.conversations, in_flight=asking.in_flight)
            )
            found["uvloop"].append(
                await bare(port, bodies, episodes=asking.conversations, in_flight=asking.in_flight)
            )
        await client.aclose()
        await journal.aclose()
    return {kind: of_rounds[1:] for kind, of_rounds in found.items()}  # the first opens connections


async def figures(asking: Asking, name: str, target: str) -> list[Figure]:
    """Compare calls with bare aiohttp, and compute calls a second of one core."""
    found = await costs(asking)
    took = {kind: statistics.median(one.us for one in of_rounds) for kind, of_rounds in found.items()}
    usual = f"aiohttp and orjson {took['aiohttp']:.0f} us, on uvloop {took['uvloop']:.0f} us"
    rows = []
    for kind, words, limit in (("made", "its record made", "-"), ("durable", "recorded and durable", target)):
        ratio, on_uvloop = (
            spread([own.us / other.us for own, other in zip(found[kind], found[peer], strict=True)])
            for peer in ("aiohttp", "uvloop")
        )
        value = (
            f"{ratio} x, over uvloop {on_uvloop} x: "
            f"{took[kind]:.0f} us, room for {1e6 / took[kind]:,.0f} a second"
        )
        rows.append(Figure(f"CPU of a call, {words}, {name}", value, limit, usual))
    return rows


async def measure() -> list[Figure]:
    """Return all figures."""
    return [
        *await figures(Asking(64, 512), "64 in flight", "<= 2.5 x"),
        *await figures(
            Asking(64, 512, tokens=True), "64 in flight, with token ids and log probabilities", "<= 2.5 x"
        ),
        *await figures(Asking(512, 1024, latency_s=0.05), "512 in flight, 50 ms latency", "<= 2.5 x"),
    ]


def main() -> None:
    """Measure as ``spectator rollouts`` runs, and print."""
    collect_rarely()
    print(HEADER)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for figure in runner.run(measure()):
            print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
