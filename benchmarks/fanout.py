"""Measure the fan-out to viewers: ``python -m benchmarks fanout``.

A comparison gives our server, the bare limit and servers that others use short turns on one core, because the
speed of a core changes from second to second. The cost of the episode itself (world, journal, encoding) drops
out: our cost is the slope between two servers, one with few viewers and one with many.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from benchmarks import driver_step
from benchmarks.crowd import Crowd, crowd, stall
from benchmarks.fanout_stage import (
    EVENTS,
    FEW,
    LOOP,
    QUICK_STEP_S,
    QUIET_S,
    SEND_TO_EACH,
    WHOLE,
    Stage,
    limit,
    on_the_servers_core,
    stage,
)
from benchmarks.figures import Figure, ms, percentile, spread
from benchmarks.peers import PEERS, PeerMissing, peer

ROUNDS: Final = 15

OURS: Final = "ours"


class Course(NamedTuple):
    """What every server has to send.

    Args:
        viewers: Number of viewers.
        step_s: Seconds per step; long enough to write to every viewer.
        steps: Steps of a turn.
        events: Events of a step.
        messages: Messages in which a peer sends a step.
    """

    viewers: int
    step_s: float
    steps: int = 4
    events: int = EVENTS
    messages: int = 1

    @property
    def turn_s(self) -> float:
        """Length of a turn, seconds."""
        return self.steps * self.step_s


class StepCost(NamedTuple):
    """Result of one turn.

    Args:
        cpu_s: CPU seconds of a step to one viewer.
        writes: Writes of a step to one viewer.
    """

    cpu_s: float
    writes: float


Turn = Callable[[int], StepCost]
"""Takes the bytes of a step and sends for one turn."""


class Contest(NamedTuple):
    """Results of all turns.

    Args:
        course: What each server sent.
        costs: Results of each server and of the limit, one per round.
    """

    course: Course
    costs: dict[str, list[StepCost]]

    def cpu_us(self, name: str) -> float:
        """Return the median CPU time of a write to a viewer, in microseconds."""
        return 1e6 * statistics.median(cost.cpu_s for cost in self.costs[name])

    def ratios(self, name: str, to: str) -> str:
        """Return one cost as a multiple of another: median, least and greatest."""
        pairs = zip(self.costs[name], self.costs[to], strict=True)
        return spread([one.cpu_s / other.cpu_s for one, other in pairs])

    def invalid(self, name: str) -> str | None:
        """Return why a comparison is invalid, if it is.

        A server that merges steps does less than the others.
        """
        usual = statistics.median(cost.writes for cost in self.costs[name])
        return f"invalid: {name} merged steps, {usual:.2f} writes a viewer a step" if usual < WHOLE else None


def contest(course: Course, names: Sequence[str] = ()) -> Contest:
    """Run rounds in which the limit, our server and each installed peer have a turn.

    Args:
        course: What to send.
        names: Names in :data:`PEERS`.
    """
    with (
        stage(course.events, step_s=course.step_s) as few,
        stage(course.events, step_s=course.step_s) as many,
        crowd() as others,
        contextlib.ExitStack() as stack,
    ):
        few.show(FEW)
        many.show(course.viewers)
        turns = {LOOP: stack.enter_context(_limit(course)), OURS: _ours(few, many, course)}
        for name in names:
            with contextlib.suppress(PeerMissing):
                turns[name] = stack.enter_context(_peer(name, course, others))
        return Contest(course, _rounds(turns, many.turn(course.turn_s).bytes))


def _rounds(turns: Mapping[str, Turn], step_bytes: int) -> dict[str, list[StepCost]]:
    costs: dict[str, list[StepCost]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            costs[name].append(turn(step_bytes))
    return costs


def _ours(few: Stage, many: Stage, course: Course) -> Turn:
    def play(size: int) -> StepCost:
        less, more = few.turn(course.turn_s), many.turn(course.turn_s)
        slope_s = (more.cpu_s / more.writes - less.cpu_s / less.writes) / (course.viewers - FEW)
        return StepCost(slope_s, more.writes / more.steps)

    return play


@contextlib.contextmanager
def _limit(course: Course) -> Iterator[Turn]:
    with limit() as (bare, viewers):
        bare.admit(viewers, course.viewers)
        writes = course.steps * course.viewers
        yield lambda size: StepCost(bare.send(size, course.steps, course.step_s) / writes, 1.0)


@contextlib.contextmanager
def _peer(name: str, course: Course, viewers: Crowd) -> Iterator[Turn]:
    with peer(name, course.messages) as running:
        on_the_servers_core(running.process_id)
        viewers.join(running.port, len(viewers.seats) + course.viewers, "/")
        running.measure_idle()
        writes = course.steps * course.viewers

        def send(size: int) -> StepCost:
            before = viewers.segments(running.port)
            cpu_s = running.send(size, course.steps, course.step_s, partial(viewers.settle, QUIET_S))
            return StepCost(cpu_s / writes, (viewers.segments(running.port) - before) / writes)

        yield send


SIZES: Final = (Course(1_000, 0.15), Course(2_000, 0.15), Course(5_000, 0.25))
ONE_MESSAGE: Final = SIZES[0]
TEN_MESSAGES: Final = Course(1_000, 0.25, events=10, messages=10)

IDLE: Final = (1_000, 5_000)
"""Numbers of viewers between which memory is measured; fewer would reuse memory left from the start."""

QUICK_VIEWERS: Final = 2_000
"""At ten writes a second: 20,000 deliveries a second."""

IS_COMPILED: Final = SEND_TO_EACH is not None
TARGET: Final = "<= 1.15 x" if IS_COMPILED else "<= 1.45 x"
COALESCED_TARGET: Final = "<= 1.3 x" if IS_COMPILED else "<= 1.5 x"


def cpu_per_delivery() -> Iterator[Figure]:
    """Measure the CPU time of a write to one viewer, next to the limit."""
    for course in SIZES:
        yield _beside_the_limit(contest(course), TARGET)


def beside_peers() -> list[Figure]:
    """Compare with other servers: one message per step, and one per event."""
    one, ten = contest(ONE_MESSAGE, list(PEERS)), contest(TEN_MESSAGES, list(PEERS))
    figures = [_beside_the_limit(ten, COALESCED_TARGET)]
    for name in PEERS:
        is_queues = name == next(iter(PEERS))
        figures.append(_beside_the_peer(one, name, "a message a step", ">= 3 x" if is_queues else "> 1 x"))
        figures.append(_beside_the_peer(ten, name, "a message an event", ">= 12 x" if is_queues else "> 1 x"))
    return figures


def _beside_the_limit(found: Contest, target: str, how: str = "") -> Figure:
    course, cost = found.course, found.cpu_us(OURS)
    value = f"{cost:.1f} us ({cost / course.events:.2f} us an event), {found.ratios(OURS, LOOP)} x the limit"
    return Figure(
        f"CPU to write a step of {course.events} events to one of {course.viewers:,} viewers{how}",
        found.invalid(OURS) or value,
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
        return "not installed"
    invalid = found.invalid(OURS) or found.invalid(name)
    value = f"{found.cpu_us(OURS):.1f} us beside {found.cpu_us(name):.1f} us"
    return invalid or f"{value}, {found.ratios(name, OURS)} x cheaper"


def at_rest() -> list[Figure]:
    """Measure the memory of an idle viewer, and other requests during the fan-out."""
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
    """Measure other requests while every viewer is written to, and while paused."""
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
    """Measure from the stamp of a step's events to their arrival, at 20,000 deliveries/s."""
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
    """Return the seconds from the stamp of each chunk's last event to its arrival."""
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
    """Measure the cost of viewers that read nothing during 20 MB of events."""
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
    """Play an episode of 20 MB at full speed; returns peak memory and events per viewer."""
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
    """Yield all figures; takes a quarter of an hour."""
    yield from cpu_per_delivery()
    yield from beside_peers()
    yield from at_rest()
    yield from driver_step.measure()
    yield latency()
    yield stalled()
