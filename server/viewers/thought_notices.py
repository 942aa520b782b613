"""A decision that forms at another server, rebuilt here from what that one tells of it; parts may be lost."""

from __future__ import annotations

import json
from typing import Any, Final

from spectator.clock import Clock
from spectator.episodes.run.partial_decision import PartialDecision, Thinking

from ..security.masking import NameMask
from .thoughts import ThoughtFrames

LARGEST: Final = 7_000
"""Bytes of a part at most, as JSON."""


class UnmaskedNames:
    """Hides no names: whoever shows what is told masks it by its own operator's orders."""

    def __init__(self) -> None:
        self.mask = NameMask()


class ThoughtTeller:
    """Tells what is thought in one episode, each time what is new.

    Args:
        thinking: What is thought.
        withheld: Whether it is told who thinks, and for how long, but not what.
    """

    def __init__(self, thinking: Thinking, *, withheld: bool) -> None:
        self._frames = ThoughtFrames(thinking, UnmaskedNames(), withheld=withheld)

    def next(self) -> dict[str, Any] | None:
        """The fields of the next ``thought`` frame; ``None`` when nothing is new."""
        if (frame := self._frames.next()) is None:
            return None
        fields: dict[str, Any] = json.loads(frame.text)
        del fields["frame"]
        return shortened(fields)


def shortened(fields: dict[str, Any]) -> dict[str, Any]:
    """The same, with no more of thought and answer than fits: their ends, as if all began there."""
    kept = max(len(fields["thought"]), len(fields["answer"]))
    while len(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")) > LARGEST and kept > 1:
        kept //= 2
        fields = {
            **fields,
            "whole": True,
            "thought": fields["thought"][-kept:],
            "answer": fields["answer"][-kept:],
        }
    return fields


class ToldThoughts:
    """Takes what another server tells of one episode, so that it is shown as if it were thought here.

    Args:
        thinking: What is to hold it.
        clock: Time.
    """

    def __init__(self, thinking: Thinking, clock: Clock) -> None:
        self.thinking = thinking
        self._clock = clock
        self._part = -1

    def take(self, fields: Any) -> None:
        """Take the fields of a ``thought`` frame; a part before which one is missing is left out.

        Raises:
            KeyError: One is not there.
            TypeError: One is of another type.
            ValueError: Its text cannot be shown.
        """
        actor, turn, part = str(fields["actor"]), int(fields["turn"]), int(fields["part"])
        elapsed_s, thought, answer = float(fields["elapsed_s"]), str(fields["thought"]), str(fields["answer"])
        whole, done = bool(fields["whole"]), bool(fields["done"])
        forming = self.thinking.forming
        same = forming is not None and (forming.actor, forming.turn) == (actor, turn) and part > self._part
        if forming is None or not same or forming.over:
            if not whole:
                return
            began = self._clock.monotonic() - elapsed_s
            forming = self.thinking.forming = PartialDecision(actor, turn, began)
        elif whole:
            thought, answer = _added(forming, thought, answer)
        elif part != self._part + 1:
            return
        self._part = part
        for is_answer, text in ((False, thought), (True, answer)):
            if text:
                forming.add(is_answer, text)
        forming.over = done
        self.thinking.notify()

    def over(self, turn: int) -> None:
        """What was thought of up to a turn is decided."""
        forming = self.thinking.forming
        if forming is not None and not forming.over and forming.turn <= turn:
            forming.over = True
            self.thinking.notify()


def _added(forming: PartialDecision, thought: str, answer: str) -> tuple[str, str]:
    """What is new of all that was thought; what is known is forgotten where that cannot be told."""
    known_thought, known_answer = forming.newest(forming.heard)
    if thought.startswith(known_thought) and answer.startswith(known_answer):
        return thought[len(known_thought) :], answer[len(known_answer) :]
    if not (known_thought.endswith(thought) and known_answer.endswith(answer)):
        forming.restart()
        return thought, answer
    return "", ""
