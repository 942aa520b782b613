"""The measurement of what strangers can do to a match: each attack of a review, and what the match felt.

``python -m benchmarks abuse`` takes a minute and a half; ``python -m benchmarks.abuse --seconds 600`` is the
long run. One server in the public profile, on loopback only, behind one trusted hop, so that every attacker
has an address of its own. A match is stepped ten times a second and watched all the while; its gaps are those
between the times at which its steps were recorded. A third of the time nobody attacks; then everybody does at
once, again and again. Attackers, viewers and server share this machine's cores, so that an attack is felt by
what its own computing takes from the match, too.

The review measured by other means at commit 510f4b3, which has no public profile to attack. What is called
"the review" in the rows is what it says; it was not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
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


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the measurement is.

    Args:
        seconds: Of both watches over the match together, a third of them without attacks.
        mb: Of the record that is read, million bytes.
        readers: Who read it at once, each from an address of its own.
        viewers: Who watch the match.
    """

    seconds: float = 60.0
    mb: float = 300.0
    readers: int = 200
    viewers: int = 200


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
        match = AttackedMatch(operator, str(started["episode_id"]))
        await asyncio.sleep(2.0)  # what is loaded late is loaded
        storm = attacks(server, record, 2 * round(sizes.mb * 1e6 / PAYLOAD))
        async with ViewersApart(server.base, match.episode_id, sizes.viewers) as viewers:
            began = time.time()
            alone = await match.gaps(sizes.seconds / 3)
            turned = time.time()
            figures = await _readers(server, match, record, sizes, alone, storm)
            ended = time.time()
        figures += _watched(viewers.seen, began, turned, ended, sizes.viewers)
        slow = asyncio.create_task(slow_body(server))
        await asyncio.sleep(60.0)  # the limits of a minute have passed
        for attack in storm:
            name, value, target, before = await attack()
            figures.append(Figure(name, value, target, f"the review: {before}"))
        figures.append(await slow)
        return figures


async def _again(attack: Attack, tally: Counter[str]) -> None:
    """Attack again and again."""
    while True:
        name, _, _, _ = await attack()
        tally[name] += 1
        await asyncio.sleep(0.2)


def _watched(seen: SeenMatch, began: float, turned: float, ended: float, viewers: int) -> list[Figure]:
    if not viewers:
        return []
    alone, attacked = seen.between(began, turned), seen.between(turned, ended)
    note = f"nobody attacks: {ms(percentile(alone, 0.99))} ({len(alone):,} arrivals)"
    value = f"{ms(percentile(attacked, 0.99))} ({len(attacked):,} arrivals)"
    lost = f"{seen.missed} events missed, {seen.closed} of {viewers} viewers sent away"
    return [
        Figure(f"a step to its viewers, p99, {viewers} of them", value, "-", note),
        Figure("what the viewers missed", lost, "nothing", "-"),
    ]


class AttackedMatch:
    """The match that everybody came for.

    Args:
        client: Asks for its record.
        episode_id: Its id.
    """

    def __init__(self, client: aiohttp.ClientSession, episode_id: str) -> None:
        self._client = client
        self.episode_id = episode_id
        self._url = f"/api/episodes/{episode_id}"

    async def head(self) -> int:
        """Number of its last event."""
        return int((await get(self._client, self._url))["head_seq"])

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
    server: ServerUnderTest,
    match: AttackedMatch,
    record: str,
    sizes: Sizes,
    alone: Sequence[float],
    storm: Sequence[Attack],
) -> list[Figure]:
    before, peak, tally, rounds = rss_mb(server), 0.0, Counter[str](), Counter[str]()

    async def watch_memory() -> None:
        nonlocal peak
        while True:
            peak = max(peak, rss_mb(server))
            await asyncio.sleep(0.1)

    readers: list[asyncio.Task[Any]] = [
        asyncio.create_task(_read(server, number, record, tally)) for number in range(sizes.readers)
    ]
    readers.append(asyncio.create_task(watch_memory()))
    readers.append(asyncio.create_task(slow_body(server, sizes.seconds)))
    readers += [asyncio.create_task(_again(attack, rounds)) for attack in storm]
    crowded = await match.gaps(sizes.seconds * 2 / 3)
    for reader in readers:
        reader.cancel()
    failures = [one for one in await asyncio.gather(*readers, return_exceptions=True) if _failed(one)]
    if failures:
        raise RuntimeError(f"attacks broke off: {failures}") from failures[0]
    read = f"{tally['bytes'] / 1e6:,.0f} MB read, {tally['refused']:,} refusals"
    who = f"all attacks, {sizes.readers} readers of {sizes.mb:g} MB"
    least = min(rounds.values(), default=0)
    return [
        Figure(
            f"step gap, p99, {who}",
            f"{ms(percentile(crowded, 0.99))} ({len(crowded)} steps; {read})",
            "+5 ms",
            f"nobody attacks: {ms(percentile(alone, 0.99))} ({len(alone)} steps)",
        ),
        Figure(f"step gap, longest, {who}", ms(max(crowded)), "-", f"nobody attacks: {ms(max(alone))}"),
        Figure("rounds of the attacks below", f"{rounds.total()}, of each at least {least}", "-", "-"),
        Figure(f"resident memory, {who}", f"{peak:.0f} MB at the peak", "flat", f"{before:.0f} MB before"),
    ]


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
