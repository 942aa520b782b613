"""Measure two servers on one PostgreSQL: ``python -m benchmarks cluster``.

``python -m benchmarks.cluster --episodes 16 --viewers 500 --kills 20`` is a shorter run.

Server B plays; viewers of server A watch by the record. PostgreSQL (with fsync), both servers and the viewers
share one machine over loopback. The disturbances are in ``benchmarks.cluster_kills``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import httpx

from benchmarks.cluster_kills import disturb
from benchmarks.crowd import Crowd, crowd
from benchmarks.fanout import delays_of
from benchmarks.figures import Figure, ms, percentile, spread
from benchmarks.serving import ServerUnderTest, install_measured_world
from spectator.events import Event, RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster, find_programs, running_cluster

COMMITS_S: Final = 4.0
"""Seconds that the rate of commits is measured."""


def recorded_steps(url: str, episodes: int, events: int) -> float:
    """Measure the steps a second that many episodes record at once."""
    return asyncio.run(_record(url, episodes, events))


async def _record(url: str, episodes: int, events: int) -> float:
    journal, steps = await SqlJournal.open(url), 0
    until = time.monotonic() + COMMITS_S

    async def play(episode_id: str) -> None:
        nonlocal steps
        for step in count():
            if time.monotonic() > until:
                return
            first = step * events + 1
            await journal.append([_event(episode_id, seq) for seq in range(first, first + events)])
            steps += 1

    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(episodes):
                tasks.create_task(play(f"ep-{time.monotonic_ns()}-{number}"))
    finally:
        await journal.aclose()
    return steps / COMMITS_S


def bare_commits(cluster: Cluster, database: str = "postgres") -> float:
    """Measure commits a second of one small row over one connection."""
    with cluster.connect(database) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (text text)")
        connection.commit()
        done, until = 0, time.monotonic() + COMMITS_S
        while time.monotonic() < until:
            connection.execute("INSERT INTO bare VALUES (%s)", ("x" * 1000,))
            connection.commit()
            done += 1
    return done / COMMITS_S


def _event(episode_id: str, seq: int) -> RecordedEvent:
    said = {"text": "x" * 900}
    return record(Event(episode_id, "e1", seq, "2026-11-21T05:00:00.000Z", seq, "counting.number_said", said))


EPISODES: Final = 64
VIEWERS: Final = 2_000
KILLS: Final = 200

EVENTS: Final = 3
"""Events of a step, of 1 KB each."""

STEP_S: Final = 2.0
"""Seconds per step, so that 64 episodes record 96 events a second."""

QUICK_STEP_S: Final = 0.25
"""Seconds per step of the one episode whose deliveries are counted."""

FEW_SHARE: Final = 0.05
"""Share of the viewers with which a server's own work is measured."""

ROUNDS: Final = 5
WINDOW_S: Final = 6.0
NOTED_S: Final = 12.0

OPTIONS: Final = {"turns": 100_000, "payload_bytes": 720}

DURABLE: Final = "fsync = on\nfull_page_writes = on\nautovacuum = on\n"
"""PostgreSQL settings that survive a power cut; those of the tests do not."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the measurement.

    Args:
        episodes: Episodes at once.
        viewers: Viewers of them.
        kills: Disturbances of servers and database.
    """

    episodes: int = EPISODES
    viewers: int = VIEWERS
    kills: int = KILLS


class WindowCost(NamedTuple):
    """CPU time of a server, and what its viewers received, in a window."""

    cpu_s: float
    events: int
    writes: int

    def of_a_step(self, viewers: int) -> float:
        """Return the CPU seconds of a step to ``viewers``."""
        return self.cpu_s * viewers * EVENTS / self.events


