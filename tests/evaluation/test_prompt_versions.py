"""One model in several rows, by the version of its prompt."""

from __future__ import annotations

import pytest

from spectator.errors import InvalidRequest
from spectator.evaluation.asking import knowing_versions, versions_of, with_every_version
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import ModelBuild
from tests.evaluation.test_estimate import with_models

SETTING = "style"
"""Varied in place of the prompt, because its values are known here."""


def test_every_model_plays_with_each_version_and_others_play_once() -> None:
    world = with_models("cricket", mine={}, other={"style": "xml"})
    names = with_every_version(("llm:mine", "heuristic", "llm:other"), world, SETTING)
    assert names == (
        "llm:mine", "llm:mine@json", "llm:mine@xml", "heuristic",
        "llm:other", "llm:other@tools", "llm:other@json",
    )  # fmt: skip
    assert with_every_version(names, world, SETTING) == names
    load = knowing_versions(lambda name: world, names, SETTING)
    schedule = plan_evaluation(EvaluationRequest("cricket", names, matches=2), load=load)
    assert len(schedule.matches) == 7 * 6
    build = schedule.world.opponents["llm:mine@json"].build
    assert isinstance(build, ModelBuild) and build.captain.style == "json"
    own = world.captains["llm:mine"].build
    assert isinstance(own, ModelBuild)
    assert build.endpoints is own.endpoints and build.name == own.name, "they share its limits"
    presets = [schedule.world.captains[name] for name in ("llm:mine", "llm:mine@json", "llm:mine@xml")]
    assert len({one.fingerprint for one in presets}) == len({one.label for one in presets}) == 3


@pytest.mark.parametrize("name", ["llm:mine@latin", "heuristic@json", "llm:nobody@json"])
def test_an_unknown_version_or_captain_is_rejected_by_name(name: str) -> None:
    world = with_models("cricket", mine={})
    load = knowing_versions(lambda _: world, (name,), SETTING)
    with pytest.raises(InvalidRequest, match="captains: "):
        plan_evaluation(EvaluationRequest("cricket", (name, "random"), matches=2), load=load)


def test_all_prompts_need_a_choice_of_prompts() -> None:
    world = with_models("counting", mine={})
    assert versions_of("label") == () and versions_of("no such setting") == ()
    with pytest.raises(InvalidRequest, match=r"prompts: .* only one prompt"):
        with_every_version(("llm:mine", "random"), world, "label")
    if "prompt" in ModelCaptain.model_fields:
        names = with_every_version(("llm:mine", "random"), world)
        assert len(names) == 1 + len(versions_of())
