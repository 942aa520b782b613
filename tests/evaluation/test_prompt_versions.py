"""One model in several rows, by the version of its prompt."""

from __future__ import annotations

import pytest

from spectator.errors import InvalidRequest
from spectator.evaluation.prompt_versions import knowing_versions, with_every_version
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.policies.model_presets import ModelBuild
from tests.evaluation.test_estimate import with_models


def test_every_model_plays_with_each_version_and_others_play_once() -> None:
    world = with_models("cricket", mine={}, other={"prompt": "short"})
    names = with_every_version(("llm:mine", "heuristic", "llm:other"), world)
    assert names == ("llm:mine", "llm:mine@short", "heuristic", "llm:other", "llm:other@full")
    assert with_every_version(names, world) == names
    load = knowing_versions(lambda name: world, names)
    schedule = plan_evaluation(EvaluationRequest("cricket", names, matches=2), load=load)
    assert len(schedule.matches) == 5 * 4
    build = schedule.world.opponents["llm:mine@short"].build
    assert isinstance(build, ModelBuild) and build.captain.prompt == "short"
    own = world.captains["llm:mine"].build
    assert isinstance(own, ModelBuild)
    assert build.endpoints is own.endpoints and build.name == own.name, "they share its limits"
    presets = [schedule.world.captains[name] for name in ("llm:mine", "llm:mine@short")]
    assert len({one.fingerprint for one in presets}) == len({one.label for one in presets}) == 2


@pytest.mark.parametrize("name", ["llm:mine@latin", "heuristic@short", "llm:missing@short"])
def test_an_unknown_version_or_captain_is_rejected_by_name(name: str) -> None:
    world = with_models("cricket", mine={})
    load = knowing_versions(lambda _: world, (name,))
    with pytest.raises(InvalidRequest, match="captains: "):
        plan_evaluation(EvaluationRequest("cricket", (name, "random"), matches=2), load=load)