@contextmanager
def database() -> Iterator[tuple[Cluster, str]]:
    """Run a PostgreSQL with fsync; yields it and the URL of an empty database.

    Raises:
        RuntimeError: PostgreSQL is not installed.
    """
    programs = find_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed; run: apt-get install postgresql")
    with running_cluster(programs) as cluster:
        cluster.stop("fast")
        with (cluster.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(DURABLE)
        cluster.start()
        yield cluster, cluster.url(cluster.make())


@contextmanager
def two_servers(step_s: float, url: str, episodes: int) -> Iterator[tuple[ServerUnderTest, ServerUnderTest]]:
    """Run servers A and B on one database, with steps of ``step_s`` at pace broadcast."""
    settings = {"SPECTATOR_JOURNAL_URL": url, "SPECTATOR_MAX_EPISODES": str(episodes)}
    settings |= dict.fromkeys(("SPECTATOR_STARTS_PER_MINUTE", "SPECTATOR_STARTS_PER_HOUR"), "0")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spectator-cluster-")))
        install_measured_world(folder, EVENTS, beats=step_s / 2.0)
        servers: list[ServerUnderTest] = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            server = ServerUnderTest(folder / name, settings, python_path=folder)
            stack.callback(server.close)
            server.start()
            server.wait()
            servers.append(server)
        ours, theirs = servers
        yield ours, theirs


def start(server: ServerUnderTest, pace: str = "broadcast") -> str:
    """Start an episode of the measured world; returns its id."""
    body = {"environment": "measured", "options": OPTIONS, "pace": pace}
    answer = httpx.post(f"{server.base}/custom/start_episode", json=body, timeout=60, trust_env=False)
    return str(answer.raise_for_status().json()["episode_id"])


def port_of(server: ServerUnderTest) -> int:
    """Return the port of a server."""
    return int(server.base.rpartition(":")[2])


def join(viewers: Crowd, server: ServerUnderTest, episodes: Sequence[str], count: int) -> None:
    """Connect ``count`` more viewers to a server, spread over the episodes."""
    there = len(viewers.seats)
    for number, episode_id in enumerate(episodes, 1):
        viewers.join(port_of(server), there + count * number // len(episodes), f"/live/{episode_id}")


def latency(size: Size) -> Figure:
    """Measure from the stamp of an event of B to its arrival at a viewer of A.

    Joining viewers take A's time from the others, so the first window is reported separately.
    """
    with (
        database() as (_, url),
        two_servers(STEP_S, url, size.episodes) as (ours, theirs),
        crowd() as viewers,
    ):
        episodes = [start(theirs) for _ in range(size.episodes)]
        join(viewers, theirs, episodes[:1], 1)
        local = delays_of(viewers.noted(NOTED_S))
        join(viewers, ours, episodes, size.viewers)
        joining = delays_of(viewers.noted(NOTED_S))
        delays = delays_of(viewers.noted(NOTED_S))
    return Figure(
        f"an event of B at a viewer of A, {size.episodes} episodes, {size.viewers:,} viewers",
        f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))} of {len(delays):,}",
        "p99 < 50 ms",
        f"while they came: p99 {ms(percentile(joining, 0.99))}; "
        f"one viewer of B: median {ms(percentile(local, 0.5))}, p99 {ms(percentile(local, 0.99))}",
    )


def cpu_of_delivery(size: Size) -> Figure:
    """Compare the CPU time of a write to a viewer of A with that to a viewer of B."""
    with (
        database() as (_, url),
        two_servers(QUICK_STEP_S, url, 4) as pair,
        crowd() as viewers,
    ):
        viewed = size.viewers // 2
        follower, local, own, writes = compared(viewers, pair, start(pair[1]), viewed)
        few_viewers = few_of(viewed)
    return Figure(
        f"CPU of a follower's write to one of {viewed:,} viewers, beside a local one",
        f"{1e6 * percentile(follower, 0.5):.1f} us, "
        f"{spread([one / other for one, other in zip(follower, local, strict=True)])} x a local one; "
        f"{writes:.2f} writes a step; with {few_viewers} viewers a step takes {percentile(own, 0.5):.1f} ms",
        "<= 1.2 x",
        f"a local write {1e6 * percentile(local, 0.5):.1f} us",
    )


class WriteCosts(NamedTuple):
    """Costs of two servers for the same steps, one value per round.

    Args:
        follower: CPU seconds of a write by the first.
        local: CPU seconds of a write by the second, which plays.
        step_ms: CPU milliseconds of a step at the first, with few viewers.
        writes: Writes of a step to each viewer of the first.
    """

    follower: list[float]
    local: list[float]
    step_ms: list[float]
    writes: float


