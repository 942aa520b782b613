"""The facts of a step: those that are stated at a glance are what the model of their event makes of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from spectator.core_events import StepTaken, core_fact
from spectator.environments.contract import Stepped
from spectator.episodes.steps import facts_of_step
from spectator.events import Fact, encode_json
from spectator.observations import Observation

DECIDED = Fact("decision.made", {"action": {}})
REALS = st.floats(allow_nan=False, allow_infinity=False)


def taken(reward: Any, rubric: dict[Any, Any], took: float, following: str | None = "b") -> Fact:
    observation = Observation(
        following, (), {}, reward=reward, done=following is None, metadata={"rubric": rubric}
    )
    return facts_of_step("a", DECIDED, Stepped(observation, (), {}), took, {})[-1]


@given(REALS | st.integers(-9, 9), st.dictionaries(st.text(max_size=3), REALS, max_size=3), REALS.map(abs))
def test_a_step_is_stated_as_its_model_states_it(
    reward: float, rubric: dict[str, float], took: float
) -> None:
    model = StepTaken(
        actor="a", next_actor="b", reward=reward, done=False, rubric=rubric, duration_s=round(took, 6)
    )
    stated = taken(reward, rubric, took)
    assert stated.type == "step.taken"
    assert encode_json(stated.data) == encode_json(core_fact(model).data)


@pytest.mark.parametrize(
    ("reward", "rubric", "took"),
    [
        (math.nan, {}, 0.1),
        (0.0, {"x": math.inf}, 0.1),
        (0.0, {"x": "much"}, 0.1),
        (0.0, {1: 1.0}, 0.1),
        (0.0, {}, -1.0),
    ],
)
def test_a_step_that_its_model_refuses_is_refused(reward: float, rubric: dict[Any, Any], took: float) -> None:
    with pytest.raises(ValidationError):
        taken(reward, rubric, took)
