"""A language model can play: the prompt has all it needs, and its tools have schemas."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema
import pytest

from spectator.environments.collider.actions import TOOLS, ColliderObservation
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.world import WORLD
from spectator.policies.action_catalogue import ActionCatalogue
from spectator.policies.short_prompts import brief_actions, stepped_actions
from tests.environments.collider.campaigns import Call, one_run, opened


def test_the_briefing_names_every_action_that_needs_explaining_and_its_units() -> None:
    task = WORLD.briefing.task
    for tool in set(TOOLS) - {"request_theory_review"}:
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
        functions, _ = ActionCatalogue(observation.legal_actions).tools()
        assert all(len(each["function"]["description"]) > 10 for each in functions)
        assert len(json.dumps(observation.to_json())) < 60_000
        observation = environment.step(action)


def _chosen(rule: Mapping[str, Any], draw: random.Random) -> Any:
    """A value out of the choices of a small model."""
    if choices := rule.get("enum"):
        return draw.choice(choices)
    if properties := rule.get("properties"):
        some = [name for name in properties if draw.random() < 0.6]
        least = [name for name in properties if name in rule.get("required", ())]
        kept = dict.fromkeys([*least, *some]) or [next(iter(properties))] * rule.get("minProperties", 0)
        return {name: _chosen(properties[name], draw) for name in kept}
    assert rule["type"] in ("boolean", "object"), rule
    return draw.random() < 0.5 if rule["type"] == "boolean" else {}


COMBINED = {("subtract_background", "redundant")}
"""What the rules of single arguments cannot say: a function that was fitted in one of two channels."""


@pytest.mark.parametrize("scenario", ["mixed", "two_peaks", "open_data_dimuon", "open_data_4l"])
def test_what_a_small_model_can_choose_is_carried_out(scenario: str) -> None:
    seen, ended = set[str](), 0
    for seed in range(6):
        draw = random.Random(seed)
        environment, observation = opened(seed, scenario=scenario)
        while not observation.done:
            legal = stepped_actions(brief_actions(observation.legal_actions))
            early = [one for one in legal if one["tool"] not in ENDS or draw.random() < 0.08]
            action = draw.choice(early or legal)
            call = {"tool": action["tool"], "arguments": _chosen(action["arguments"], draw)}
            observation = environment.step(call)
            refused = observation.refused
            assert refused is None or (call["tool"], refused.rule) in COMBINED, (seed, call, refused)
            seen.add(action["tool"])
        ended += environment.state["result"] != "Ended without a conclusion"
    assert ended and len(seen) > 10


ENDS = ("freeze_selection", "conclude_null", "submit_discovery_claim")


def offered(environment: ColliderEnvironment, calls: Sequence[Call] = ()) -> dict[str, Any]:
    """Rules of the arguments on offer after some calls."""
    for tool, arguments in calls:
        observation = environment.step({"tool": tool, "arguments": arguments})
        assert observation.refused is None, observation.refused
    return {one["tool"]: one["arguments"].get("properties", {}) for one in observation.legal_actions}


def test_what_is_certain_to_be_rejected_is_not_on_offer() -> None:
    environment, observation = opened(1)
    task, channel = observation.content["task"], "diphoton"
    beams = [beam["sqrt_s_tev"] for beam in task["beams"]]
    run = one_run(observation)
    ready = offered(environment, run[:2])
    assert ready["configure_beam"]["sqrt_s_tev"]["enum"] == [beam for beam in beams if beam != 13.0]
    assert 0 < ready["allocate_luminosity"]["luminosity_fb"]["maximum"] < task["luminosity_fb"]
    assert "collect_collisions" not in ready and "calibrate_detector" not in ready
    assert "build_invariant_mass" not in ready
    taken = offered(environment, [*run[2:], ("select_channel", {"channel": channel})])
    assert "collect_collisions" not in taken
    assert channel not in taken["select_channel"]["channel"]["enum"]
    fitted = offered(environment, [("subtract_background", {"channel": channel, "function": "dijet"})])
    assert "dijet" not in fitted["subtract_background"]["function"]["enum"]
    names = taken["calibrate_detector"]["candle"]["enum"]
    calibrated = offered(environment, [("calibrate_detector", {"candle": name}) for name in names])
    assert "calibrate_detector" not in calibrated
    open_box = offered(environment, [("freeze_selection", {}), ("unblind", {"channel": channel})])
    assert not {"freeze_selection", "unblind", "cross_check", "submit_discovery_claim"} & open_box.keys()
    low, high = task["search_window_gev"]
    mass = open_box["set_limit"]["mass_gev"]
    assert (mass["minimum"], mass["maximum"]) == (low, high)
    scanned = offered(environment, [("scan_bump", {"channel": channel})])
    assert "scan_bump" not in scanned
    here = {"channel": channel, "mass_gev": scanned["fit_resonance"]["mass_gev"]["examples"][0]}
    limited = offered(environment, [("set_limit", here)])
    assert here["mass_gev"] not in limited["set_limit"]["mass_gev"]["examples"]
    claimable = offered(environment, [("estimate_significance", here), ("fit_resonance", here)])
    assert claimable["submit_discovery_claim"]["channel"]["enum"] == [channel]


def test_a_run_that_money_or_time_does_not_allow_is_not_on_offer() -> None:
    environment, observation = opened(1)
    rules = offered(environment, one_run(observation)[:2])
    most = rules["allocate_luminosity"]["luminosity_fb"]["maximum"]
    spent = offered(
        environment, [("allocate_luminosity", {"luminosity_fb": most}), ("collect_collisions", {})]
    )
    assert not {"collect_collisions", "select_channel"} & spent.keys() and "conclude_null" in spent
    left = spent.get("allocate_luminosity", {"luminosity_fb": {"maximum": 0.0}})
    assert left["luminosity_fb"]["maximum"] < most / 100
