"""Model servers that follow one record, and compare the model with measurements.

``python -m benchmarks.cluster_model`` lets one server follow another at four sizes. The follower's processor
time is modelled as a constant per second, per step, and per write to a viewer. The three constants are fitted
to three sizes and predict the fourth, the largest. Then the needs of large audiences are printed. ``--predict
STEP_US WRITE_US`` skips the measurement.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.cluster import EVENTS, STEP_S, database, join, start, two_servers
from benchmarks.crowd import Crowd, crowd

SIZES: Final = ((4, 200), (64, 256), (4, 3_000), (48, 2_000))
"""Episodes and viewers; the last is predicted from the others."""

WINDOW_S: Final = 12.0
SETTLE_S: Final = 8.0

STEP_BYTES: Final = 3_000
"""Bytes of a step to a viewer: three events of 1 KB."""

SERVER_VIEWERS: Final = 5_000
"""Viewers per server: the last one is written to 43 ms after the first (docs/performance.md)."""

READS_A_SECOND: Final = 4_000
"""Most short reads a second of one PostgreSQL: an assumption, on two cores."""

AUDIENCES: Final = ((1, 10_000), (64, 100_000), (1, 1_000_000), (64, 1_000_000), (1_000, 1_000_000))
"""Episodes at once, and all their viewers."""


@dataclass(frozen=True, slots=True)
class FollowerCost:
    """Processor time of following, in microseconds.

    Args:
        idle_us: Per second, always.
        step_us: Per step: notification, read, fold and encoding.
        write_us: Per write of a step to one viewer.
    """

    idle_us: float
    step_us: float
    write_us: float

    def cores(self, steps_a_second: float, writes_a_second: float) -> float:
        """Return the share of one processor that a follower needs.

        >>> FollowerCost(1000.0, 2000.0, 10.0).cores(32.0, 1000.0)
        0.075
        """
        return (self.idle_us + self.step_us * steps_a_second + self.write_us * writes_a_second) / 1e6


@dataclass(frozen=True, slots=True)
class FollowerLoad:
    """Measured load of a follower.

    Args:
        episodes: Episodes that it follows.
        viewers: Its viewers.
        steps: Steps a second.
        writes: Writes to viewers a second.
        cores: Share of one processor that it took.
    """

    episodes: int
    viewers: int
    steps: float
    writes: float
    cores: float


def measured(episodes: int, viewers: int) -> FollowerLoad:
    """Let a server follow ``episodes`` of another one for ``viewers``."""
    with database() as (_, url), two_servers(STEP_S, url, episodes) as (ours, theirs), crowd() as watching:
        playing = [start(theirs) for _ in range(episodes)]
        join(watching, ours, playing, viewers)
        time.sleep(SETTLE_S)
        clock = (~ours.process_id << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
        began, received = time.clock_gettime(clock), _events(watching)
        time.sleep(WINDOW_S)
        cores = (time.clock_gettime(clock) - began) / WINDOW_S
        writes = (_events(watching) - received) / EVENTS / WINDOW_S
    return FollowerLoad(episodes, viewers, writes * episodes / viewers, writes, cores)


def _events(watching: Crowd) -> int:
    return sum(seat.events for seat in watching.seats.values())


def fitted(found: Sequence[FollowerLoad]) -> FollowerCost:
    """Fit the cost to the measured loads, by least squares."""
    rows = np.array([[1.0, one.steps, one.writes] for one in found])
    idle, step, write = np.linalg.lstsq(rows, np.array([1e6 * one.cores for one in found]), rcond=None)[0]
    return FollowerCost(float(idle), float(step), float(write))


def needs(cost: FollowerCost, episodes: int, viewers: int, *, sorted_by_episode: bool) -> dict[str, float]:
    """Compute what a number of viewers needs.

    Args:
        cost: Cost of following.
        episodes: Episodes at once, played on other servers.
        viewers: Viewers of all of them, evenly spread.
        sorted_by_episode: Whether the proxy sends the viewers of an episode to the same few servers, so that
            each follows few; else every server follows all.

    Returns:
        Servers, the share of a processor of each, its Mbit/s, reads of the database a second.
    """
    servers = math.ceil(viewers / SERVER_VIEWERS)
    each = viewers / servers
    followed = max(1.0, episodes / servers) if sorted_by_episode else min(episodes, each)
    steps = followed / STEP_S
    return {
        "servers": servers,
        "cores each": cost.cores(steps, each / STEP_S),
        "Mbit/s each": 8e-6 * STEP_BYTES * each / STEP_S,
        "reads a second": servers * steps,
    }


def table(cost: FollowerCost) -> Iterator[str]:
    """Yield the needs of each of :data:`AUDIENCES`, as Markdown."""
    yield "| episodes | viewers | servers | any server: processor of each, reads | by episode: the same |"
    yield "|---|---|---|---|---|"
    for episodes, viewers in AUDIENCES:
        spread, by_episode = (
            needs(cost, episodes, viewers, sorted_by_episode=sorted_by_episode)
            for sorted_by_episode in (False, True)
        )
        yield (
            f"| {episodes:,} | {viewers:,} | {spread['servers']:.0f}, {spread['Mbit/s each']:.0f} Mbit/s "
            f"| {_cell(spread)} | {_cell(by_episode)} |"
        )


def _cell(need: Mapping[str, float]) -> str:
    reads, cores = need["reads a second"], need["cores each"]
    return f"{100 * cores:.0f} %{_beyond(cores > 1)}, {reads:,.0f}/s{_beyond(reads > READS_A_SECOND)}"


def _beyond(limit: bool) -> str:
    return " (too much)" if limit else ""


def main() -> None:
    """Measure, fit, predict, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_model", description=__doc__)
    parser.add_argument("--predict", nargs=2, type=float, metavar=("STEP_US", "WRITE_US"))
    asked = parser.parse_args()
    if asked.predict is not None:
        print("\n".join(table(FollowerCost(0.0, *asked.predict))))
        return
    found = [measured(*size) for size in SIZES]
    cost = fitted(found[:-1])
    print("| episodes | viewers | steps a second | writes a second | processor, measured | by the model |")
    print("|---|---|---|---|---|---|")
    for one in found:
        by_model = "fitted" if one is not found[-1] else f"{100 * cost.cores(one.steps, one.writes):.1f} %"
        print(
            f"| {one.episodes} | {one.viewers:,} | {one.steps:.1f} | {one.writes:,.0f} "
            f"| {100 * one.cores:.1f} % | {by_model} |"
        )
    print(f"\n{cost.idle_us:.0f} us a second, {cost.step_us:.0f} us a step, {cost.write_us:.1f} us a write\n")
    print("\n".join(table(cost)))


if __name__ == "__main__":
    main()
