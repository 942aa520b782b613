"""Schedules: which of the callbacks that are ready runs next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from simloom._loop import SimLoop
from simloom._sched import PCT, RandomWalk, Scheduler, SchedulerFactory


class _StartsInOrder:
    def __init__(self, chooser: Scheduler) -> None:
        self.descriptor = f"in-order:{chooser.descriptor}"
        self._chooser = chooser
        self._started: WeakSet[asyncio.Task[Any]] = WeakSet()

    def pick(self, ready: Sequence[asyncio.Handle]) -> int:
        """The index of the next one."""
        may, starting = [], False
        for index, handle in enumerate(ready):
            task = _task_of(handle)
            if task is not None and task not in self._started:
                if starting:
                    continue
                starting = True
            may.append(index)
        chosen: int = may[self._chooser.pick([ready[index] for index in may])]
        task = _task_of(ready[chosen])
        if task is not None:
            self._started.add(task)
        return chosen


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


@dataclass(frozen=True)
class StartsInOrder:
    """Any order, but that tasks begin in the order in which they were made.

    asyncio promises more, every callback in the order of its registration; the code relies on this much.

    Args:
        chooser: Picks among those that may be next.
    """

    chooser: SchedulerFactory

    def __call__(self, loop: SimLoop) -> Scheduler:
        """A scheduler of this loop."""
        return _StartsInOrder(self.chooser(loop))


RANDOM = StartsInOrder(RandomWalk())
"""Every callback that may be next is as likely."""


def by_priority(depth: int) -> StartsInOrder:
    """Tasks have priorities, which change at ``depth`` - 1 moments: finds what takes a rare order of few."""
    return StartsInOrder(PCT(depth=depth, horizon=600))
