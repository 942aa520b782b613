"""The measurement of what strangers can do to a match: each attack of a review, and what the match felt.

``python -m benchmarks abuse``, or ``python -m benchmarks.abuse --seconds 600 --mb 300 --readers 200``. One
server in the public profile, on loopback only, behind one trusted hop, so that every attacker has an address
of its own. A match is stepped ten times a second all the while; its gaps are those between the times at which
its steps were recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from benchmarks.figures import HEADER, Figure, ms, percentile
from benchmarks.serving import ServerUnderTest

TOKEN: Final = "a-token-for-the-measurement"
OPERATOR: Final = {"Authorization": f"Bearer {TOKEN}"}

SETTINGS: Final = {
    "SPECTATOR_PROFILE": "public",
    "SPECTATOR_OPERATOR_TOKEN": TOKEN,
    "SPECTATOR_ENVIRONMENT": "counting",
    "SPECTATOR_VOICE": "silent",
    "SPECTATOR_LOG_LEVEL": "error",
}

UNLIMITED: Final = {**SETTINGS, "SPECTATOR_PROFILE": "open", "SPECTATOR_EPISODE_MB": "5000"}
"""How the server is set that plays the big record."""

PAYLOAD: Final = 64_000
"""Bytes of each event of the big record."""

MATCH: Final = {
    "environment": "counting",
    "pace": "fast",
    "options": {"turns": 100_000, "payload_bytes": 700},
}
STEP_S: Final = 0.1
START: Final = "/custom/start_episode"
SHORT: Final = {"environment": "counting", "pace": "max", "options": {"turns": 1}}
GREEDY: Final = {
    "environment": "counting",
    "pace": "max",
    "options": {"turns": 1_000_000, "payload_bytes": 65_536},
}
SLOW_EVERY: Final = 4
"""One reader in so many takes 64 KB a second and no more."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the measurement is.

    Args:
        seconds: Of both watches over the match together, a third of them without readers.
        mb: Of the record that is read, million bytes.
        readers: Who read it at once, each from an address of its own.
    """

    seconds: float = 60.0
    mb: float = 300.0
    readers: int = 200


def measure(sizes: Sizes | None = None) -> Iterator[Figure]:
    """All rows."""
    wanted = sizes or Sizes()
    with TemporaryDirectory(prefix="spectator-abuse-") as folder:
        with contextlib.closing(ServerUnderTest(Path(folder), UNLIMITED)) as server:
            server.start()
            server.wait()
            record = asyncio.run(_big_record(server, wanted))
        with contextlib.closing(ServerUnderTest(Path(folder), SETTINGS)) as server:
            server.start()
            server.wait()
            yield from asyncio.run(_attacked(server, record, wanted))


async def _big_record(server: ServerUnderTest, sizes: Sizes) -> str:
    """Play one long episode; its id."""
    async with aiohttp.ClientSession(server.base) as client:
        turns = max(1, round(sizes.mb * 1e6 / PAYLOAD))
        body = {**GREEDY, "options": {"turns": turns, "payload_bytes": PAYLOAD}}
        _, started = await _post(client, START, body)
        while not (await _get(client, "/api/episodes?ended=true"))["episodes"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.5)
        return str(started["episode_id"])


async def _attacked(server: ServerUnderTest, record: str, sizes: Sizes) -> list[Figure]:
    async with _client(server, "192.0.2.1", OPERATOR) as operator:
        _, started = await _post(operator, START, MATCH)
        match = AttackedMatch(operator, str(started["episode_id"]))
        await asyncio.sleep(2.0)  # what is loaded late is loaded
        slow = asyncio.create_task(_slow_body(server))
        alone = await match.gaps(sizes.seconds / 3)
        figures = await _readers(server, match, record, sizes, alone)
        rows = (
            _disk(server),
            _forks(server, record, 2 * round(sizes.mb * 1e6 / PAYLOAD)),
            _malformed(server),
            _forged(server),
            _publishes(server),
            _forecasts(server),
        )
        for row in rows:
            name, value, target, before = await row
            figures.append(Figure(name, value, target, f"before: {before}"))
        figures.append(await slow)
        return figures


class AttackedMatch:
    """The match that everybody came for.

    Args:
        client: Asks for its record.
        episode_id: Its id.
    """

    def __init__(self, client: aiohttp.ClientSession, episode_id: str) -> None:
        self._client = client
        self._url = f"/api/episodes/{episode_id}"

    async def head(self) -> int:
        """Number of its last event."""
        return int((await _get(self._client, self._url))["head_seq"])

    async def gaps(self, seconds: float) -> list[float]:
        """Watch for so long; how much later than its pace asks each step came, in seconds."""
        first = await self.head()
        await asyncio.sleep(seconds)
        async with self._client.get(f"{self._url}/events?after_seq={first}") as answer:
            events = [json.loads(line) for line in (await answer.text()).splitlines()]
        times = [
            datetime.fromisoformat(one["at"]).timestamp() for one in events if one["type"] == "step.taken"
        ]
        return [later - earlier - STEP_S for earlier, later in itertools.pairwise(times)]


async def _readers(
    server: ServerUnderTest, match: AttackedMatch, record: str, sizes: Sizes, alone: Sequence[float]
) -> list[Figure]:
    before, peak, tally = _rss_mb(server), 0.0, Counter[str]()

    async def watch_memory() -> None:
        nonlocal peak
        while True:
            peak = max(peak, _rss_mb(server))
            await asyncio.sleep(0.1)

    readers = [asyncio.create_task(_read(server, number, record, tally)) for number in range(sizes.readers)]
    readers.append(asyncio.create_task(watch_memory()))
    crowded = await match.gaps(sizes.seconds * 2 / 3)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    read = f"{tally['bytes'] / 1e6:,.0f} MB read, {tally['refused']:,} refusals"
    who = f"{sizes.readers} readers of {sizes.mb:g} MB"
    return [
        Figure(
            f"step gap, p99, {who}",
            f"{ms(percentile(crowded, 0.99))} ({len(crowded)} steps; {read})",
            "+5 ms",
            f"nobody reads: {ms(percentile(alone, 0.99))} ({len(alone)} steps)",
        ),
        Figure(f"step gap, longest, {who}", ms(max(crowded)), "-", f"nobody reads: {ms(max(alone))}"),
        Figure(f"resident memory, {who}", f"{peak:.0f} MB at the peak", "flat", f"{before:.0f} MB before"),
    ]


async def _read(server: ServerUnderTest, number: int, record: str, tally: Counter[str]) -> None:
    """Read the record again and again, from an address of one's own."""
    encoding = {"Accept-Encoding": "identity" if number % 2 else "gzip"}
    async with _client(server, f"198.51.{number // 250}.{number % 250}", encoding) as client:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"/api/episodes/{record}/export") as answer:
                    if answer.status != 200:
                        tally["refused"] += 1
                        await asyncio.sleep(float(answer.headers["Retry-After"]))
                        continue
                    async for piece in answer.content.iter_chunked(32 * 1024):
                        tally["bytes"] += len(piece)
                        if not number % SLOW_EVERY:
                            await asyncio.sleep(0.5)


