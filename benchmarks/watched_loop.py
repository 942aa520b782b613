"""Measure what recording costs a training loop: ``python -m benchmarks watched_loop``.

A loop alone and the same loop recorded take turns. A step works for about a millisecond, as a small simulator
does. Counted are the processor time of the loop's own process, all threads, and wall time; the recorder is
another process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure, spread
from spectator.watchable import WatchedLoop, watch

ROUNDS: Final = 7
EPISODE: Final = 100
"""Steps of an episode."""

WORK: Final = 20_000
"""Additions of a step that takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class LoopCost:
    """Cost of a step.

    Args:
        cpu_us: Processor time a step, microseconds.
        wall_us: Time on the clock, the same.
    """

    cpu_us: float
    wall_us: float


def _counted(work: Callable[[], object], steps: int) -> LoopCost:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return LoopCost(1e6 * cpu / steps, 1e6 * wall / steps)


def _step(work: int) -> dict[str, float]:
    total = 0
    for number in range(work):
        total += number
    return {"position": float(total), "velocity": 0.5}


def _bare(steps: int, work: int) -> None:
    for _ in range(steps):
        _step(work)


def _watched(run: WatchedLoop, steps: int, work: int) -> None:
    for number in range(steps // EPISODE):
        with run.episode(seed=number) as episode:
            for _ in range(EPISODE):
                episode.step(observation=_step(work), action="left", reward=0.5)


def _rounds(folder: Path, steps: int, work: int) -> list[tuple[LoopCost, LoopCost]]:
    with watch(folder) as run:
        _watched(run, steps, work)
        return [
            (
                _counted(lambda: _bare(steps, work), steps),
                _counted(lambda: _watched(run, steps, work), steps),
            )
            for _ in range(ROUNDS)
        ]


def measure() -> Iterable[Figure]:
    """Measure the cost of a recorded step."""
    with TemporaryDirectory(prefix="spectator-") as kept:
        began = time.perf_counter()
        with watch(Path(kept, "open")):
            opened_s = time.perf_counter() - began
        real = _rounds(Path(kept, "work"), 2_000, WORK)
        empty = _rounds(Path(kept, "empty"), 400, 1)
    bare_us = statistics.median(alone.cpu_us for alone, _ in real)
    name = "CPU of a step of a loop that is recorded, over the same by itself"
    yield Figure(
        name, f"{spread([b.cpu_us / a.cpu_us for a, b in real])} x", "<= 1.05 x", f"{bare_us:.0f} us"
    )
    wall_us = statistics.median(alone.wall_us for alone, _ in real)
    yield Figure(
        "the same on the clock",
        f"{spread([b.wall_us / a.wall_us for a, b in real])} x",
        "-",
        f"{wall_us:.0f} us",
    )
    added = [watched.cpu_us - alone.cpu_us for alone, watched in empty]
    empty_us = statistics.median(alone.cpu_us for alone, _ in empty)
    yield Figure("CPU that a recorded step adds", f"{spread(added)} us", "-", f"{empty_us:.1f} us")
    yield Figure("to open a run, on the clock", f"{opened_s:.1f} s", "-", "-")
