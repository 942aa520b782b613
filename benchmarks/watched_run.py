"""Measure what viewers cost a run of rollouts: ``python -m benchmarks watched_run``.

A run without viewers and a run whose page 200 viewers have open, on a server in another process, take turns.
Counted are the processor time of the run's own process per model call, all threads, and wall time. The
endpoint and the viewers have processes of their own too.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.endpoint import endpoint
from benchmarks.figures import Figure, spread
from benchmarks.fleets import CallCost, fleet
from benchmarks.serving import server_process
from benchmarks.watching import ViewersApart
from spectator.rollouts.fleet import RunningFleet

VIEWERS: Final = 200
ROUNDS: Final = 5
EPISODES: Final = 512
IN_FLIGHT: Final = 64


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A watched run.

    Args:
        cost: Cost of its calls.
        server: Share of one processor that the server used.
        closed: Viewers that were disconnected.
    """

    cost: CallCost
    server: float
    closed: int


async def _watched(port: int, folder: Path, base: str, process_id: int) -> WatchedRun:
    viewers = ViewersApart(base, f"rollouts/{folder.name}", VIEWERS)
    joining: list[asyncio.Task[ViewersApart]] = []

    def begin(running: RunningFleet) -> None:
        joining.append(asyncio.get_running_loop().create_task(viewers.__aenter__()))

    clock = (~process_id << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
    before = time.clock_gettime(clock)
    cost = await fleet(port, folder, episodes=EPISODES, in_flight=IN_FLIGHT, on_begin=begin)
    server = (time.clock_gettime(clock) - before) / cost.wall_s
    await joining[0]
    await viewers.__aexit__(None, None, None)
    return WatchedRun(cost, server, viewers.seen.closed)


async def _rounds(port: int, root: Path, base: str, process_id: int) -> list[tuple[CallCost, WatchedRun]]:
    await fleet(port, root / "first", episodes=IN_FLIGHT, in_flight=IN_FLIGHT)
    found = []
    for number in range(ROUNDS):
        alone = await fleet(port, root / f"alone-{number}", episodes=EPISODES, in_flight=IN_FLIGHT)
        found.append((alone, await _watched(port, root / f"watched-{number}", base, process_id)))
    return found


def measure() -> Iterable[Figure]:
    """Measure the cost of being watched."""
    with TemporaryDirectory(prefix="spectator-") as kept, endpoint() as port:
        root = Path(kept, "runs")
        with server_process({"SPECTATOR_RUNS_DIR": str(root)}) as (base, process_id):
            rounds = asyncio.run(_rounds(port, root, base, process_id))
    cpu = [watched.cost.us / alone.us for alone, watched in rounds]
    wall = [watched.cost.wall_s / alone.wall_s for alone, watched in rounds]
    us = statistics.median(alone.us for alone, _ in rounds)
    name = f"CPU of a call of a run that {VIEWERS} viewers watch, over one without viewers"
    yield Figure(name, f"{spread(cpu)} x", "<= 1.03 x", f"{us:.0f} us alone")
    seconds = statistics.median(alone.wall_s for alone, _ in rounds)
    yield Figure("the same, seconds on the clock", f"{spread(wall)} x", "<= 1.03 x", f"{seconds:.1f} s alone")
    server = [100 * watched.server for _, watched in rounds]
    yield Figure("the server meanwhile, share of one processor", f"{spread(server)} %", "-", "-")
    yield Figure("viewers that were disconnected", str(sum(one.closed for _, one in rounds)), "0", "-")