Row = tuple[str, str, str, str]
"""Name, value, target, and what the review found at commit 510f4b3."""


async def _disk(server: ServerUnderTest) -> Row:
    async with _client(server, "203.0.113.1") as client:
        status, answer = await _post(client, START, GREEDY)
    rules = "; ".join(f"{one['field']} {one['rule']}" for one in answer.get("errors", []))
    return (
        "a start of 1,000,000 turns of 64 KB",
        f"{status}: {rules}",
        "refused",
        "11-18 MB/s of disk, no end",
    )


async def _forks(server: ServerUnderTest, record: str, seq: int) -> Row:
    """Forks from about two thirds of the record on: a turn has three events."""
    before, began = _rss_mb(server), time.monotonic()
    async with _client(server, "203.0.113.2") as client:
        body = {"episode_id": record, "seq": seq, "pace": "max"}
        answers = await asyncio.gather(*(_post(client, "/custom/fork", body) for _ in range(5)))
    took, grown = time.monotonic() - began, _rss_mb(server) - before
    value = f"{_counted(answers)} in {took:.1f} s, {grown:+.0f} MB"
    return "5 forks of the big record at once", value, "+200 MB", "3.2 GB, four of five 409, 7-10 s each"


async def _malformed(server: ServerUnderTest) -> Row:
    async with _client(server, "203.0.113.3") as client:
        answers = [await _post(client, START, b"{") for _ in range(30)]
    async with _client(server, "203.0.113.4") as client:
        visitor, _ = await _post(client, START, SHORT)
        own, _ = await _post(client, START, SHORT)
    value = f"{_counted(answers)}; another visitor: {visitor}, again: {own}"
    return "30 malformed starts behind the proxy", value, "202 for others", "429 for everybody else"


