"""The commentator contract: a world turns its events into lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spectator.events import Event, Fact, NarrationLine, core_fact


@dataclass(frozen=True, slots=True)
class Line:
    """One line of commentary.

    Args:
        text: What is said, at most 300 characters.
        priority: 0 must be heard (a wicket, the result), 1 big moments, 2 summaries, 3 may be dropped.
        label: A short mark for the margin, such as ``OUT`` or ``4``.
        at: Where in the game, in its own notation, such as ``3.4``.
        radio: How it is said aloud, where that is not how it is written.
        reply: What the second commentator answers, at most 300 characters.
    """

    text: str
    priority: int = 3
    label: str | None = None
    at: str | None = None
    radio: str | None = None
    reply: str | None = None


class Commentator(Protocol):
    """Turns a world's events into lines; pure and deterministic, so that a replay says the same."""

    def __call__(self, event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
        """Lines about ``event``.

        Args:
            event: Any event of the episode but commentary itself.
            state: The viewer's state after it, as in a live snapshot.
        """
        ...


def silent(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """The commentator of a world that has none."""
    return ()


def line_fact(line: Line, seq: int) -> Fact:
    """The fact that ``line`` was said about event number ``seq``."""
    return core_fact(
        NarrationLine(
            text=line.text,
            for_seq=seq,
            priority=line.priority,
            label=line.label,
            at=line.at,
            radio=line.radio,
            reply=line.reply,
        )
    )


def aloud(data: Mapping[str, Any]) -> str:
    """What is said aloud of a line, from the data of its event."""
    said: str = data.get("radio") or data["text"]
    return said
