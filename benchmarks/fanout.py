"""Owns the figures of the fan-out to viewers: ``python -m benchmarks fanout``.

What runs where, and what beside it, is in ``benchmarks.staging``. A step is one write. What the episode
itself costs is measured with one viewer and taken off.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from benchmarks import disturbance
from benchmarks.crowd import crowd, stall
from benchmarks.figures import Figure, ms, percentile
from benchmarks.peers.driving import WAYS, NotHere, Peer, peer
from benchmarks.sending import LOOP, SEND_TO_EACH
from benchmarks.staging import (
    CALM_STEP_S,
    EVENTS,
    PAUSES,
    QUICK_STEP_S,
    Stage,
    Window,
    limit,
    on_the_servers_core,
    stage,
)

ROUNDS: Final = 5
WINDOW_S: Final = 4.0
SIZES: Final = (100, 1_000, 2_000, 5_000)
PEER_VIEWERS: Final = 1_000
MANY_EVENTS: Final = 10
"""Events of a step where coalescing is looked at."""

QUICK_VIEWERS: Final = 2_000
"""At ten writes a second: 20,000 deliveries a second."""

WHOLE: Final = 0.98
"""Share of the steps that must have been writes of their own, or the row is refused."""


IS_COMPILED: Final = SEND_TO_EACH is not None

ONE_TARGET: Final = "<= 1.15 x" if IS_COMPILED else "<= 1.45 x"
COALESCED_TARGET: Final = "<= 1.3 x" if IS_COMPILED else "<= 1.5 x"
ONE_TARGETS: Final = {"FastAPI": ">= 4 x" if IS_COMPILED else ">= 3 x"}
TEN_TARGETS: Final = {"FastAPI": ">= 13 x" if IS_COMPILED else ">= 12 x"}


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
        alone = _alone(ours)
        empty_kb = 0
        for size in SIZES:
            ours.viewers.join(ours.port, size, "/live")
            bare_viewers.join(bare.port, size)
            bare.accept(size)
            ours.viewers.settle(1.5)
            if size == SIZES[1]:  # from here on no memory of the start is left to be used up
                empty_kb = ours.rss_kb()
            figures.append(
                _beside_the_limit(_rounds(ours, [bare], size, alone), f"{size:,} viewers", EVENTS, ONE_TARGET)
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
        alone = _alone(ours)
        ours.viewers.join(ours.port, PEER_VIEWERS, "/live")
        bare_viewers.join(bare.port, PEER_VIEWERS)
        bare.accept(PEER_VIEWERS)
        ours.viewers.settle(1.5)
        rounds = _rounds(ours, [bare], PEER_VIEWERS, alone)
    return _beside_the_limit(rounds, f"{PEER_VIEWERS:,} viewers, compiled_sends=false", EVENTS, "<= 1.45 x")


def beside_peers() -> list[Figure]:
    """We beside servers that others use, all at the same time: one message a step, and one an event."""
    one, ten = _with_peers(EVENTS, messages=1), _with_peers(MANY_EVENTS, messages=MANY_EVENTS)
    coalesced = next(iter(ten.values()), None)
    figures = (
        []
        if coalesced is None
        else [_beside_the_limit(coalesced, f"{PEER_VIEWERS:,} viewers", MANY_EVENTS, COALESCED_TARGET)]
    )
    for name in WAYS:
        figures.append(_beside_the_peer(one.get(name), EVENTS, f"{name}, one message a step", ONE_TARGETS))
        figures.append(_beside_the_peer(ten.get(name), MANY_EVENTS, f"{name}, one an event", TEN_TARGETS))
    return figures


def _with_peers(events: int, messages: int) -> dict[str, Rounds]:
    """Rounds with the limit first and one peer second, of each peer that is here."""
    with (
        stage(events) as ours,
        limit() as (bare, bare_viewers),
        crowd() as others,
        contextlib.ExitStack() as stack,
    ):
        peers: dict[str, Peer] = {}
        for name in WAYS:
            with contextlib.suppress(NotHere):
                peers[name] = stack.enter_context(peer(name, messages))
                on_the_servers_core(peers[name].process_id)
                others.join(peers[name].port, PEER_VIEWERS * len(peers), "/")
                peers[name].rest()
        alone = _alone(ours)
        ours.viewers.join(ours.port, PEER_VIEWERS, "/live")
        bare_viewers.join(bare.port, PEER_VIEWERS)
        bare.accept(PEER_VIEWERS)
        ours.viewers.settle(1.5)
        rounds = _rounds(ours, [bare, *peers.values()], PEER_VIEWERS, alone)
    least, *costs = rounds.theirs_s
    return {
        name: Rounds(rounds.ours_s, [least, cost], rounds.writes)
        for name, cost in zip(peers, costs, strict=True)
    }


def _beside_the_peer(rounds: Rounds | None, events: int, how: str, targets: Mapping[str, str]) -> Figure:
    what = f"a step of {events} events to one of {PEER_VIEWERS:,} beside {how}"
    target = targets.get(how.partition(",")[0], "cheaper")
    if rounds is None:
        return Figure(what, "it is not on this machine", target, "-")
    cheaper = [1 / ratio for ratio in rounds.ratios(1)]
    ours, bare, theirs = (statistics.median(costs) for costs in (rounds.ours_s, *rounds.theirs_s))
    value = f"{1e6 * ours:.1f} us beside {1e6 * theirs:.1f} us, {_spread(cheaper)} x cheaper"
    return Figure(what, _unless_merged(rounds, value), target, f"{LOOP} {1e6 * bare:.1f} us")


def _alone(ours: Stage) -> Window:
    """The episode with one viewer; it stands still before and afterwards."""
    ours.start(pace="broadcast")
    ours.viewers.join(ours.port, 1, "/live")
    ours.say("pause")
    ours.viewers.settle(1.5)
    windows = [ours.window(WINDOW_S) for _ in range(ROUNDS)]
    return sorted(windows, key=lambda window: window.cpu_s / window.steps)[ROUNDS // 2]


def _rounds(ours: Stage, others: list[Sender], size: int, alone: Window) -> Rounds:
    """All at the same time on the one core: each step of the one falls between two sends of the others."""
    rounds = Rounds([], [[] for _ in others], [])
    times = round(WINDOW_S / CALM_STEP_S)
    step_bytes = ours.window(WINDOW_S).step_bytes
    with ThreadPoolExecutor(len(others)) as aside:
        for _ in range(ROUNDS):
            sent = [aside.submit(other.send, step_bytes, times, CALM_STEP_S) for other in others]
            window = ours.window(WINDOW_S)
            share = window.steps / alone.steps
            rounds.ours_s.append((window.cpu_s - share * alone.cpu_s) / (size - 1) / (window.steps + PAUSES))
            rounds.writes.append(window.writes / (window.steps + PAUSES))
            for costs, result in zip(rounds.theirs_s, sent, strict=True):
                costs.append(result.result() / times / size)
    return rounds


def _beside_the_limit(rounds: Rounds, viewers: str, events: int, target: str) -> Figure:
    cost, least = statistics.median(rounds.ours_s), statistics.median(rounds.theirs_s[0])
    value = f"{1e6 * cost:.1f} us ({1e6 * cost / events:.2f} us an event)"
    return Figure(
        f"CPU to write a step of {events} events to one of {viewers}",
        _unless_merged(rounds, f"{value}, {_spread(rounds.ratios(0))} x the limit"),
        target,
        f"{LOOP} {1e6 * least:.1f} us",
    )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _unless_merged(rounds: Rounds, value: str) -> str:
    if min(rounds.writes) < WHOLE:
        return f"refused: steps were merged, {min(rounds.writes):.2f} writes a viewer a step"
    return value


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
        *beside_peers(),
        *disturbance.measure(),
        latency(),
        stalled(),
    ]