async def _forged(server: ServerUnderTest) -> Row:
    answers = []
    for forged in range(12):
        async with _client(server, f"6.6.6.{forged}, 203.0.113.5") as client:
            answers.append(await _post(client, START, SHORT))
            await asyncio.sleep(0.2)
    return "12 starts with forged X-Forwarded-For", _counted(answers), "6 at most", "12 of 12 passed"


async def _publishes(server: ServerUnderTest, seconds: float = 5.0) -> Row:
    shown: Counter[str] = Counter()
    until = time.monotonic() + seconds
    async with _client(server, "203.0.113.6") as client, client.ws_connect("/ws") as wire:
        while time.monotonic() < until:
            await wire.send_json({"type": "reset", "data": {"publish": True, "publish_as": "BUY NOW"}})
            answer = await wire.receive_json()
            published = answer["data"].get("observation", {}).get("metadata", {}).get("published", {})
            shown["shown" if "episode_id" in published else "refused"] += 1
    value = f"{shown['shown']} shown, {shown['refused']:,} refused in {seconds:g} s"
    return "a flood of published episodes", value, "6 a minute, by the token", "1,680 shown in 10 s"


async def _forecasts(server: ServerUnderTest) -> Row:
    async with _client(server, "203.0.113.7") as client:
        status, answer = await _post(client, "/envs/cricket/reset", {"forecast_futures": 20_000})
        refused = "; ".join(f"{one['field']} {one['rule']}" for one in answer.get("errors", []))
        began = time.monotonic()
        answers = [await _post(client, "/envs/cricket/reset", {"forecast_futures": 1000}) for _ in range(10)]
    value = f"{status}: {refused}; 10 of 1,000: {_counted(answers)} in {time.monotonic() - began:.1f} s"
    return "forecast_futures=20000 in OpenEnv", value, "refused", "2.2 s of computing a step"


async def _slow_body(server: ServerUnderTest, patience_s: float = 120.0) -> Figure:
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
    return Figure("a body of a byte a second", value, "cut", "before: never cut")


@asynccontextmanager
async def _client(
    server: ServerUnderTest, address: str, headers: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client behind the one trusted proxy."""
    told = {"X-Forwarded-For": address, **(headers or {})}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(
        server.base, headers=told, auto_decompress=address.startswith("192"), timeout=timeout
    ) as client:
        yield client


async def _post(client: aiohttp.ClientSession, path: str, body: object) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with client.post(path, data=data, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def _get(client: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with client.get(path) as answer:
        found: dict[str, Any] = await answer.json()
        return found


def _counted(answers: Sequence[tuple[int, object]]) -> str:
    counts = Counter(status for status, _ in answers)
    return ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))


def _rss_mb(server: ServerUnderTest) -> float:
    text = Path(f"/proc/{server.process_id}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1000


def main() -> None:
    """Measure in the sizes that are asked for, and print."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    for name, default in (("seconds", Sizes().seconds), ("mb", Sizes().mb), ("readers", Sizes().readers)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    print(HEADER, flush=True)
    for figure in measure(Sizes(given.seconds, given.mb, given.readers)):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
