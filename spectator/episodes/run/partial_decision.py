"""A decision while it forms: the model's thoughts so far, for viewers only, never recorded."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, cast

from spectator.clock import Clock
from spectator.policies.base import Policy, offers
from spectator.policies.thoughts import ThinksAloud, Thought

KEPT: Final = 4_000
"""Characters of a forming decision that somebody who comes late is shown: the newest."""


@dataclass(slots=True)
class PartialDecision:
    """A decision that is forming.

    Args:
        actor: Who decides.
        turn: The turn that it will be.
        began: When, by the clock's ``monotonic``.
        revision: How often it began anew; what was written before is void.
        over: Whether it is made, or given up.
        heard: Parts that were written since it last began.
        parts: The newest of them, oldest first: whether it is the answer rather than a thought, and the text.
    """

    actor: str
    turn: int
    began: float
    revision: int = 0
    over: bool = False
    heard: int = 0
    parts: list[tuple[bool, str]] = field(default_factory=list)
    _size: int = 0

    def add(self, is_answer: bool, text: str) -> None:
        """Take what was written."""
        self.heard += 1
        self.parts.append((is_answer, text))
        self._size += len(text)
        if self._size > 2 * KEPT:
            self._trim()

    def restart(self) -> None:
        """Forget all that was written."""
        self.revision += 1
        self.heard = self._size = 0
        self.parts = []

    def since(self, heard: int) -> tuple[str, str] | None:
        """Thought and answer that were written after part ``heard``; ``None`` when not all of it is kept."""
        missing = self.heard - heard
        if missing > len(self.parts):
            return None
        return _joined(self.parts[len(self.parts) - missing :])

    def newest(self, heard: int) -> tuple[str, str]:
        """The end of thought and answer up to part ``heard``, at most :data:`KEPT` characters of each."""
        thought, answer = _joined(self.parts[: max(0, len(self.parts) - (self.heard - heard))])
        return thought[-KEPT:], answer[-KEPT:]

    def _trim(self) -> None:
        kept, size = 0, 0
        while kept < len(self.parts) and size < KEPT:
            kept += 1
            size += len(self.parts[-kept][1])
        self.parts = self.parts[-kept:]
        self._size = size


def _joined(parts: list[tuple[bool, str]]) -> tuple[str, str]:
    thought = "".join([text for is_answer, text in parts if not is_answer])
    return thought, "".join([text for is_answer, text in parts if is_answer])


class Thinking:
    """What is thought in one episode at the moment. Worlds are turn-based, so one actor thinks at a time.

    Args:
        clock: Measures.
    """

    def __init__(self, clock: Clock) -> None:
        self.forming: PartialDecision | None = None
        """The decision that forms, or the last one that did."""
        self.changes = 0
        """Counts up with every change."""
        self._heard: Policy | None = None
        self._clock = clock
        self._changed: asyncio.Event | None = None

    def deciding(self, actor: str, turn: int, policy: Policy) -> Forming:
        """Around one decision of ``policy``; it is heard if it thinks aloud."""
        forming = self.forming = PartialDecision(actor, turn, self._clock.monotonic())
        if policy is not self._heard:
            self._heard = policy  # to find out what a policy can do takes 10 us
            if offers(type(policy), ThinksAloud):
                cast(ThinksAloud, policy).think_aloud(self.hear)
        self.notify()
        return Forming(self, forming)

    def hear(self, thought: Thought) -> None:
        """Take a part of the decision that forms; returns at once."""
        forming = self.forming
        if forming is None or forming.over or thought.actor != forming.actor:
            return
        if thought.kind == "restart":
            forming.restart()
        else:
            forming.add(thought.kind != "thought", thought.text)
        self.notify()

    def elapsed_s(self, forming: PartialDecision) -> float:
        """Seconds since it began."""
        return self._clock.monotonic() - forming.began

    async def change(self, known: int) -> int:
        """Wait until there are more changes than ``known``; returns how many there are."""
        while self.changes <= known:
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()
        return self.changes

    def notify(self) -> None:
        """The decision that forms has changed."""
        self.changes += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None


@dataclass(slots=True)
class Forming(AbstractContextManager[None]):
    """A decision that forms until its context is left; see :meth:`Thinking.deciding`."""

    thinking: Thinking
    decision: PartialDecision

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.decision.over = True  # it is made, or given up
        self.thinking.notify()
