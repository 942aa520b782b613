"""The Gymnasium environments: the checker passes, whole episodes are played, cuts are told from ends."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from spectator.catalog import load_world
from spectator.errors import InvalidRequest
from spectator.policies.policy import ScriptedPolicy
from spectator.training.gymnasium_env import SpectatorEnv, vector_env


def say(number: int) -> str:
    return json.dumps({"tool": "say", "arguments": {"text": f"ACTION: {number}"}})


@pytest.mark.parametrize(("name", "options"), [("counting", {}), ("cricket", {"max_overs": 1})])
def test_the_checker_passes(name: str, options: dict[str, Any]) -> None:
    env = gymnasium.make(f"spectator/{name}-v1", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_whole_match_is_played_and_its_reward_is_its_value() -> None:
    env = gymnasium.make("spectator/cricket-v1", max_overs=1)
    world = load_world("cricket")
    policy = world.captains["heuristic"].build(1)
    assert isinstance(policy, ScriptedPolicy)
    text, info = env.reset(seed=4)
    assert world.task in text
    inner, total, over = env.unwrapped, 0.0, False
    assert isinstance(inner, SpectatorEnv)
    while not over:
        action = policy.choose(inner.observation).action
        assert action["tool"] in info["legal"]
        text, reward, terminated, truncated, info = env.step(json.dumps(action))
        assert "refused" not in text.lower()
        total += float(reward)
        over = terminated or truncated
    assert terminated and not truncated
    assert total == info["value"] == info["rubric"]["score"]
    assert info["legal"] == []
    env.close()


def test_what_names_no_action_is_refused_and_ends_the_episode_with_the_penalty() -> None:
    env = SpectatorEnv("counting", turns=2)
    env.reset(seed=1)
    env.step(say(1))
    text, reward, terminated, truncated, info = env.step("I do not know.")
    assert text.startswith("That cannot be carried out: the answer names no action")
    assert (reward, terminated, truncated, info["value"]) == (0.0, False, False, 0.5)
    _, reward, terminated, truncated, info = env.step("")
    assert (reward, terminated, truncated, info["value"]) == (0.0, True, False, 0.0)
    assert (info["penalised"], info["own_share"], info["legal"]) == (True, 0.5, [])


def test_seeds_decide() -> None:
    env = SpectatorEnv("cricket", max_overs=1)
    one, other = env.reset(seed=1)[0], env.reset(seed=2)[0]
    assert one != other
    assert env.reset(seed=1)[0] == one
    chosen = env.reset(options={"seed": 7})[0]
    assert env.reset(seed=9, options={"seed": 7})[0] == chosen


def test_several_are_stepped_together() -> None:
    envs = gymnasium.make_vec("spectator/counting-v1", num_envs=3, turns=2)
    texts, _ = envs.reset(seed=1)
    assert len(texts) == 3
    envs.step((say(1), say(1), say(7)))
    _, rewards, terminated, truncated, _ = envs.step((say(2), say(7), say(2)))
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert terminated.all() and not truncated.any()
    envs.close()
    two = vector_env(2, "counting", turns=1)
    assert two.num_envs == 2
    two.close()


def test_an_unknown_option_or_world_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="nonsense"):
        SpectatorEnv("nonsense")
    with pytest.raises(InvalidRequest, match="turnz"):
        SpectatorEnv("counting", turnz=1).reset()


def test_it_renders_what_was_shown() -> None:
    env = SpectatorEnv("counting", render_mode="ansi", turns=1)
    text, _ = env.reset(seed=1)
    assert env.render() == text
    assert SpectatorEnv("counting").metadata["render_modes"] == ["ansi"]
