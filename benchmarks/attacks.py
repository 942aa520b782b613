"""The attacks of a review on a server in the public profile, each from an address of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.figures import Figure
from benchmarks.serving import ServerUnderTest

TOKEN: Final = "a-token-for-the-measurement"
OPERATOR: Final = {"Authorization": f"Bearer {TOKEN}"}

PAYLOAD: Final = 64_000
"""Bytes of each event of the big record."""

MATCH: Final = {
    "environment": "counting",
    "pace": "fast",
    "options": {"turns": 100_000, "payload_bytes": 700},
}
START: Final = "/custom/start_episode"
SHORT: Final = {"environment": "counting", "pace": "max", "options": {"turns": 1}}
PATIENT: Final = {
    "environment": "counting",
    "pace": "broadcast",
    "options": {"turns": 500},
    "wait_s": 2,
}
GREEDY: Final = {
    "environment": "counting",
    "pace": "max",
    "options": {"turns": 1_000_000, "payload_bytes": 65_536},
}
FLOODED: Final = (
    "/",
    "/api/episodes?limit=200&text=a",
    "/api/leaderboard",
    "/leaderboard",
    "/openapi.json",
    "/custom/environments",
    "/nowhere",
)
Row = tuple[str, str, str, str]
"""Name, value, target, and what the review found at commit 510f4b3."""


Attack = Callable[[], Coroutine[Any, Any, Row]]


def attacks(server: ServerUnderTest, record: str, seq: int) -> list[Attack]:
    """Every attack that ends by itself."""
    return [
        lambda: _disk(server),
        lambda: _forks(server, record, seq),
        lambda: _malformed(server),
        lambda: _forged(server),
        lambda: _publishes(server),
        lambda: _forecasts(server),
        lambda: _waiting(server),
        lambda: _flood(server),
    ]


async def _disk(server: ServerUnderTest) -> Row:
    async with client_of(server, "203.0.113.1") as client:
        status, answer = await post(client, START, GREEDY)
    rules = "; ".join(f"{one['field']} {one['rule']}" for one in answer.get("errors", []))
    return (
        "a start of 1,000,000 turns of 64 KB",
        f"{status}: {rules}",
        "refused",
        "11-18 MB/s of disk, no end",
    )


async def _forks(server: ServerUnderTest, record: str, seq: int) -> Row:
    """Forks from about two thirds of the record on: a turn has three events."""
    before, began = rss_mb(server), time.monotonic()
    async with client_of(server, "203.0.113.2") as client:
        body = {"episode_id": record, "seq": seq, "pace": "max"}
        answers = await asyncio.gather(*(post(client, "/custom/fork", body) for _ in range(5)))
    took, grown = time.monotonic() - began, rss_mb(server) - before
    value = f"{_counted(answers)} in {took:.1f} s, {grown:+.0f} MB"
    return "5 forks of the big record at once", value, "+200 MB", "3.2 GB, four of five 409, 7-10 s each"


async def _malformed(server: ServerUnderTest) -> Row:
    async with client_of(server, "203.0.113.3") as client:
        answers = [await post(client, START, b"{") for _ in range(30)]
    async with client_of(server, "203.0.113.4") as client:
        visitor, _ = await post(client, START, SHORT)
        own, _ = await post(client, START, SHORT)
    value = f"{_counted(answers)}; another visitor: {visitor}, again: {own}"
    return "30 malformed starts behind the proxy", value, "not 429 for others", "429 for everybody else"


async def _forged(server: ServerUnderTest) -> Row:
    answers = []
    for forged in range(12):
        async with client_of(server, f"6.6.6.{forged}, 203.0.113.5") as client:
            answers.append(await post(client, START, SHORT))
            await asyncio.sleep(0.2)
    return "12 starts with forged X-Forwarded-For", _counted(answers), "6 at most", "12 of 12 passed"


async def _publishes(server: ServerUnderTest, seconds: float = 5.0) -> Row:
    shown: Counter[str] = Counter()
    until = time.monotonic() + seconds
    async with client_of(server, "203.0.113.6") as client, client.ws_connect("/ws") as wire:
        while time.monotonic() < until:
            await wire.send_json({"type": "reset", "data": {"publish": True, "publish_as": "BUY NOW"}})
            answer = await wire.receive_json()
            published = answer["data"].get("observation", {}).get("metadata", {}).get("published", {})
            shown["shown" if "episode_id" in published else "refused"] += 1
    value = f"{shown['shown']} shown, {shown['refused']:,} refused in {seconds:g} s"
    return "a flood of published episodes", value, "6 a minute, by the token", "1,680 shown in 10 s"


async def _forecasts(server: ServerUnderTest) -> Row:
    async with client_of(server, "203.0.113.7") as client:
        status, answer = await post(client, "/envs/cricket/reset", {"forecast_futures": 20_000})
        refused = "; ".join(f"{one['field']} {one['rule']}" for one in answer.get("errors", []))
        began = time.monotonic()
        answers = [await post(client, "/envs/cricket/reset", {"forecast_futures": 1000}) for _ in range(10)]
    value = f"{status}: {refused}; 10 of 1,000: {_counted(answers)} in {time.monotonic() - began:.1f} s"
    return "forecast_futures=20000 in OpenEnv", value, "refused", "2.2 s of computing a step"


async def _waiting(server: ServerUnderTest) -> Row:
    """Ten starts of one address that wait, while another address asks how it would stand."""
    async with client_of(server, "203.0.113.8") as client, client_of(server, "203.0.113.9") as other:
        async with asyncio.TaskGroup() as group:  # which end with the attack
            waiting = [group.create_task(post(client, START, PATIENT)) for _ in range(10)]
            await asyncio.sleep(1.0)
            _, visitor = await post(other, START, {**PATIENT, "wait_s": 0})
        answers = [one.result() for one in waiting]
        for status, answer in (*answers, (0, visitor)):
            if status == 202 or "episode_id" in answer:
                await _stop(server, str(answer["episode_id"]))
    place = visitor.get("queue", {}).get("place", "a slot at once" if "episode_id" in visitor else "none")
    return (
        "10 starts of an address that wait",
        f"{_counted(answers)}; place of another: {place}",
        "-",
        "no queue",
    )


async def _flood(server: ServerUnderTest, seconds: float = 5.0) -> Row:
    """Twenty connections of an address that ask without a pause, and one visitor beside them."""
    answers: Counter[int] = Counter()
    until = time.monotonic() + seconds

    async def ask(client: aiohttp.ClientSession, number: int) -> None:
        for path in itertools.cycle(FLOODED[number % len(FLOODED) :] + FLOODED[: number % len(FLOODED)]):
            if time.monotonic() > until:
                return
            async with client.get(path) as answer:
                await answer.read()
                answers[answer.status] += 1

    async with (
        client_of(server, "203.0.113.10") as client,
        client_of(server, "203.0.113.11") as other,
        asyncio.TaskGroup() as asking,
    ):
        for number in range(20):
            asking.create_task(ask(client, number))
        waited = []
        while time.monotonic() < until:
            began = time.monotonic()
            async with other.get("/custom/status") as answer:
                await answer.read()
            waited.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
    counts = ", ".join(f"{count:,} x {status}" for status, count in sorted(answers.items()))
    value = f"{counts} in {seconds:g} s; a visitor waits {max(waited) * 1000:.0f} ms at most"
    return "20 connections that ask for everything", value, "-", "not tried"


async def _stop(server: ServerUnderTest, episode_id: str) -> None:
    async with client_of(server, "192.0.2.1", OPERATOR) as operator:
        await post(operator, "/custom/stop_episode", {"episode_id": episode_id})


async def slow_body(server: ServerUnderTest, patience_s: float = 120.0) -> Figure:
    """Send a body of a byte a second for so long, or until it is refused."""
    host, _, port = server.base.rpartition("//")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {START} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9999"
    writer.write(f"{head}\r\n\r\n".encode())
    began = time.monotonic()
    answered = asyncio.create_task(reader.readline())
    while not answered.done() and time.monotonic() - began < patience_s:
        writer.write(b" ")
        await asyncio.wait({answered}, timeout=1.0)
    line = answered.result().decode().strip() if answered.done() else "open"
    answered.cancel()
    writer.close()
    value = f"{line} after {time.monotonic() - began:.0f} s"
    return Figure("a body of a byte a second", value, "cut", "the review: never cut")


@asynccontextmanager
async def client_of(
    server: ServerUnderTest, address: str, headers: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client behind the one trusted proxy."""
    told = {"X-Forwarded-For": address, **(headers or {})}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(
        server.base, headers=told, auto_decompress=address.startswith("192"), timeout=timeout
    ) as client:
        yield client


async def post(client: aiohttp.ClientSession, path: str, body: object) -> tuple[int, dict[str, Any]]:
    """The status and the document that answer a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with client.post(path, data=data, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def get(client: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    """The document that answers a GET."""
    async with client.get(path) as answer:
        found: dict[str, Any] = await answer.json()
        return found


def _counted(answers: Sequence[tuple[int, object]]) -> str:
    counts = Counter(status for status, _ in answers)
    return ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))


def rss_mb(server: ServerUnderTest) -> float:
    """The server's resident memory, million bytes."""
    text = Path(f"/proc/{server.process_id}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1000
