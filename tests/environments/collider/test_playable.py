"""A language model can play: the prompt has all it needs, and its tools have schemas."""

from __future__ import annotations

import json

import jsonschema

from spectator.environments.collider.actions import TOOLS, ColliderObservation
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.world import WORLD
from spectator.policies.prompts import tools
from tests.environments.collider.campaigns import opened


def test_the_briefing_names_every_action_that_needs_explaining_and_its_units() -> None:
    task = WORLD.briefing.task
    for tool in set(TOOLS) - {"combine_channels", "request_theory_review"}:
        assert tool in task, tool
    for unit in ("MUSD", "fb^-1", "days", "GeV", "Hz"):
        assert unit in task


def test_every_field_of_the_observation_has_a_legend() -> None:
    for name, field in ColliderObservation.model_fields.items():
        assert field.description, name


def test_what_the_reference_sends_fits_the_schemas_that_are_offered() -> None:
    environment, observation = opened(2, difficulty="easy")
    policy = ReferencePhysicist()
    while not observation.done:
        action = policy.choose(observation).action
        offered = {each["tool"]: each["arguments"] for each in observation.legal_actions}
        jsonschema.validate(action["arguments"], offered[action["tool"]])
        functions = tools(observation.legal_actions)
        assert all(len(each["function"]["description"]) > 10 for each in functions)
        assert len(json.dumps(observation.to_json())) < 60_000
        observation = environment.step(action)
