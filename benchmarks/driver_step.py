"""Measure what viewers cost the match: the step of its driver with and without them.

Two episodes of one server take turns. One has all the viewers, the other none; while one plays, the other is
paused. The server runs a driver that notes, for each step, the time from the question to the policy until the
step's events are recorded and published, and the CPU time of the event loop's and the world's threads in it.
``python -m benchmarks.driver_step NOTES`` is that server.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from benchmarks import fork_server
from benchmarks.fanout_stage import Stage, stage
from benchmarks.figures import Figure, ms, percentile
from spectator.environments.contract import Environment, Stepped
from spectator.episodes import handle
from spectator.episodes.driver import Driver, Emit
from spectator.events import Fact
from spectator.journal.contract import Attachments
from spectator.observations import Observation
from spectator.policies.policy import Action
from spectator.steppers import local
from spectator.steppers.local import ThreadStepper


class Metered:
    """An awaitable that measures its own CPU time on the loop's thread.

    Args:
        awaited: What is awaited.
    """

    def __init__(self, awaited: Awaitable[Any]) -> None:
        self.cpu_s = 0.0
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, Any]:
        """Run it to its end."""
        steps: Any = self._awaited.__await__()
        go_on = partial(steps.send, None)
        while True:
            began = time.thread_time()
            try:
                waits_for = go_on()
            except StopIteration as end:
                return end.value
            finally:
                self.cpu_s += time.thread_time() - began
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - pass a cancellation on
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, None)


WORLD_S: dict[str, float] = {}
"""CPU seconds of the last step of each episode's world, on the thread that is named after the episode."""


class MeteredStepper(ThreadStepper[Environment]):
    """A stepper that notes the CPU seconds of its world's steps in :data:`WORLD_S`."""

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """Measure and carry out a step; see :meth:`Stepper.step`."""

        def metered(world: Environment) -> Stepped:
            began = time.thread_time()
            try:
                return local.answered(world, world.step(action))
            finally:
                WORLD_S[threading.current_thread().name] = time.thread_time() - began

        return await self._call(limit_s, metered)


def noting(note: Callable[[str], object]) -> type[Driver]:
    """Return a driver that notes each step.

    A note holds the episode, seconds, and CPU seconds of the loop and of the world.
    """

    class NotingDriver(Driver):
        _began: float | None = None

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._emit_plainly: Emit = self._emit
            self._emit = self._emit_and_note

        async def _take_turn(self, observation: Observation) -> Any:
            self._began = time.perf_counter()
            turn = Metered(super()._take_turn(observation))
            taken = await turn
            self._loop_s = turn.cpu_s
            return taken

        async def _recorded_plainly(
            self, steps: Sequence[tuple[int, Sequence[Fact]]], attachments: Attachments | None
        ) -> int:
            taken = self._emit_plainly(steps, attachments=attachments)
            return taken if isinstance(taken, int) else await taken

        async def _emit_and_note(
            self, steps: Sequence[tuple[int, Sequence[Fact]]], *, attachments: Attachments | None = None
        ) -> int:
            publishing = Metered(self._recorded_plainly(steps, attachments))
            recorded: int = await publishing
            if self._began is not None:
                took, self._began = time.perf_counter() - self._began, None
                world_s = WORLD_S.pop(self._episode_id, 0.0)
                note(f"{self._episode_id} {took} {self._loop_s + publishing.cpu_s} {world_s}\n")
            return recorded

    return NotingDriver


def main() -> None:
    """Run a fork server with the noting driver; the first argument is the file of notes."""
    notes = Path(sys.argv[1]).open("a", buffering=1)
    vars(local)["ThreadStepper"] = MeteredStepper
    vars(handle)["Driver"] = noting(notes.write)
    fork_server.main()


VIEWERS: Final = 5_000
ROUNDS: Final = 5
WINDOW_S: Final = 8.0


class Step(NamedTuple):
    """One step of a driver, from the question to the policy until its events were published.

    Args:
        took_s: Seconds on the clock, the journal's commit included.
        cpu_s: CPU seconds of the loop's thread in the driver, and of the world's thread.
    """

    took_s: float
    cpu_s: float


def measure() -> list[Figure]:
    """Measure both episodes in turns."""
    with (
        TemporaryDirectory() as folder,
        stage(
            fork_server=("benchmarks.driver_step", str(notes := Path(folder) / "notes")),
            SPECTATOR_MAX_EPISODES="2",
        ) as ours,
    ):
        watched, alone = (ours.start(pace="broadcast") for _ in range(2))
        for episode in (watched, alone):
            ours.say("pause", episode_id=episode)
        ours.viewers.join(ours.port, VIEWERS, f"/live/{watched}")
        ours.viewers.settle(1.5)
        for _ in range(ROUNDS):
            for episode in (alone, watched):
                _play(ours, episode)
        text = notes.read_text()
    return _figures(_steps(text, alone), _steps(text, watched))


def _play(ours: Stage, episode: str) -> None:
    ours.say("resume", episode_id=episode)
    time.sleep(WINDOW_S)
    ours.say("pause", episode_id=episode)
    ours.viewers.settle(0.2)


def _steps(notes: str, episode: str) -> list[Step]:
    """Return the steps of an episode, without the first ones, which load code."""
    lines = [line.split() for line in notes.splitlines()]
    return [
        Step(float(took), float(loop) + float(world)) for name, took, loop, world in lines if name == episode
    ][3:]


def _figures(alone: Sequence[Step], watched: Sequence[Step]) -> list[Figure]:
    return [
        Figure(
            f"{name} of the driver's step, {VIEWERS:,} viewers",
            _range(with_viewers),
            "within noise",
            f"no viewer: {_range(without)}",
        )
        for name, with_viewers, without in (
            ("CPU", [step.cpu_s for step in watched], [step.cpu_s for step in alone]),
            ("time", [step.took_s for step in watched], [step.took_s for step in alone]),
        )
    ]


def _range(values: Sequence[float]) -> str:
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    return f"median {ms(statistics.median(values))}, half within {ms(low)} and {ms(high)}, of {len(values)}"


if __name__ == "__main__":
    main()
