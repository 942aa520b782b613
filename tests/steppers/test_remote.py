"""Whatever another server answers is read as an observation or is a typed fault, and nothing else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.errors import ConfigurationError, EnvironmentFault
from spectator.policies.policy import random_json
from spectator.steppers.openenv import OpenEnvStepper, _data, _observation
from spectator.steppers.remote import RemoteStepper, read_object
from spectator.steppers.remote_world import remote_world
from tests.profiled_worlds import ORDERING, TRADING, Form

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
shown = st.fixed_dictionaries(
    {},
    optional={
        "legal_actions": anything,
        "refused": anything,
        "metadata": anything | st.dictionaries(st.sampled_from(["rubric", "truncated"]), anything),
        "actor": anything,
        "x": anything,
    },
)
answers = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["observation", "error", "state"]) | anything,
        "data": anything
        | st.fixed_dictionaries(
            {},
            optional={
                "observation": shown | anything,
                "reward": anything,
                "done": anything,
                "metadata": anything,
                "code": anything,
                "message": anything,
            },
        ),
    },
)


@given(answers)
def test_any_answer_of_an_openenv_server(answer: dict[str, Any]) -> None:
    try:
        frame = read_object(json.dumps(answer))
        stepped = RemoteStepper()._went_on(_observation(_data("step", frame)), {})
    except EnvironmentFault:
        return
    observation = stepped.observation
    assert math.isfinite(observation.reward)
    assert isinstance(observation.done, bool)
    assert (observation.actor is None) is observation.done
    json.dumps(observation.to_json(), allow_nan=False)


@given(st.binary(max_size=50) | st.text(max_size=50).map(str.encode))
def test_any_bytes(text: bytes) -> None:
    try:
        assert isinstance(read_object(text), dict)
    except EnvironmentFault:
        pass


@given(st.randoms(use_true_random=False))
def test_what_is_drawn_by_a_schema_fits_the_model(rng: Any) -> None:
    Form.model_validate(random_json(Form.model_json_schema(), rng))
    for world in (TRADING, ORDERING):
        world.options_type.model_validate(random_json(world.options_type.model_json_schema(), rng))


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http:///", "file:///etc/passwd", "host:80"])
def test_what_is_no_address_is_refused(url: str) -> None:
    for use in (OpenEnvStepper, remote_world):
        with pytest.raises(ConfigurationError, match="is not a URL of a server"):
            use(url)
