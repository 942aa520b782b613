"""The figures of the fan-out to viewers: ``python -m benchmarks fanout``.

What runs where is in ``benchmarks.staging``, what is compared and how in ``benchmarks.contest``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from benchmarks import disturbance
from benchmarks.contest import OURS, Contest, Course, contest
from benchmarks.crowd import stall
from benchmarks.figures import Figure, ms, percentile
from benchmarks.peers.driving import WAYS
from benchmarks.sending import LOOP, SEND_TO_EACH
from benchmarks.staging import QUICK_STEP_S, Stage, limit, stage

SIZES: Final = (Course(1_000, 0.15), Course(2_000, 0.15), Course(5_000, 0.25))
ONE_MESSAGE: Final = SIZES[0]
TEN_MESSAGES: Final = Course(1_000, 0.25, events=10, messages=10)

IDLE: Final = (1_000, 5_000)
"""Between them the memory of an idle viewer is measured: with fewer some of the start's is used up."""

QUICK_VIEWERS: Final = 2_000
"""At ten writes a second: 20,000 deliveries a second."""

IS_COMPILED: Final = SEND_TO_EACH is not None
TARGET: Final = "<= 1.15 x" if IS_COMPILED else "<= 1.45 x"
COALESCED_TARGET: Final = "<= 1.3 x" if IS_COMPILED else "<= 1.5 x"


def cpu_per_delivery() -> Iterator[Figure]:
    """CPU of a write to one viewer, beside the limit."""
    for course in SIZES:
        yield _beside_the_limit(contest(course), TARGET)


def beside_peers() -> list[Figure]:
    """The same beside servers that others use: a message a step, and a message an event."""
    one, ten = contest(ONE_MESSAGE, list(WAYS)), contest(TEN_MESSAGES, list(WAYS))
    figures = [_beside_the_limit(ten, COALESCED_TARGET)]
    for name in WAYS:
        is_queues = name == next(iter(WAYS))
        figures.append(_beside_the_peer(one, name, "a message a step", ">= 3 x" if is_queues else "> 1 x"))
        figures.append(_beside_the_peer(ten, name, "a message an event", ">= 12 x" if is_queues else "> 1 x"))
    return figures


def _beside_the_limit(found: Contest, target: str, how: str = "") -> Figure:
    course, cost = found.course, found.cpu_us(OURS)
    value = f"{cost:.1f} us ({cost / course.events:.2f} us an event), {found.ratios(OURS, LOOP)} x the limit"
    return Figure(
        f"CPU to write a step of {course.events} events to one of {course.viewers:,} viewers{how}",
        found.refused(OURS) or value,
        target,
        f"{LOOP} {found.cpu_us(LOOP):.1f} us",
    )


def _beside_the_peer(found: Contest, name: str, how: str, target: str) -> Figure:
    return Figure(
        f"a step of {found.course.events} events beside {name}, {how}",
        _compared(found, name),
        target,
        f"{LOOP} {found.cpu_us(LOOP):.1f} us",
    )


def _compared(found: Contest, name: str) -> str:
    if name not in found.costs:
        return "it is not on this machine"
    refused = found.refused(OURS) or found.refused(name)
    value = f"{found.cpu_us(OURS):.1f} us beside {found.cpu_us(name):.1f} us"
    return refused or f"{value}, {found.ratios(name, OURS)} x cheaper"


def at_rest() -> list[Figure]:
    """What an idle viewer takes, and how long other requests take while thousands are written to."""
    with stage() as ours:
        ours.start(pace="broadcast")
        few, many = IDLE
        ours.viewers.join(ours.port, few, "/live")
        ours.say("pause")
        ours.viewers.settle(1.5)
        before_kb = ours.rss_kb()
        ours.viewers.join(ours.port, many, "/live")
        ours.viewers.settle(1.5)
        each_kb = (ours.rss_kb() - before_kb) / (many - few)
        memory = Figure(
            "memory of an idle viewer, the kernel's left out", f"{each_kb:.1f} KB", "< 20 KB", "-"
        )
        return [_quick(ours), memory]


def _quick(ours: Stage) -> Figure:
    """How long other requests take while everybody is being told, and while nobody is."""
    calm = _answers(ours, 3.0)
    ours.say("resume")
    times = _answers(ours, 8.0)
    ours.say("pause")
    return Figure(
        f"/health while every half second {IDLE[-1]:,} viewers are written to",
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
        delays = delays_of(ours.viewers.noted(5.0))
    with limit() as (bare, viewers):
        bare.admit(viewers, QUICK_VIEWERS)
        viewers.settle(0.5)
        viewers.arrivals = []
        bare.send(2000, 20, QUICK_STEP_S)
        least = [arrived - float(chunk.split(b" ", 1)[0]) for arrived, chunk in viewers.arrivals]
    return Figure(
        f"event stamped to received, {QUICK_VIEWERS:,} viewers, 20,000 deliveries/s",
        f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))} of {len(delays):,}",
        "p99 < 50 ms",
        f"{LOOP} median {ms(percentile(least, 0.5))}, p99 {ms(percentile(least, 0.99))}",
    )


def delays_of(arrivals: list[tuple[float, bytes]]) -> list[float]:
    """Seconds from the stamp of each chunk's last event to its arrival."""
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
        f"+{(peak_kb - calm_kb) / 1024:.1f} MB, {float(closed.split()[0]):g} closed with 4008; "
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


def measure() -> Iterator[Figure]:
    """All figures of the fan-out, each as soon as it is known: it takes a quarter of an hour."""
    yield from cpu_per_delivery()
    yield from beside_peers()
    yield from at_rest()
    yield from disturbance.measure()
    yield latency()
    yield stalled()
