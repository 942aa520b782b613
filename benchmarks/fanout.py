"""Owns the figures of the fan-out to viewers: ``python -m benchmarks fanout``.

What runs where, and what beside it, is in ``benchmarks.staging``. A step is one write. What the episode
itself costs is measured with one viewer and taken off.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from benchmarks import beside, disturbance
from benchmarks.crowd import stall
from benchmarks.figures import Figure, ms, percentile, spread
from benchmarks.sending import LOOP, SEND_TO_EACH
from benchmarks.staging import (
    CALM_STEP_S,
    EVENTS,
    QUICK_STEP_S,
    Stage,
    limit,
    stage,
    unless_merged,
)

ROUNDS: Final = 5
WINDOW_S: Final = 4.0
SIZES: Final = (100, 1_000, 2_000, 5_000)
TRANSPORTS_VIEWERS: Final = 1_000
"""Where the way without the compiled loop is measured."""
QUICK_VIEWERS: Final = 2_000
"""At ten writes a second: 20,000 deliveries a second."""


TARGET: Final = "<= 1.15 x" if SEND_TO_EACH is not None else "<= 1.45 x"


class Sender(Protocol):
    """Something to compare with."""

    def send(self, size: int, times: int, interval_s: float) -> float:
        """Send ``size`` bytes to everybody so many times; returns CPU seconds."""
        ...


class Rounds(NamedTuple):
    """What rounds at the same time have shown; all lists have one entry a round.

    Args:
        ours_s: Our CPU seconds a write to one viewer.
        theirs_s: The same of each of the others.
        writes: Writes a viewer a step; below 1 when steps were merged.
    """

    ours_s: list[float]
    theirs_s: list[list[float]]
    writes: list[float]

    def ratios(self, other: int) -> list[float]:
        """We, as a multiple of one of the others."""
        return [ours / theirs for ours, theirs in zip(self.ours_s, self.theirs_s[other], strict=True)]


def cpu_per_delivery() -> list[Figure]:
    """CPU of a delivery, and what an idle viewer takes."""
    figures = []
    with stage() as ours, limit() as (bare, bare_viewers):
        alone = ours.alone(WINDOW_S, ROUNDS)
        empty_kb = 0
        for size in SIZES:
            ours.viewers.join(ours.port, size, "/live")
            bare_viewers.join(bare.port, size)
            bare.accept(size)
            ours.viewers.settle(1.5)
            if size == SIZES[1]:  # from here on no memory of the start is left to be used up
                empty_kb = ours.rss_kb()
            figures.append(
                _beside_the_limit(_rounds(ours, [bare], size, alone), f"{size:,} viewers", EVENTS, TARGET)
            )
        each_kb = (ours.rss_kb() - empty_kb) / (SIZES[-1] - SIZES[1])
        figures.append(_quick(ours))
    figures.append(
        Figure("memory of an idle viewer, the kernel's left out", f"{each_kb:.1f} KB", "< 20 KB", "-")
    )
    return figures


def by_transports() -> Figure:
    """The same without the compiled loop."""
    with stage(SPECTATOR_COMPILED_SENDS="false") as ours, limit() as (bare, bare_viewers):
        alone = ours.alone(WINDOW_S, ROUNDS)
        ours.viewers.join(ours.port, TRANSPORTS_VIEWERS, "/live")
        bare_viewers.join(bare.port, TRANSPORTS_VIEWERS)
        bare.accept(TRANSPORTS_VIEWERS)
        ours.viewers.settle(1.5)
        rounds = _rounds(ours, [bare], TRANSPORTS_VIEWERS, alone)
    return _beside_the_limit(
        rounds, f"{TRANSPORTS_VIEWERS:,} viewers, compiled_sends=false", EVENTS, "<= 1.45 x"
    )


def _rounds(ours: Stage, others: list[Sender], size: int, alone_s: float) -> Rounds:
    """All at the same time on the one core: each step of the one falls between two sends of the others."""
    rounds = Rounds([], [[] for _ in others], [])
    times = round(WINDOW_S / CALM_STEP_S)
    ours.rest()
    step_bytes = ours.step(WINDOW_S).bytes
    with ThreadPoolExecutor(len(others)) as aside:
        for _ in range(ROUNDS):
            sent = [aside.submit(other.send, step_bytes, times, CALM_STEP_S) for other in others]
            step = ours.step(WINDOW_S)
            rounds.ours_s.append(step.per_write_s(alone_s, size))
            rounds.writes.append(step.writes)
            for costs, result in zip(rounds.theirs_s, sent, strict=True):
                costs.append(result.result() / times / size)
    return rounds


def _beside_the_limit(rounds: Rounds, viewers: str, events: int, target: str) -> Figure:
    cost, least = statistics.median(rounds.ours_s), statistics.median(rounds.theirs_s[0])
    value = f"{1e6 * cost:.1f} us ({1e6 * cost / events:.2f} us an event)"
    return Figure(
        f"CPU to write a step of {events} events to one of {viewers}",
        unless_merged(rounds.writes, f"{value}, {spread(rounds.ratios(0))} x the limit"),
        target,
        f"{LOOP} {1e6 * least:.1f} us",
    )


def _quick(ours: Stage) -> Figure:
    """How long other requests take while everybody is being told, and while nobody is."""
    calm = _answers(ours, 3.0)
    ours.say("resume")
    times = _answers(ours, 8.0)
    ours.say("pause")
    return Figure(
        f"/health while every half second {SIZES[-1]:,} viewers are written to",
        f"median {ms(percentile(times, 0.5))}, p99 {ms(percentile(times, 0.99))} of {len(times):,}",
        "p99 < 50 ms",
        f"while paused: median {ms(percentile(calm, 0.5))}, p99 {ms(percentile(calm, 0.99))}",
    )


def _answers(ours: Stage, seconds: float) -> list[float]:
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        ours.client.get("/health").raise_for_status()
        times.append(time.perf_counter() - began)
        time.sleep(0.003)
    return times


def latency() -> Figure:
    """From the stamp of a step's events to their arrival, at 20,000 deliveries a second."""
    with stage() as ours:
        ours.start(pace="fast")
        ours.viewers.join(ours.port, QUICK_VIEWERS, "/live")
        ours.viewers.settle(0.5)
        delays = _delays(ours.viewers.noted(5.0))
    with limit() as (bare, viewers):
        viewers.join(bare.port, QUICK_VIEWERS)
        bare.accept(QUICK_VIEWERS)
        viewers.arrivals = []
        bare.send(2000, 20, QUICK_STEP_S)
        least = [arrived - float(chunk.split(b" ", 1)[0]) for arrived, chunk in viewers.arrivals]
    return Figure(
        f"event stamped to received, {QUICK_VIEWERS:,} viewers, 20,000 deliveries/s",
        f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))} of {len(delays):,}",
        "p99 < 50 ms",
        f"{LOOP} median {ms(percentile(least, 0.5))}, p99 {ms(percentile(least, 0.99))}",
    )


