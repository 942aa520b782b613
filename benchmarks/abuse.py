"""Measure what attackers can do to a match: ``python -m benchmarks abuse`` (three minutes).

``python -m benchmarks.abuse --seconds 600`` is the long run. One server runs in the public profile, on
loopback only, behind one trusted hop, so that every attacker has its own address. A match takes ten steps a
second and is watched; a gap is the time between the recorded times of two steps. Twice in turn there is no
attack for a sixth of the time, then all attacks at once, repeatedly, for a third. The attackers share the
cores at the lowest priority, because real ones bring their own machines; their CPU time is a row.

The attacks come from a review of commit 510f4b3, which had no public profile. The column "the review" quotes
it; it was not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from benchmarks.figures import HEADER, Figure, ms, percentile
from benchmarks.serving import ServerUnderTest
from benchmarks.watching import SeenMatch, ViewersApart

TOKEN: Final = "a-token-for-the-measurement"
OPERATOR: Final = {"Authorization": f"Bearer {TOKEN}"}

PAYLOAD: Final = 64_000
"""Bytes of each event of the big record."""

MATCH: Final = {
    "environment": "counting", "pace": "fast", "options": {"turns": 100_000, "payload_bytes": 700},
}  # fmt: skip
START: Final = "/custom/start_episode"
SHORT: Final = {"environment": "counting", "pace": "max", "options": {"turns": 1}}
PATIENT: Final = {"environment": "counting", "pace": "broadcast", "options": {"turns": 500}, "wait_s": 2}
GREEDY: Final = {
    "environment": "counting", "pace": "max", "options": {"turns": 1_000_000, "payload_bytes": 65_536},
}  # fmt: skip
FLOODED: Final = (
    "/", "/api/episodes?limit=200&text=a", "/api/leaderboard", "/leaderboard", "/openapi.json",
    "/custom/environments", "/nowhere",
)  # fmt: skip
Row = tuple[str, str, str, str]
"""Name, value, target, and what the review found at commit 510f4b3."""


Attack = Callable[[], Coroutine[Any, Any, Row]]


def attacks(server: ServerUnderTest, record: str, seq: int) -> list[Attack]:
    """Return every attack that ends by itself."""
    later = (_malformed, _forged, _publishes, _forecasts, _waiting, _flood)
    return [
        partial(_disk, server),
        partial(_forks, server, record, seq),
        *(partial(one, server) for one in later),
    ]


async def _disk(server: ServerUnderTest) -> Row:
    async with client_of(server, "203.0.113.1") as client:
        status, answer = await post(client, START, GREEDY)
    rules = "; ".join(f"{one['field']} {one['rule']}" for one in answer.get("errors", []))
    name = "a start of 1,000,000 turns of 64 KB"
    return name, f"{status}: {rules}", "refused", "11-18 MB/s of disk, no end"


async def _forks(server: ServerUnderTest, record: str, seq: int) -> Row:
    """Fork five times from about two thirds of the record; a turn has three events."""
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
    return "30 malformed starts behind the proxy", value, "not 429 for others", "429 for all others"


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
    """Let ten starts of one address wait while another address asks for its place."""
    async with client_of(server, "203.0.113.8") as client, client_of(server, "203.0.113.9") as other:
        async with asyncio.TaskGroup() as group:  # they end with the attack
            waiting = [group.create_task(post(client, START, PATIENT)) for _ in range(10)]
            await asyncio.sleep(1.0)
            _, visitor = await post(other, START, {**PATIENT, "wait_s": 0})
        answers = [one.result() for one in waiting]
        for status, answer in (*answers, (0, visitor)):
            if status == 202 or "episode_id" in answer:
                async with client_of(server, "192.0.2.1", OPERATOR) as operator:
                    await post(operator, "/custom/stop_episode", {"episode_id": answer["episode_id"]})
    place = visitor.get("queue", {}).get("place", "a slot at once" if "episode_id" in visitor else "none")
    value = f"{_counted(answers)}; place of another: {place}"
    return "10 starts of an address that wait", value, "-", "no queue"


async def _flood(server: ServerUnderTest, seconds: float = 5.0) -> Row:
    """Request without a pause on twenty connections of one address, next to one visitor."""
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


async def slow_body(server: ServerUnderTest, patience_s: float = 120.0) -> Figure:
    """Send a body of a byte a second until it is rejected or ``patience_s`` is over."""
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
    """Open a client with an address of its own behind the one trusted proxy."""
    sent = {"X-Forwarded-For": address, **(headers or {})}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(
        server.base, headers=sent, auto_decompress=address.startswith("192"), timeout=timeout
    ) as client:
        yield client


async def post(client: aiohttp.ClientSession, path: str, body: object) -> tuple[int, dict[str, Any]]:
    """Send a POST; returns the status and the JSON answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with client.post(path, data=data, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def get(client: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    """Send a GET; returns the JSON answer."""
    async with client.get(path) as answer:
        found: dict[str, Any] = await answer.json()
        return found


def _counted(answers: Sequence[tuple[int, object]]) -> str:
    counts = Counter(status for status, _ in answers)
    return ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))


