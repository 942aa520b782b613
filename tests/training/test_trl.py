"""The environment class for TRL: methods with schemas, rewards. `grpo_with_trl.py` trains with it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from spectator.errors import InvalidRequest
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.text_episode import CALL_A_TOOL
from spectator.training.trl import (
    WorldEnvironment,
    part_reward,
    score_reward,
    value_reward,
    world_environment,
)


def tools(environment: type[WorldEnvironment]) -> dict[str, Any]:
    """The methods that TRL takes for tools."""
    members = inspect.getmembers(environment, predicate=inspect.isfunction)
    return {name: one for name, one in members if name[0] != "_" and name not in ("reset", "get_reward")}


def test_every_tool_of_a_match_is_a_method_with_types_and_a_docstring() -> None:
    found = tools(world_environment("cricket"))
    assert {"call_toss", "select_bowler", "bowl_delivery", "play_delivery", "set_field"} <= set(found)
    assert "bowl_over" not in found
    assert "bowl_over" in tools(world_environment("cricket", {"decisions": "over"}))
    for method in found.values():
        signature = inspect.signature(method)
        assert signature.return_annotation is str
        told = [line for line in method.__doc__.splitlines() if line.startswith("    ")]
        for name, parameter in list(signature.parameters.items())[1:]:
            assert parameter.annotation is not inspect.Parameter.empty
            assert sum(line.startswith(f"    {name}: ") for line in told) == 1


def test_an_episode_is_played_by_its_methods_and_its_reward_is_the_score() -> None:
    environment: Any = world_environment("counting", {"turns": 2})()
    prompt = environment.reset(seed=1, prompt="not an option")
    assert "Say the next integer" in prompt
    assert environment.say("ACTION: 1") == "Changed:\nturn: 1\nnext: 2"
    assert (environment.value, environment.penalised, environment.finished) == (0.0, True, False)
    assert "text: must match" in environment.say(text="two")
    environment.say(text="ACTION: 2")
    assert (environment.get_reward(), environment.finished) == (1.0, True)
    with pytest.raises(ValueError, match="over"):
        environment.say(text="ACTION: 3")
    with pytest.raises(TypeError):
        environment.say(nonsense=1)


def test_columns_of_the_data_set_are_options_and_seeds() -> None:
    environment: Any = world_environment("cricket")()
    one = environment.reset(seed=3, max_overs=1)
    assert "1 overs a side" in one
    assert environment.reset(seed=3, max_overs=1) == one
    assert environment.reset(seed=4, max_overs=1) != one
    assert "Changed:" in environment.call_toss() or "Refused" in environment.call_toss()


def test_a_rollout_that_trl_ends_early_has_ended_at_an_answer_that_was_not_an_action() -> None:
    kind = world_environment("counting", {"turns": 2})
    cut: Any
    whole: Any
    cut, whole = kind(), kind()
    for one in (cut, whole):
        one.reset(seed=1)
        one.say(text="ACTION: 1")
    whole.say(text="ACTION: 2")
    for _ in range(2):  # before and after the environment's own reward
        assert value_reward([cut, whole], prompts=[]) == [0.0, 1.0]
        assert score_reward([cut, whole]) == [None, 1.0]
        assert part_reward("said")([cut, whole]) == [0.0, 1.0]
        assert part_reward("absent")([cut, whole]) == [None, None]
        assert [one.penalised for one in (cut, whole)] == [True, False]
        assert [one.get_reward() for one in (cut, whole)] == [0.0, 1.0]
    with pytest.raises(ValueError, match="over"):
        cut.say("ACTION: 2")


@pytest.mark.parametrize(("rule", "reward"), [("penalize", -0.5), ("mask", None), ("end", None)])
def test_the_environment_takes_the_rule_for_answers_that_are_not_actions(
    rule: Any, reward: float | None
) -> None:
    invalid = InvalidAnswers(on_invalid=rule, invalid_reward=-0.5, invalid_retries=2)
    environment: Any = world_environment("counting", {"turns": 2}, invalid=invalid)()
    environment.reset(seed=1)
    for _ in range(3):
        assert environment.say(text=5).endswith(CALL_A_TOOL)
    with pytest.raises(ValueError, match="over"):
        environment.say(text="ACTION: 1")
    assert value_reward([environment]) == part_reward("correct")([environment]) == [reward]
    assert (environment.get_reward(), environment.penalised) == (reward, rule == "penalize")
    with pytest.raises(InvalidRequest, match="on_invalid: must be penalize, mask or end"):
        world_environment("counting", invalid=InvalidAnswers(on_invalid="fallback"))


def test_an_unknown_world_or_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="nonsense"):
        world_environment("nonsense")
    with pytest.raises(InvalidRequest, match="turnz"):
        world_environment("counting", {"turnz": 1})