def _delays(arrivals: list[tuple[float, bytes]]) -> list[float]:
    known: dict[bytes, float] = {}
    delays = []
    for arrived, chunk in arrivals:
        _, found, rest = chunk.rpartition(b'"at":"')
        if found and b'"type":' in rest:
            stamp = rest.split(b'"', 1)[0]
            if stamp not in known:
                known[stamp] = datetime.fromisoformat(stamp.decode()).timestamp()
            delays.append(arrived - known[stamp])
    return delays


def stalled(count: int = 10, turns: int = 3_600) -> Figure:
    """What viewers that read nothing cost while 20 MB of events go by."""
    with stage() as ours, contextlib.ExitStack() as stack:
        ours.viewers.join(ours.port, count, "/live")
        calm_kb, _ = _peak(ours, turns)
        calm_kb, calm = _peak(ours, turns)
        for _ in range(count):
            stack.enter_context(stall(ours.port, "/live"))
        peak_kb, disturbed = _peak(ours, turns)
        closed = ours.client.get("/metrics").text.split('spectator_viewers_closed_total{code="4008"} ')[1]
    value = (
        f"+{(peak_kb - calm_kb) / 1024:.1f} MB, {closed.split()[0]} closed with 4008; "
        f"the others have all {disturbed:,} events"
    )
    if calm != disturbed:
        raise RuntimeError(f"with stalled viewers the others received {disturbed} events, not {calm}")
    return Figure(f"{count} stalled viewers, 20 MB of events", value, "<= +12 MB", "-")


def _peak(ours: Stage, turns: int) -> tuple[int, int]:
    """Play an episode of 20 MB at full speed: the most memory meanwhile, and events at each viewer."""
    before = ours.viewers.events()
    ours.start(pace="max", options={"turns": turns, "payload_bytes": 4_700})
    most = 0
    while ours.client.get("/custom/status").json()["running"]:
        most = max(most, ours.rss_kb())
        time.sleep(0.02)
    ours.viewers.settle()
    got = {now - then for now, then in zip(ours.viewers.events(), before, strict=True)}
    if len(got) != 1:
        raise RuntimeError(f"viewers received from {min(got)} to {max(got)} events")
    return most, got.pop()


def measure() -> list[Figure]:
    """All figures of the fan-out."""
    return [
        *cpu_per_delivery(),
        by_transports(),
        *beside.measure(),
        *disturbance.measure(),
        latency(),
        stalled(),
    ]