def rss_mb(server: ServerUnderTest) -> float:
    """Return the server's resident memory, million bytes."""
    text = Path(f"/proc/{server.process_id}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1000


SETTINGS: Final = {
    "SPECTATOR_PROFILE": "public",
    "SPECTATOR_OPERATOR_TOKEN": TOKEN,
    "SPECTATOR_ENVIRONMENT": "counting",
    "SPECTATOR_VOICE": "silent",
    "SPECTATOR_LOG_LEVEL": "error",
}

UNLIMITED: Final = {**SETTINGS, "SPECTATOR_PROFILE": "open", "SPECTATOR_EPISODE_MB": "5000"}
"""Settings of the server that plays the big record."""

STEP_S: Final = 0.1
SLOW_EVERY: Final = 4
"""One reader in this many reads only 64 KB a second."""

ROUNDS: Final = 2
"""Number of rounds, each without attacks and then with."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Size of the measurement.

    Args:
        seconds: Length of the measurement, a third of it without attacks.
        mb: Size of the record that is read, million bytes.
        readers: Simultaneous readers, each with its own address.
        viewers: Viewers of the match.
        storm: 1: readers and all attacks; 0: readers only.
        nice: Niceness of the attackers relative to server and viewers.
    """

    seconds: float = 60.0
    mb: float = 300.0
    readers: int = 200
    viewers: int = 200
    storm: int = 1
    nice: int = 19


def measure(sizes: Sizes | None = None) -> Iterator[Figure]:
    """Yield all figures."""
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
    """Play one long episode; returns its id."""
    async with aiohttp.ClientSession(server.base) as client:
        turns = max(1, round(sizes.mb * 1e6 / PAYLOAD))
        body = {**GREEDY, "options": {"turns": turns, "payload_bytes": PAYLOAD}}
        _, started = await post(client, START, body)
        while not (await get(client, "/api/episodes?ended=true"))["episodes"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.5)
        return str(started["episode_id"])


async def _attacked(server: ServerUnderTest, record: str, sizes: Sizes) -> list[Figure]:
    async with client_of(server, "192.0.2.1", OPERATOR) as operator:
        _, started = await post(operator, START, MATCH)
        await asyncio.sleep(2.0)  # let lazy imports finish
        storm = attacks(server, record, 2 * round(sizes.mb * 1e6 / PAYLOAD))
        calm, attacked, crowd = Phase(server), Phase(server), _Crowd(server, record, sizes, storm)
        viewers = ViewersApart(server.base, str(started["episode_id"]), max(1, sizes.viewers))
        async with viewers:
            os.nice(sizes.nice)
            for _ in range(ROUNDS):
                async with calm.window():
                    await asyncio.sleep(sizes.seconds / 3 / ROUNDS)
                async with attacked.window():
                    await crowd.attack(sizes.seconds * 2 / 3 / ROUNDS)
        figures = _felt(viewers.seen, calm, attacked, sizes)
        figures += crowd.figures()
        slow = asyncio.create_task(slow_body(server))
        await asyncio.sleep(60.0)  # wait until the rate limits reset
        for attack in storm:
            name, value, target, before = await attack()
            figures.append(Figure(name, value, target, f"the review: {before}"))
        figures.append(await slow)
        return figures


class Phase:
    """All windows of the run with attacks, or all without."""

    def __init__(self, server: ServerUnderTest) -> None:
        self._server = server
        self.windows: list[tuple[float, float]] = []
        """Begin and end of each, wall-clock seconds."""
        self.server_s = 0.0
        """CPU seconds of the server."""
        self.attackers_s = 0.0
        """CPU seconds of the attacking process."""
        self.peak_mb = 0.0
        """Most resident memory of the server, million bytes."""

    @asynccontextmanager
    async def window(self) -> AsyncIterator[None]:
        """Measure one window of this phase."""
        watching = asyncio.create_task(self._watch_memory())
        began, server_s, own_s = time.time(), _cpu_s(self._server), time.process_time()
        yield
        self.windows.append((began, time.time()))
        self.server_s += _cpu_s(self._server) - server_s
        self.attackers_s += time.process_time() - own_s
        watching.cancel()

    @property
    def seconds(self) -> float:
        """Total length of the windows."""
        return sum(ended - began for began, ended in self.windows)

    def gaps(self, seen: SeenMatch) -> list[float]:
        """Return how much later than its pace each step was recorded, seconds."""
        return [gap - STEP_S for began, ended in self.windows for gap in seen.gaps(began, ended)]

    def late(self, seen: SeenMatch) -> list[float]:
        """Return how late steps reached viewers, seconds."""
        return [late for began, ended in self.windows for late in seen.between(began, ended)]

    async def _watch_memory(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, rss_mb(self._server))
            await asyncio.sleep(0.25)


def _felt(seen: SeenMatch, calm: Phase, attacked: Phase, sizes: Sizes) -> list[Figure]:
    """Compare the match and its viewers with and without attacks."""
    who = f"{'all attacks and ' if sizes.storm else ''}{sizes.readers} readers of {sizes.mb:g} MB"
    gaps, calm_gaps = attacked.gaps(seen), calm.gaps(seen)
    late, calm_late = attacked.late(seen), calm.late(seen)
    shares = (("median", 0.5, "-"), ("p99", 0.99, "+5 ms"), ("longest", 1.0, "-"))
    gap = "step gap beyond its pace"
    way = f"a step, from its record to one of {sizes.viewers} viewers"
    figures = [
        *(_beside(f"{gap}, {name}, {who}", gaps, calm_gaps, share, target) for name, share, target in shares),
        *(_beside(f"{way}, {name}", late, calm_late, share, "-") for name, share, _ in shares),
    ]
    lost = f"{seen.missed} events missed, {seen.closed} of {sizes.viewers} viewers disconnected"
    memory = f"{attacked.peak_mb:.0f} MB at the peak"
    return [
        *figures,
        Figure("what the viewers missed", lost, "nothing", "-"),
        Figure("processor of the server, the process that reads aside", _cores(attacked, "server_s"), "-",
               f"no attack: {_cores(calm, 'server_s')}"),
        Figure(f"processor of the attackers, nice {sizes.nice}", _cores(attacked, "attackers_s"), "-", "-"),
        Figure("resident memory", memory, "flat", f"no attack: {calm.peak_mb:.0f} MB"),
    ]  # fmt: skip


def _beside(name: str, attacked: Sequence[float], calm: Sequence[float], share: float, target: str) -> Figure:
    value = f"{ms(percentile(attacked, share))} of {len(attacked):,}"
    return Figure(name, value, target, f"no attack: {ms(percentile(calm, share))} of {len(calm):,}")


def _cores(phase: Phase, of: str) -> str:
    return f"{getattr(phase, of) / phase.seconds:.2f} cores"


def _cpu_s(server: ServerUnderTest) -> float:
    """Return the CPU seconds used by the server."""
    fields_after_name = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields_after_name[11]) + int(fields_after_name[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class _Crowd:
    """All attackers.

    Args:
        record: Id of the long record.
        storm: Attacks that are repeated while the readers read.
    """

    def __init__(self, server: ServerUnderTest, record: str, sizes: Sizes, storm: Sequence[Attack]) -> None:
        self._server = server
        self._record = record
        self._sizes = sizes
        self._storm = storm if sizes.storm else ()
        self._tally, self._rounds = Counter[str](), Counter[str]()

    async def attack(self, seconds: float) -> None:
        """Attack for ``seconds``.

        Raises:
            RuntimeError: An attack raised an exception.
        """
        attackers: list[asyncio.Task[Any]] = [
            asyncio.create_task(_read(self._server, number, self._record, self._tally))
            for number in range(self._sizes.readers)
        ]
        if self._storm:
            attackers.append(asyncio.create_task(slow_body(self._server, seconds)))
        attackers += [asyncio.create_task(_again(attack, self._rounds)) for attack in self._storm]
        await asyncio.sleep(seconds)
        for attacker in attackers:
            attacker.cancel()
        ended = await asyncio.gather(*attackers, return_exceptions=True)
        failures = [one for one in ended if isinstance(one, Exception)]
        if failures:
            raise RuntimeError(f"attacks failed: {failures}") from failures[0]

    def figures(self) -> list[Figure]:
        """Return what the attackers did."""
        read = f"{self._tally['bytes'] / 1e6:,.0f} MB read, {self._tally['refused']:,} refusals"
        rounds = f"{self._rounds.total()}, of each at least {min(self._rounds.values(), default=0)}"
        return [
            Figure(f"what {self._sizes.readers} readers were given", read, "-", "-"),
            Figure("rounds of the attacks below", rounds, "-", "-"),
        ]


async def _again(attack: Attack, tally: Counter[str]) -> None:
    """Repeat an attack until cancelled."""
    while True:
        name, _, _, _ = await attack()
        tally[name] += 1
        await asyncio.sleep(0.2)


async def _read(server: ServerUnderTest, number: int, record: str, tally: Counter[str]) -> None:
    """Download the record repeatedly from one address."""
    encoding = {"Accept-Encoding": "identity" if number % 2 else "gzip"}
    async with client_of(server, f"198.51.{number // 250}.{number % 250}", encoding) as client:
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


def main() -> None:
    """Measure with the sizes given on the command line, and print."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    for one in fields(Sizes):
        parser.add_argument(f"--{one.name}", type=type(one.default), default=one.default)
    given = parser.parse_args()
    print(HEADER, flush=True)
    for figure in measure(Sizes(**vars(given))):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
