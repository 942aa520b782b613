"""Disturb two servers on one PostgreSQL: kills and stalls of servers, kills of the database.

After each disturbance every episode must go on, on either server. At the end everything that each viewer was
shown is compared with the record, and the record with its digests. Writes of a stalled server to episodes
that it has lost must be rejected.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import httpx

from benchmarks.serving import ServerUnderTest
from benchmarks.witness import Witness, check
from spectator.journal.contract import Chain
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster

BY_EVENTS: Final = 0.2
"""Share of viewers on server-sent events."""

PATIENCE_S: Final = 240.0
"""Most seconds until play goes on, on a loaded machine."""

STALLS_S: Final = (1.0, 4.0)
"""Range of short stalls: shorter than the leases last."""

LOST_MESSAGE: Final = "was lost: another process plays the episode"
"""Log message of a server that has lost an episode."""


@dataclass(slots=True)
class Disturbed:
    """What was done and what was found.

    Args:
        episodes: Episodes that were played.
        viewers: Viewers of them.
        done: Disturbances, by kind.
        away_s: Seconds from each disturbance until every viewer saw another step.
        wrong: Errors, counted by name.
        deposed: Episodes that stalled servers lost to the other one.
        rejected: How many of their late writes were rejected.
        events: Events that viewers were shown.
        connections: Connections of the viewers.
    """

    episodes: int
    viewers: int
    done: Counter[str] = field(default_factory=Counter)
    away_s: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    deposed: int = 0
    rejected: int = 0
    events: int = 0
    connections: int = 0

    def sentence(self) -> str:
        """Return the figure."""
        wrong = {name: self.wrong.get(name, 0) for name in ("lost", "doubled", "reordered")} | self.wrong
        what = ", ".join(f"{count} {name}" for name, count in wrong.items())
        return (
            f"{what} of {self.events:,} events shown "
            f"over {self.connections:,} connections; {self.rejected} of {self.deposed} former owners' writes "
            f"rejected; {', '.join(f'{count} {kind}' for kind, count in sorted(self.done.items()))}; all see "
            f"play go on after {statistics.median(self.away_s):.1f} s in the median"
        )


class WanderingWitness(Witness):
    """A viewer that reconnects to either server.

    Args:
        bases: Where the servers are.
        path: What it watches.
        chance: Draws to which it comes.
        by_events: Watch by server-sent events.
    """

    def __init__(self, bases: Sequence[str], path: str, chance: random.Random, *, by_events: bool) -> None:
        super().__init__(chance.choice(bases), path, chance, by_events=by_events)
        self._bases = bases

    async def follow(self) -> None:
        """Watch one episode to its end, switching servers."""
        while not (self.shown and self.shown.over):
            await self.watch()
            await asyncio.sleep(self._chance.uniform(0.05, 0.4))
            self._base = self._chance.choice(self._bases)


class Disturber:
    """Kills and stalls servers and database.

    Args:
        cluster: The PostgreSQL cluster.
        servers: The two servers.
        chance: Draws victims and times.
        found: Collects the results.
    """

    def __init__(
        self, cluster: Cluster, servers: Sequence[ServerUnderTest], chance: random.Random, found: Disturbed
    ) -> None:
        self._cluster = cluster
        self._servers = servers
        self._chance = chance
        self._found = found
        self._ways = {
            "kills of a server": self.kill,
            "stalls of a server": self.stall,
            "stalls until it was deposed": self.depose,
            "deaths of the database": self.kill_database,
        }

    async def hit(self, number: int) -> str:
        """Make the next disturbance and return its name; each kind has its turn, in random order."""
        names = list(self._ways)
        random.Random(f"{number // len(names)}").shuffle(names)
        name = names[number % len(names)]
        await self._ways[name]()
        self._found.done[name] += 1
        return name

    async def kill(self) -> None:
        """Kill a server with SIGKILL; restart it at once or after its leases have expired."""
        server = self._chance.choice(self._servers)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(self._chance.choice((0.0, 5.0, 15.0)))
        server.start()
        await asyncio.to_thread(server.wait, PATIENCE_S)

    async def stall(self) -> None:
        """Stop a server for less time than its leases last."""
        server = self._chance.choice(self._servers)
        os.kill(server.process_id, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._chance.uniform(*STALLS_S))
        finally:
            os.kill(server.process_id, signal.SIGCONT)

    async def depose(self) -> None:
        """Stop a server until the other one has taken over its episodes, then continue it."""
        first, second = self._chance.sample(self._servers, 2)
        mine = await running(first)
        if not mine:
            first, second, mine = second, first, await running(second)
        before = first.log()
        os.kill(first.process_id, signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not mine <= await running(second):  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        finally:
            os.kill(first.process_id, signal.SIGCONT)
        self._found.deposed += len(mine)
        async with asyncio.timeout(PATIENCE_S):
            while mine & await running(first):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        said = [line for line in first.log()[len(before) :].splitlines() if LOST_MESSAGE in line]
        self._found.rejected += sum(any(one in line for line in said) for one in mine)

    async def kill_database(self) -> None:
        """Kill PostgreSQL and start it again."""
        await asyncio.to_thread(self._cluster.stop)
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        await asyncio.to_thread(self._cluster.start)


async def running(server: ServerUnderTest) -> set[str]:
    """Return the episodes that a server plays; retries until :data:`PATIENCE_S`."""
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(timeout=30, trust_env=False) as client:
        while True:
            try:
                status = (await client.get(f"{server.base}/custom/status")).raise_for_status().json()
                return {one["episode_id"] for one in status["running"]}
            except httpx.HTTPError:
                await asyncio.sleep(0.5)


async def disturb(
    cluster: Cluster,
    url: str,
    servers: Sequence[ServerUnderTest],
    episodes: int,
    kills: int,
    start: Callable[[ServerUnderTest], str],
    seed: int = 1,
) -> Disturbed:
    """Play episodes on both servers through ``kills`` disturbances.

    Each is reported on standard error. If play does not go on, that is counted and the disturbances end.

    Raises:
        RuntimeError: Play did not begin.
    """
    chance = random.Random(seed)
    names = [await asyncio.to_thread(start, servers[number % 2]) for number in range(episodes)]
    witnesses = [
        WanderingWitness(
            [server.base for server in servers],
            f"/live/{name}",
            random.Random(f"{seed}/{name}"),
            by_events=chance.random() < BY_EVENTS,
        )
        for name in names
    ]
    found = Disturbed(episodes, len(witnesses))
    disturber = Disturber(cluster, servers, chance, found)
    halted: str | None = None
    async with asyncio.TaskGroup() as tasks:
        for witness in witnesses:
            tasks.create_task(witness.follow())
        await _progress(witnesses)
        for number in range(kills):
            began, what = time.monotonic(), "a disturbance"
            try:
                what = await disturber.hit(number)
                await _progress(witnesses)
            except (RuntimeError, TimeoutError) as error:
                halted = f"play stopped after {what}, number {number + 1}"
                sys.stderr.write(f"{halted}: {error}\n")
                break
            found.away_s.append(time.monotonic() - began)
            sys.stderr.write(
                f"{number + 1} of {kills}, {what}: play goes on after {found.away_s[-1]:.1f} s\n"
            )
        for name in names:
            await _stop(servers, name)
    for witness in witnesses:
        await witness.aclose()
    found.events = sum(witness.events for witness in witnesses)
    found.connections = sum(witness.connections for witness in witnesses)
    found.wrong = await asyncio.to_thread(check, witnesses, servers[0].base)
    found.wrong += await broken(url, names)
    if halted is not None:
        found.wrong[halted] += 1
    return found


async def _progress(witnesses: Sequence[Witness]) -> None:
    """Wait until every viewer has seen another step."""
    before = [witness.steps for witness in witnesses]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while any(now.steps <= then for now, then in zip(witnesses, before, strict=True)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(f"play did not go on for every viewer within {PATIENCE_S:g} s") from None


async def _stop(servers: Sequence[ServerUnderTest], episode_id: str) -> None:
    """Stop an episode on the server that plays it."""
    for server in servers:
        if episode_id in await running(server):
            with closing(httpx.Client(timeout=60, trust_env=False)) as client:
                body = {"episode_id": episode_id}
                answer = await asyncio.to_thread(client.post, f"{server.base}/custom/stop_episode", json=body)
                answer.raise_for_status()
            return
    raise RuntimeError(f"no server plays {episode_id}")


async def broken(url: str, episode_ids: Sequence[str]) -> Counter[str]:
    """Count broken digests, episodes that did not end exactly once, and renumbered ones."""
    wrong: Counter[str] = Counter()
    journal = await SqlJournal.open(url, writable=False)
    try:
        for episode_id in episode_ids:
            noted = await journal.end(episode_id)
            chain = Chain(head_seq=noted and noted[0], digest=noted and noted[1])
            async for links in journal.links(episode_id):
                wrong["broken"] += sum(1 for _ in chain.check(links))
            wrong["broken"] += sum(1 for _ in chain.finish())
            events = await journal.read(episode_id)
            wrong["ended twice or never"] += sum(one.type == "episode.ended" for one in events) != 1
            wrong["renumbered"] += len({one.event.epoch for one in events}) != 1
    finally:
        await journal.aclose()
    return +wrong
