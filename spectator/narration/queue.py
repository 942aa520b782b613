"""The queue of lines to be spoken: few, the most important first, and never a stale one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spectator.clock import Clock

CAPACITY: Final = 4
"""Most lines that wait."""

LIFE_S: Final = {0: 20.0, 1: 8.0, 2: 6.0, 3: 3.0}
"""Seconds after which a line is too old to be said, by its priority."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A line that waits.

    Args:
        seq: Number of its event.
        text: What is to be said.
        priority: 0 must be heard ... 3 may be dropped.
        until: When it is too old, by the clock's ``monotonic``.
        reply: What the second commentator answers; empty for nothing.
    """

    seq: int
    text: str
    priority: int
    until: float
    reply: str = ""


class LineQueue:
    """Lines that wait. It never grows beyond its capacity and never blocks.

    Args:
        clock: Ages the lines.
        capacity: Most lines that wait, at least 1.
    """

    def __init__(self, clock: Clock, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.dropped: Counter[str] = Counter()
        self._clock = clock
        self._capacity = capacity
        self._lines: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def urgent(self) -> bool:
        """Whether a line waits that must be heard now."""
        return any(line.priority == 0 for line in self._lines)

    def put(self, seq: int, text: str, priority: int, reply: str = "") -> None:
        """Let a line wait; it takes the place of an unspoken one of the least priority.

        When there is no room, the least important goes, the oldest of them first.
        """
        if priority == max(LIFE_S):
            self._drop("replaced", lambda line: line.priority == priority)
        self._lines.append(Waiting(seq, text, priority, self._clock.monotonic() + LIFE_S[priority], reply))
        if len(self._lines) > self._capacity:
            self._remove("overflow", max(self._lines, key=lambda line: (line.priority, -line.seq)))

    def take(self) -> Waiting | None:
        """The line to say now: the most important, of these the newest; those before it are overtaken.

        Of those that must be heard none is overtaken by another.
        """
        self._drop("stale", lambda line: self.stale(line))
        if not self._lines:
            return None
        chosen = min(self._lines, key=lambda line: (line.priority, -line.seq if line.priority else line.seq))
        self._lines.remove(chosen)
        self._drop("overtaken", lambda line: line.priority > 0 and line.seq < chosen.seq)
        return chosen

    def stale(self, line: Waiting) -> bool:
        """Whether ``line`` is too old to be said."""
        return self._clock.monotonic() > line.until

    def _drop(self, why: str, unwanted: Callable[[Waiting], bool]) -> None:
        for line in [line for line in self._lines if unwanted(line)]:
            self._remove(why, line)

    def _remove(self, why: str, line: Waiting) -> None:
        self._lines.remove(line)
        self.dropped[why] += 1
