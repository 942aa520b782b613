"""A server that notes what each step of its matches takes, for ``benchmarks.disturbance``.

It is the nursery with another driver. Noted is what the match waits for, from the question to the policy
until the step's events are recorded and published, and the CPU of the loop's thread and of the world's in it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import nursery
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
    """Awaits something, and knows how much CPU the thread of the loop spent in it, nothing else included.

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
            except BaseException as error:  # noqa: BLE001 - a cancellation is for what is awaited
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, None)


WORLD_S: dict[str, float] = {}
"""CPU seconds of the last step of each episode's world, on the thread that is named after the episode."""


class MeteredStepper(ThreadStepper):
    """A stepper that notes the CPU seconds of its world's steps in :data:`WORLD_S`."""

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""

        def metered(world: Environment) -> Stepped:
            began = time.thread_time()
            try:
                return local.answered(world, world.step(action))
            finally:
                WORLD_S[threading.current_thread().name] = time.thread_time() - began

        return await self._call(limit_s, metered)


def noting(note: Callable[[str], object]) -> type[Driver]:
    """A driver that notes each step: its episode, seconds, and CPU seconds of the loop and of the world."""

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
            telling = Metered(self._recorded_plainly(steps, attachments))
            recorded: int = await telling
            if self._began is not None:
                took, self._began = time.perf_counter() - self._began, None
                world_s = WORLD_S.pop(self._episode_id, 0.0)
                note(f"{self._episode_id} {took} {self._loop_s + telling.cpu_s} {world_s}\n")
            return recorded

    return NotingDriver


def main() -> None:
    """Be a nursery; the first argument is the file of the notes."""
    notes = Path(sys.argv[1]).open("a", buffering=1)
    vars(local)["ThreadStepper"] = MeteredStepper
    vars(handle)["Driver"] = noting(notes.write)
    nursery.main()


if __name__ == "__main__":
    main()
