"""A comparison of fan-outs: ours, the bare limit, and servers that others use, one at a time, in turns.

Each has the core for itself while its turn lasts; turns are short and many, since how fast a core is changes
from second to second. What the episode itself costs (the world, its journal, the encoding) drops out, for
ours is the slope between few viewers and many, on two servers with turns of their own.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from benchmarks.crowd import Crowd, crowd
from benchmarks.figures import spread
from benchmarks.peers.driving import NotHere, peer
from benchmarks.sending import LOOP
from benchmarks.staging import EVENTS, FEW, QUIET_S, WHOLE, Stage, limit, on_the_servers_core, stage

ROUNDS: Final = 15

OURS: Final = "ours"


class Course(NamedTuple):
    """What everybody has to send.

    Args:
        viewers: To how many.
        step_s: How often; long enough for everybody to be written to in between.
        steps: How often in a turn.
        events: Events of a step.
        messages: Messages that a peer makes of a step.
    """

    viewers: int
    step_s: float
    steps: int = 4
    events: int = EVENTS
    messages: int = 1

    @property
    def turn_s(self) -> float:
        """How long a turn lasts."""
        return self.steps * self.step_s


class StepCost(NamedTuple):
    """What a turn has shown.

    Args:
        cpu_s: CPU seconds of a step to one viewer.
        writes: Writes of a step to one viewer.
    """

    cpu_s: float
    writes: float


Turn = Callable[[int], StepCost]
"""Sends so many bytes a step for a turn."""


class Contest(NamedTuple):
    """What all turns have shown.

    Args:
        course: What was to be sent.
        costs: Of each server, and of the limit, one a round.
    """

    course: Course
    costs: dict[str, list[StepCost]]

    def cpu_us(self, name: str) -> float:
        """Microseconds of CPU a write to a viewer takes one of them; the median."""
        return 1e6 * statistics.median(cost.cpu_s for cost in self.costs[name])

    def ratios(self, name: str, to: str) -> str:
        """One of them as a multiple of another: the median, the least and the greatest."""
        pairs = zip(self.costs[name], self.costs[to], strict=True)
        return spread([one.cpu_s / other.cpu_s for one, other in pairs])

    def refused(self, name: str) -> str | None:
        """Why a comparison means nothing: one that merges steps does less than the others."""
        usual = statistics.median(cost.writes for cost in self.costs[name])
        return f"refused: {name} merged steps, {usual:.2f} writes a viewer a step" if usual < WHOLE else None


def contest(course: Course, ways: Sequence[str] = ()) -> Contest:
    """Rounds in which the limit, we and each peer that is on this machine have a turn.

    Args:
        course: What is to be sent.
        ways: Names of peers.
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
        for name in ways:
            with contextlib.suppress(NotHere):
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
        running.rest()
        writes = course.steps * course.viewers

        def send(size: int) -> StepCost:
            before = viewers.segments(running.port)
            cpu_s = running.send(size, course.steps, course.step_s, partial(viewers.settle, QUIET_S))
            return StepCost(cpu_s / writes, (viewers.segments(running.port) - before) / writes)

        yield send
