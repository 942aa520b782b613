"""What a cache of newest events saves the database and its followers: ``python -m benchmarks.cluster_cache``.

The latency part of ``benchmarks.cluster``, with a cache and without one in turn. One server, B, plays, and
all viewers are at others that follow it. A real PostgreSQL, which waits for its disk, Redis, the servers and
the viewers share the machine, over the loopback.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from benchmarks.cluster import EVENTS, NOTED_S, STEP_S, Size, database, join, servers, start
from benchmarks.crowd import crowd
from benchmarks.fanout import delays_of
from benchmarks.figures import ms, percentile
from benchmarks.serving import ServerUnderTest
from tests.postgres import Cluster
from tests.redis_server import RedisServer, running_redis

HEADER: Final = (
    "| cache | load | followers | episodes, viewers | steps | reads of events, a step | transactions, a step "
    "| cache was asked | median | p99 | follower's CPU | B's CPU |\n" + 12 * "|---" + "|"
)

_COUNTS: Final = (
    "SELECT (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()), "
    "(SELECT count(*) FROM events), (SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'events')"
)


@dataclass(frozen=True, slots=True)
class Window:
    """What happened within some seconds.

    Args:
        steps: Steps that were recorded.
        reads: Looks into the events by their index, of all servers.
        transactions: Transactions of the database, of all servers.
        cached: What came of questions to the cache, at all followers.
        delays: Seconds from the stamp of an event to its arrival, at each viewer.
        followers_s: Processor time of all followers together.
        player_s: That of the server that plays.
    """

    steps: float
    reads: float
    transactions: float
    cached: Counter[str]
    delays: list[float]
    followers_s: float
    player_s: float


@contextmanager
def redis() -> Iterator[RedisServer]:
    """A Redis.

    Raises:
        RuntimeError: It is not installed.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("Redis is not here; install it with: apt-get install redis-server")
    with running_redis(program) as server:
        yield server


def measured(size: Size, followers: int, cache: str | None) -> Window:
    """What the viewers of some followers cost and how soon they see it."""
    with (
        database() as (cluster, url),
        servers(STEP_S, url, size.episodes, followers + 1, cache) as (player, *ours),
        crowd() as viewers,
    ):
        episodes = [start(player) for _ in range(size.episodes)]
        for one in ours:
            join(viewers, one, episodes, size.viewers // followers)
        viewers.noted(NOTED_S / 2)
        asked = _asked(ours)
        before = _counted(cluster, url, player, ours)
        delays = delays_of(viewers.noted(NOTED_S))
        after = _counted(cluster, url, player, ours)
        asked = _asked(ours) - asked
    transactions, events, reads, player_s, followers_s = (
        late - early for early, late in zip(before, after, strict=True)
    )
    return Window(events / EVENTS, reads, transactions, asked, delays, followers_s, player_s)


def _counted(cluster: Cluster, url: str, player: ServerUnderTest, ours: list[ServerUnderTest]) -> list[float]:
    time.sleep(1.2)  # PostgreSQL's own counts are up to a second old
    name = url.partition("@/")[2].partition("?")[0]
    (counts,) = cluster.execute(name, _COUNTS)
    spent = [time.clock_gettime((~one.process_id << 3) | 2) for one in (player, *ours)]
    return [*map(float, counts), spent[0], sum(spent[1:])]


def _asked(ours: list[ServerUnderTest]) -> Counter[str]:
    """Questions of followers to their cache until now, by what came of them."""
    found: Counter[str] = Counter()
    for one in ours:
        told = httpx.get(f"{one.base}/metrics", timeout=60, trust_env=False).raise_for_status().text
        for result, count in re.findall(r'^spectator_cache_reads_total{result="(\w+)"} (\S+)$', told, re.M):
            found[result] += int(float(count))
    return found


def row(size: Size, followers: int, cached: bool, window: Window) -> str:
    """A window as a row of a table."""
    cells = [
        "with" if cached else "without",
        f"{os.getloadavg()[0]:.1f}",
        str(followers),
        f"{size.episodes}, {size.viewers:,}",
        f"{window.steps:,.0f}",
        f"{window.reads / window.steps:.2f}",
        f"{window.transactions / window.steps:.2f}",
        ", ".join(f"{count:,} {result}" for result, count in window.cached.most_common()) or "-",
        ms(percentile(window.delays, 0.5)),
        f"{ms(percentile(window.delays, 0.99))} of {len(window.delays):,}",
        f"{100 * window.followers_s / NOTED_S / followers:.1f} %",
        f"{100 * window.player_s / NOTED_S:.1f} %",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure as much as is asked for, without a cache and with one in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_cache", description=__doc__)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--viewers", type=int, default=500, help="of all followers together")
    parser.add_argument("--followers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    size = Size(asked.episodes, asked.viewers)
    print(HEADER, flush=True)
    for _ in range(asked.rounds):
        for cached in (False, True):
            with redis() as server:
                window = measured(size, asked.followers, server.url() if cached else None)
            print(row(size, asked.followers, cached, window), flush=True)


if __name__ == "__main__":
    main()
