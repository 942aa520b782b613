"""Owns the comparison of our fan-out with servers that others use; one at a time, in turns.

Every server has the core for itself while its turn lasts, so that none finds the processor's caches full of
another's work. The next step comes when everybody has been written to, and not much later.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from benchmarks.crowd import Crowd, crowd
from benchmarks.figures import Figure, spread
from benchmarks.peers.driving import WAYS, NotHere, peer
from benchmarks.sending import LOOP, SEND_TO_EACH
from benchmarks.staging import EVENTS, WHOLE, limit, on_the_servers_core, stage

VIEWERS: Final = 1_000
ROUNDS: Final = 5
TURN_S: Final = 2.0
MANY_EVENTS: Final = 10
"""Events of a step where coalescing is looked at."""

ONE_STEP_S: Final = 0.05
TEN_STEP_S: Final = 0.25

OURS: Final = "ours"
QUEUES: Final = next(iter(WAYS))

Turn = Callable[[int], "Costs"]
"""Sends so many bytes a step for a turn."""


class Costs(NamedTuple):
    """What a turn has shown.

    Args:
        cpu_s: CPU seconds of a step to one viewer.
        writes: Writes of a step to one viewer.
    """

    cpu_s: float
    writes: float


class Contest(NamedTuple):
    """What all turns have shown; all lists have one entry a round.

    Args:
        events: Events of a step.
        costs: Of each server, and of the limit.
    """

    events: int
    costs: dict[str, list[Costs]]

    def cpu_s(self, name: str) -> float:
        """The median of one of them."""
        return statistics.median(cost.cpu_s for cost in self.costs[name])

    def ratios(self, name: str, to: str) -> list[float]:
        """One of them as a multiple of another."""
        return [one.cpu_s / other.cpu_s for one, other in zip(self.costs[name], self.costs[to], strict=True)]


def measure() -> list[Figure]:
    """One message a step, and one an event."""
    one = _contest(EVENTS, messages=1, step_s=ONE_STEP_S)
    ten = _contest(MANY_EVENTS, messages=MANY_EVENTS, step_s=TEN_STEP_S)
    compiled = SEND_TO_EACH is not None
    figures = [
        _beside_the_limit(one, "<= 1.15 x" if compiled else "<= 1.45 x"),
        _beside_the_limit(ten, "<= 1.3 x" if compiled else "<= 1.5 x"),
    ]
    for name in WAYS:
        figures += [
            _beside_the_peer(one, name, "a message a step", ">= 4 x" if compiled else ">= 3 x"),
            _beside_the_peer(ten, name, "a message an event", ">= 13 x" if compiled else ">= 12 x"),
        ]
    return figures


def _contest(events: int, messages: int, step_s: float) -> Contest:
    """Rounds in which the limit, we and each peer that is here have one turn."""
    with stage(events, step_s=step_s) as ours, crowd() as others, contextlib.ExitStack() as stack:
        alone_s = ours.alone(TURN_S, ROUNDS)

        def play(size: int) -> Costs:
            step = ours.step(TURN_S)
            return Costs(step.per_write_s(alone_s, VIEWERS), step.writes)

        turns: dict[str, Turn] = {LOOP: stack.enter_context(_limit(step_s)), OURS: play}
        for name in WAYS:
            with contextlib.suppress(NotHere):
                turns[name] = stack.enter_context(_peer(name, messages, step_s, others))
        ours.viewers.join(ours.port, VIEWERS, "/live")
        ours.viewers.settle(1.5)
        ours.rest()
        step_bytes = ours.step(TURN_S).bytes
        costs: dict[str, list[Costs]] = {name: [] for name in turns}
        for _ in range(ROUNDS):
            for name, turn in turns.items():
                costs[name].append(turn(step_bytes))
    return Contest(events, costs)


@contextlib.contextmanager
def _limit(step_s: float) -> Iterator[Turn]:
    times = round(TURN_S / step_s)
    with limit() as (bare, viewers):
        viewers.join(bare.port, VIEWERS)
        bare.accept(VIEWERS)
        yield lambda size: Costs(bare.send(size, times, step_s) / times / VIEWERS, 1.0)


@contextlib.contextmanager
def _peer(name: str, messages: int, step_s: float, viewers: Crowd) -> Iterator[Turn]:
    times = round(TURN_S / step_s)
    with peer(name, messages) as running:
        on_the_servers_core(running.process_id)
        viewers.join(running.port, len(viewers.seats) + VIEWERS, "/")
        running.rest()

        def send(size: int) -> Costs:
            segments = viewers.segments(running.port)
            cpu_s = running.send(size, times, step_s, settle=viewers.settle)
            written = viewers.segments(running.port) - segments
            return Costs(cpu_s / times / VIEWERS, written / times / VIEWERS)

        yield send


def _beside_the_limit(contest: Contest, target: str) -> Figure:
    cost = contest.cpu_s(OURS)
    value = f"{1e6 * cost:.1f} us ({1e6 * cost / contest.events:.2f} us an event)"
    return Figure(
        f"CPU to write a step of {contest.events} events to one of {VIEWERS:,} viewers, in turns",
        _refused(contest, OURS) or f"{value}, {spread(contest.ratios(OURS, LOOP))} x the limit",
        target,
        _limit_of(contest),
    )


def _beside_the_peer(contest: Contest, name: str, how: str, target: str) -> Figure:
    return Figure(
        f"a step of {contest.events} events beside {name}, {how}",
        _compared(contest, name),
        target if name == QUEUES else "cheaper",
        _limit_of(contest),
    )


def _compared(contest: Contest, name: str) -> str:
    if name not in contest.costs:
        return "it is not on this machine"
    if refused := _refused(contest, OURS) or _refused(contest, name):
        return refused
    cheaper = spread(contest.ratios(name, OURS))
    return (
        f"{1e6 * contest.cpu_s(OURS):.1f} us beside {1e6 * contest.cpu_s(name):.1f} us, {cheaper} x cheaper"
    )


def _refused(contest: Contest, name: str) -> str | None:
    """Why a comparison means nothing: one that merges steps does less than the others."""
    least = min(cost.writes for cost in contest.costs[name])
    return f"refused: {name} merged steps, {least:.2f} writes a viewer a step" if least < WHOLE else None


def _limit_of(contest: Contest) -> str:
    return f"{LOOP} {1e6 * contest.cpu_s(LOOP):.1f} us"