def few_of(viewed: int) -> int:
    """Return the number of viewers used to measure a server's own work."""
    return max(1, int(FEW_SHARE * viewed))


def compared(
    viewers: Crowd, pair: tuple[ServerUnderTest, ServerUnderTest], episode_id: str, viewed: int
) -> WriteCosts:
    """Measure the cost of a further viewer at each of two servers."""
    few_viewers = few_of(viewed)
    for server in pair:
        join(viewers, server, [episode_id], few_viewers)
    viewers.settle(0.5, patience_s=3.0)
    few = [window(viewers, pair) for _ in range(ROUNDS)]
    for server in pair:
        join(viewers, server, [episode_id], viewed - few_viewers)
    viewers.settle(0.5, patience_s=3.0)
    many = [window(viewers, pair) for _ in range(ROUNDS)]
    follower, local = (
        [
            (late[side].of_a_step(viewed) - early[side].of_a_step(few_viewers)) / (viewed - few_viewers)
            for early, late in zip(few, many, strict=True)
        ]
        for side in (0, 1)
    )
    writes = sum(one[0].writes / (one[0].events / EVENTS) for one in many) / ROUNDS
    return WriteCosts(follower, local, [1e3 * one[0].of_a_step(few_viewers) for one in few], writes)


def window(viewers: Crowd, pair: Sequence[ServerUnderTest]) -> list[WindowCost]:
    """Measure what each server spent and its viewers received in :data:`WINDOW_S`."""
    before = [_sums(viewers, server) for server in pair]
    time.sleep(WINDOW_S)
    after = [_sums(viewers, server) for server in pair]
    return [
        WindowCost(late.cpu_s - early.cpu_s, late.events - early.events, late.writes - early.writes)
        for early, late in zip(before, after, strict=True)
    ]


def _sums(viewers: Crowd, server: ServerUnderTest) -> WindowCost:
    port = port_of(server)
    clock = (~server.process_id << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
    events = sum(seat.events for seat in viewers.seats.values() if seat.port == port)
    return WindowCost(time.clock_gettime(clock), events, viewers.segments(port))


def kills(size: Size) -> Figure:
    """Disturb servers and database while both play and are watched, then check all."""
    with database() as (cluster, url), two_servers(QUICK_STEP_S, url, size.episodes) as pair:
        found = asyncio.run(disturb(cluster, url, pair, size.episodes, size.kills, start))
    return Figure(
        f"{size.kills} kills and stalls, {found.episodes} episodes, {found.viewers} viewers",
        found.sentence(),
        "0 lost, 0 doubled, 0 reordered, every write of a former owner rejected",
        "-",
    )


def commits(size: Size) -> Figure:
    """Measure the steps a second that one journal records, with many episodes and with one."""
    with database() as (cluster, url):
        many, one, bare = [], [], []
        for _ in range(ROUNDS):
            many.append(recorded_steps(url, size.episodes, EVENTS))
            one.append(recorded_steps(url, 1, EVENTS))
            bare.append(bare_commits(cluster))
    return Figure(
        f"steps of {EVENTS} events recorded a second in PostgreSQL by one server",
        f"{size.episodes} episodes at once: {percentile(many, 0.5):,.0f}; one: {percentile(one, 0.5):,.0f}",
        "-",
        f"{percentile(bare, 0.5):,.0f} bare commits of a row, one after the other",
    )


PARTS: Final = {"latency": latency, "cpu": cpu_of_delivery, "commits": commits, "kills": kills}


def measure(size: Size | None = None, names: Sequence[str] | None = None) -> Iterator[Figure]:
    """Yield all figures; the load of the machine goes to standard error."""
    for part in PARTS.values() if names is None else [PARTS[name] for name in names]:
        sys.stderr.write(f"{part.__name__}: the load is {os.getloadavg()[0]:.1f}\n")
        yield part(size or Size())


def main() -> None:
    """Measure the parts given on the command line, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--viewers", type=int, default=VIEWERS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    asked = parser.parse_args()
    if unknown := sorted({*asked.part} - {*PARTS}):
        parser.error(f"unknown part {unknown[0]!r}; use {', '.join(PARTS)}")
    for figure in measure(Size(asked.episodes, asked.viewers, asked.kills), asked.part or None):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
