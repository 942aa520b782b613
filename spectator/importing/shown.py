"""What viewers see of an imported episode: what was said to its model, and the rewards of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from spectator.events import Event, EventData
from spectator.narration.base import Line
from spectator.text import clean_text

SAID: Final = "imported.said"

LINE: Final = 300
"""Characters that are shown as a line."""


class ImportedWords(EventData):
    """Something was said to the model: a task, or what its tools or its environment answered."""

    text: str = Field(description="The words, capped at 8,192 characters")
    reward: float | None = Field(description="The reward of the step; null where the file gives none")
    total: float | None = Field(description="All rewards so far; null where the file gave none yet")
    answers: int = Field(
        ge=0,
        description="Answers of the model in the whole episode; 0 where there are none, or nobody knows yet",
    )


def show_said(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The words and all rewards so far; no reward where none is known."""
    if event.type != SAID:
        return {}
    total, answers = event.data["total"], event.data["answers"]
    known = {} if total is None else {"value": total, "unit": "reward"}
    said = "" if total is None else f", {total:g} reward so far"
    done = event.turn / answers if answers else 0
    place = f"answer {event.turn} of {answers}" if answers else f"step {event.turn}"
    return {
        "headline": f"{place.capitalize()}{said}" if event.turn else "The task",
        "observation": event.data["text"],
        "glance": {"step": event.turn, "progress": done, "at": place, **known},
    }


def tell_said(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """A line for each, marked with its reward."""
    if event.type != SAID:
        return ()
    reward = event.data["reward"]
    mark = None if reward is None else f"{reward:+g}"
    return [Line(clean_text(event.data["text"], LINE) or "…", 3 if not reward else 2, mark, str(event.turn))]
