"""What of a step is kept while it waits for the journal."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.episodes.unrecorded_steps import UnrecordedSteps
from spectator.events import Fact

SAID = Fact("counting.number_said", {"number": 1})


def made(model: str | None) -> Fact:
    return Fact("decision.made", {"actor": "counter", "action": {"text": "ACTION: 1"}, "model": model})


def held_by(root: object) -> set[int]:
    """The ids of all that ``root`` keeps alive, as far as the collector knows it."""
    found: set[int] = set()
    left: list[Any] = [root]
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type):
            found.add(id(one))
            left += gc.get_referents(one)
    return found


@pytest.mark.parametrize("model", [None, "some model"])
def test_a_step_that_waits_keeps_no_fact_but_those_of_models(model: str | None) -> None:
    waiting, decided = UnrecordedSteps("ep-1", "e", SystemClock(), 1), made(model)
    step = waiting.encode(1, [decided, SAID])
    assert [one.event.type for one in step.events] == ["decision.made", "counting.number_said"]
    assert step.decisions == 1
    held = held_by(step)
    assert id(SAID.data) not in held
    assert (id(decided.data) in held) is (model is not None)
