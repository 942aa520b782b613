"""The measurement of what strangers can do to a match: each attack of a review, and what the match felt.

``python -m benchmarks abuse`` takes three minutes; ``python -m benchmarks.abuse --seconds 600`` is the long
run. One server in the public profile, on loopback only, behind one trusted hop, so that every attacker has an
address of its own. A match is stepped ten times a second and watched; its gaps are those between
the times at which its steps were recorded. Twice nobody attacks for a sixth of the time, and then everybody
does at once, again and again, for a third of it. The attackers run on the same cores at the lowest priority,
since others bring machines of their own; how much they used is stated.

The review measured by other means at commit 510f4b3, which has no public profile to attack. What is called
"the review" in the rows is what it says; it was not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeGuard

import aiohttp

from benchmarks.attacks import (
    GREEDY,
    MATCH,
    OPERATOR,
    PAYLOAD,
    START,
    TOKEN,
    Attack,
    attacks,
    client_of,
    get,
    post,
    rss_mb,
    slow_body,
)
from benchmarks.figures import HEADER, Figure, ms, percentile
from benchmarks.serving import ServerUnderTest
from benchmarks.watching import SeenMatch, ViewersApart

SETTINGS: Final = {
    "SPECTATOR_PROFILE": "public",
    "SPECTATOR_OPERATOR_TOKEN": TOKEN,
    "SPECTATOR_ENVIRONMENT": "counting",
    "SPECTATOR_VOICE": "silent",
    "SPECTATOR_LOG_LEVEL": "error",
}

UNLIMITED: Final = {**SETTINGS, "SPECTATOR_PROFILE": "open", "SPECTATOR_EPISODE_MB": "5000"}
"""How the server is set that plays the big record."""

STEP_S: Final = 0.1
SLOW_EVERY: Final = 4
"""One reader in so many takes 64 KB a second and no more."""

ROUNDS: Final = 2
"""How often the match is left alone and attacked in turn."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the measurement is.

    Args:
        seconds: Of both watches over the match together, a third of them without attacks.
        mb: Of the record that is read, million bytes.
        readers: Who read it at once, each from an address of its own.
        viewers: Who watch the match.
        storm: 1: all attacks are made beside the readers; 0: they only read.
        nice: By how much the attackers' priority is lower than that of server and viewers.
    """

    seconds: float = 60.0
    mb: float = 300.0
    readers: int = 200
    viewers: int = 200
    storm: int = 1
    nice: int = 19


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
        _, started = await post(client, START, body)
        while not (await get(client, "/api/episodes?ended=true"))["episodes"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.5)
        return str(started["episode_id"])


async def _attacked(server: ServerUnderTest, record: str, sizes: Sizes) -> list[Figure]:
    async with client_of(server, "192.0.2.1", OPERATOR) as operator:
        _, started = await post(operator, START, MATCH)
        await asyncio.sleep(2.0)  # what is loaded late is loaded
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
        await asyncio.sleep(60.0)  # the limits of a minute have passed
        for attack in storm:
            name, value, target, before = await attack()
            figures.append(Figure(name, value, target, f"the review: {before}"))
        figures.append(await slow)
        return figures


class Phase:
    """The parts of the run in which the match is attacked, or those in which it is not.

    Args:
        server: Where it is played.
    """

    def __init__(self, server: ServerUnderTest) -> None:
        self._server = server
        self.windows: list[tuple[float, float]] = []
        """When they began and ended, wall-clock seconds."""
        self.server_s = 0.0
        """CPU seconds of the server."""
        self.attackers_s = 0.0
        """Those of the process that attacks."""
        self.peak_mb = 0.0
        """Most resident memory of the server, million bytes."""

    @asynccontextmanager
    async def window(self) -> AsyncIterator[None]:
        """One of the parts."""
        watching = asyncio.create_task(self._watch_memory())
        began, server_s, own_s = time.time(), _cpu_s(self._server), time.process_time()
        yield
        self.windows.append((began, time.time()))
        self.server_s += _cpu_s(self._server) - server_s
        self.attackers_s += time.process_time() - own_s
        watching.cancel()

    @property
    def seconds(self) -> float:
        """How long they took together."""
        return sum(ended - began for began, ended in self.windows)

    def gaps(self, seen: SeenMatch) -> list[float]:
        """How much later than its pace asks each step was recorded, seconds."""
        return [gap - STEP_S for began, ended in self.windows for gap in seen.gaps(began, ended)]

    def late(self, seen: SeenMatch) -> list[float]:
        """How late steps reached viewers, seconds."""
        return [late for began, ended in self.windows for late in seen.between(began, ended)]

    async def _watch_memory(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, rss_mb(self._server))
            await asyncio.sleep(0.25)


def _felt(seen: SeenMatch, calm: Phase, attacked: Phase, sizes: Sizes) -> list[Figure]:
    """What the match and its viewers felt, both parts of the run side by side."""
    who = f"{'all attacks and ' if sizes.storm else ''}{sizes.readers} readers of {sizes.mb:g} MB"
    gaps, calm_gaps = attacked.gaps(seen), calm.gaps(seen)
    late, calm_late = attacked.late(seen), calm.late(seen)
    figures = [
        _beside(f"step gap beyond its pace, {name}, {who}", gaps, calm_gaps, share, target)
        for name, share, target in (("median", 0.5, "-"), ("p99", 0.99, "+5 ms"), ("longest", 1.0, "-"))
    ]
    figures += [
        _beside(
            f"a step, from its record to one of {sizes.viewers} viewers, {name}", late, calm_late, share, "-"
        )
        for name, share in (("median", 0.5), ("p99", 0.99), ("longest", 1.0))
    ]
    lost = f"{seen.missed} events missed, {seen.closed} of {sizes.viewers} viewers sent away"
    memory = f"{attacked.peak_mb:.0f} MB at the peak"
    return [
        *figures,
        Figure("what the viewers missed", lost, "nothing", "-"),
        Figure("processor of the server, the process that reads aside", _cores(attacked, "server_s"), "-",
               f"nobody attacks: {_cores(calm, 'server_s')}"),
        Figure(f"processor of the attackers, nice {sizes.nice}", _cores(attacked, "attackers_s"), "-", "-"),
        Figure("resident memory", memory, "flat", f"nobody attacks: {calm.peak_mb:.0f} MB"),
    ]  # fmt: skip


def _beside(name: str, attacked: Sequence[float], calm: Sequence[float], share: float, target: str) -> Figure:
    value = f"{ms(percentile(attacked, share))} of {len(attacked):,}"
    return Figure(name, value, target, f"nobody attacks: {ms(percentile(calm, share))} of {len(calm):,}")


def _cores(phase: Phase, of: str) -> str:
    return f"{getattr(phase, of) / phase.seconds:.2f} cores"


def _cpu_s(server: ServerUnderTest) -> float:
    """CPU seconds that the server has used."""
    fields_after_name = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields_after_name[11]) + int(fields_after_name[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class _Crowd:
    """All attackers.

    Args:
        server: What they attack.
        record: The long record that is read.
        sizes: How many they are.
        storm: The attacks that are made again and again beside the readers.
    """

    def __init__(self, server: ServerUnderTest, record: str, sizes: Sizes, storm: Sequence[Attack]) -> None:
        self._server = server
        self._record = record
        self._sizes = sizes
        self._storm = storm if sizes.storm else ()
        self._tally, self._rounds = Counter[str](), Counter[str]()

    async def attack(self, seconds: float) -> None:
        """Attack for so long.

        Raises:
            RuntimeError: An attack broke off.
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
        failures = [one for one in await asyncio.gather(*attackers, return_exceptions=True) if _failed(one)]
        if failures:
            raise RuntimeError(f"attacks broke off: {failures}") from failures[0]

    def figures(self) -> list[Figure]:
        """What they did."""
        read = f"{self._tally['bytes'] / 1e6:,.0f} MB read, {self._tally['refused']:,} refusals"
        rounds = f"{self._rounds.total()}, of each at least {min(self._rounds.values(), default=0)}"
        return [
            Figure(f"what {self._sizes.readers} readers were given", read, "-", "-"),
            Figure("rounds of the attacks below", rounds, "-", "-"),
        ]


async def _again(attack: Attack, tally: Counter[str]) -> None:
    """Attack again and again."""
    while True:
        name, _, _, _ = await attack()
        tally[name] += 1
        await asyncio.sleep(0.2)


async def _read(server: ServerUnderTest, number: int, record: str, tally: Counter[str]) -> None:
    """Read the record again and again, from an address of one's own."""
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


def _failed(ended: object) -> TypeGuard[Exception]:
    """Whether a task ended by an error of its own."""
    return isinstance(ended, Exception)


def main() -> None:
    """Measure in the sizes that are asked for, and print."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    for one in fields(Sizes):
        parser.add_argument(f"--{one.name}", type=type(one.default), default=one.default)
    given = parser.parse_args()
    print(HEADER, flush=True)
    for figure in measure(Sizes(**vars(given))):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
