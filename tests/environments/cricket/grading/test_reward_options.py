"""The reward that is asked for: its profile, the parts so far on every step, and matches cut short."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from server.openenv.worlds import WireWorlds
from spectator.catalog import load_world
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import (
    MAX_CONSECUTIVE_REJECTIONS,
    CricketEnvironment,
    step_cap,
)
from spectator.environments.cricket.grading import expected_share
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.episodes.single_agent import SingleAgent
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.observations import Observation
from spectator.steppers import remote_world
from tests.environments.cricket.playing import advance, begin, captain, play, tools_of


def test_the_result_alone_is_a_reward() -> None:
    for seed in range(6):
        told = play(seed, reward="result", max_overs=2)
        winner = told.of("match_ended")[0]["winner"]
        assert told.last.reward == (0.5 if winner is None else float(winner == "home"))
        assert {seen.reward for seen in told.observations[:-1]} == {0.0}


@pytest.mark.parametrize("reward", ["score", "result", "decision_value"])
def test_every_step_holds_the_parts_so_far_and_the_last_is_the_reward(reward: str) -> None:
    told = play(9, "tactician", "aggressive", reward=reward, decisions="over")
    names = [set(seen.metadata["rubric"]) for seen in told.observations]
    assert all(found == names[0] for found in names) and "score" in names[0]
    total = sum(seen.reward for seen in told.observations)
    assert total == pytest.approx(told.last.metadata["rubric"]["score"], abs=1e-5)


def test_the_result_so_far_follows_the_match() -> None:
    """It is nearer to the end when the end is near: the squared error falls over the match."""
    errors: dict[str, float] = dict.fromkeys(("start", "late"), 0.0)
    for seed in range(40):
        told = play(seed, max_overs=5)
        end = told.last.metadata["rubric"]["result"]
        seen = [one.metadata["rubric"]["result"] for one in told.observations]
        errors["start"] += (seen[0] - end) ** 2
        errors["late"] += (seen[int(0.95 * len(seen))] - end) ** 2
        assert all(
            0.0 <= part <= 1.0 for one in told.observations for part in one.metadata["rubric"].values()
        )
    assert errors["late"] < 0.5 * errors["start"]


def test_the_profile_follows_the_option_on_every_way_in() -> None:
    def plan(**options: Any) -> Any:
        return plan_episode(EpisodeRequest("cricket", pace=Pace.MAX, options=options), draw_seed=lambda: 1)

    assert plan().profile == plan(reward="result").profile == WORLD.profile
    by_ball, by_over = plan(reward="decision_value"), plan(reward="decision_value", decisions="over")
    assert (by_ball.profile.rewards, by_ball.profile.reward_min) == ("step", -1.0)
    assert by_over.profile.rewards == "step" and by_over.profile.reward_min is None
    assert by_ball.started().profile == by_ball.profile.recorded and plan().started().profile is None
    with pytest.raises(InvalidRequest, match="reward"):
        plan(reward="runs")


def test_a_single_agent_is_told_the_profile_and_its_rewards_sum_to_the_decision_value() -> None:
    agent = SingleAgent("cricket")
    seen = agent.reset(seed=5, options={"reward": "decision_value", "decisions": "over", "max_overs": 2})
    assert seen.metadata["profile"]["rewards"] == "step"
    total, policy = 0.0, captain("aggressive", 3)
    while not seen.done:
        seen = agent.step(policy.choose(seen).action)
        total += seen.reward
    assert total == pytest.approx(seen.metadata["rubric"]["decision_value"], abs=1e-5) != 0.0
    agent.close()


def test_the_opponents_rating_enters_what_is_expected() -> None:
    assert expected_share(0.0) == 0.5 and expected_share(200.0) < 0.25
    strong, even = play(4, opponent_rating=200.0), play(4)
    assert strong.last.metadata["rubric"]["quality"] > even.last.metadata["rubric"]["quality"]
    assert strong.last.metadata["rubric"]["result"] == even.last.metadata["rubric"]["result"]
    assert play(4, opponent_rating=200.0).observations[0].metadata["rubric"]["result"] < 0.25
    plan = plan_episode(EpisodeRequest("cricket", opponent="random", seed=1), draw_seed=lambda: 1)
    assert plan.options["opponent_rating"] < 0.0
    asked = EpisodeRequest("cricket", opponent="random", seed=1, options={"opponent_rating": 7.0})
    assert plan_episode(asked, draw_seed=lambda: 1).options["opponent_rating"] == 7.0


def levels(plan: float, aggression: float, shot: str | None) -> float:
    """Coherence of a side that declared ``plan`` for all phases and bats like this."""
    usual = captain("heuristic", 2)
    phases = ("powerplay", "middle", "death")

    def choose(seen: Observation) -> Mapping[str, Any]:
        tools, own = tools_of(seen), seen.content["you"]
        if "set_match_plan" in tools:
            return {"tool": "set_match_plan", "arguments": {f"batting_{part}": plan for part in phases}}
        if "set_strategy" in tools and own["aggression"] != aggression:
            return {"tool": "set_strategy", "arguments": {"aggression": aggression}}
        if "plan_shot" in tools and shot is not None and own["shot"] is None:
            return {"tool": "plan_shot", "arguments": {"shot": shot}}
        return {"tool": tools[0]} if tools[0] == "play_delivery" else usual.choose(seen).action

    return float(play(2, choose, max_overs=5).last.metadata["rubric"]["plan_kept"])


def test_a_slog_is_not_coherent_with_a_plan_to_block() -> None:
    assert levels(0.2, 0.2, None) == 1.0
    assert levels(0.2, 0.2, "slog") < 0.85
    assert levels(0.2, 0.2, "defend") > levels(0.2, 0.2, "slog")


def test_an_attacking_captain_is_not_taxed_for_attacking() -> None:
    assert levels(0.8, 0.8, None) == 1.0


def test_fields_and_strokes_can_be_set_once_a_ball_and_are_charged_like_other_calls() -> None:
    environment, observation = begin(3, start="defend", max_overs=5)
    observation = advance(environment, observation, lambda seen: seen.content["phase"] == "bowl")
    calls = 0
    while observation.content["score"]["balls"] < 6:
        if "set_field" in tools_of(observation):
            preset = "attacking" if observation.content["field"]["preset"] == "standard" else "standard"
            observation = environment.step({"tool": "set_field", "arguments": {"preset": preset}})
            assert observation.refused is None and "set_field" not in tools_of(observation)
            again = environment.step({"tool": "set_field", "arguments": {}})
            assert again.refused is not None and again.refused.rule == "tool.illegal"
            calls += 1
        if "set_bowling_strategy" in tools_of(observation) and observation.content["score"]["balls"] < 3:
            observation = environment.step({"tool": "set_bowling_strategy", "arguments": {"attack": 0.5}})
            calls += 1
        observation = environment.step({"tool": tools_of(observation)[0]})
        observation = advance(
            environment, observation, lambda seen: seen.content["phase"] in ("bowl", "bowler")
        )
        if observation.content["phase"] == "bowler":
            break
    game = environment._game
    assert game is not None
    assert game.captains["home"].charged == max(0, calls - 6) > 0


NONSENSE = {"tool": "no_such_tool"}


def test_refusals_that_go_on_end_the_match_in_the_bare_class() -> None:
    environment, observation = begin(1)
    for _ in range(MAX_CONSECUTIVE_REJECTIONS - 1):
        observation = environment.step(NONSENSE)
        assert observation.refused is not None and not observation.done
    observation = environment.step(NONSENSE)
    assert observation.done and observation.refused is None and observation.reward == 0.0
    assert "in a row" in observation.metadata["truncated"]
    assert "score" in observation.metadata["rubric"], "a cut match has a value"
    late = environment.step(NONSENSE)
    assert late.done and late.refused is not None and late.refused.rule == "episode.over"
    assert environment.state["done"] and environment.state["result"] is None
    twin = CricketEnvironment()
    assert twin.restore(environment.snapshot()).done


def test_one_legal_call_in_between_starts_the_count_again() -> None:
    environment, observation = begin(1, max_overs=1)
    for _ in range(3):
        for _ in range(MAX_CONSECUTIVE_REJECTIONS - 1):
            observation = environment.step(NONSENSE)
        observation = environment.step({"tool": tools_of(observation)[0]})
        assert observation.refused is None and not observation.done


def test_the_bare_class_keeps_the_step_cap() -> None:
    environment, observation = begin(1, max_overs=1)
    cap = step_cap({"max_overs": 1})
    snapshot = json.loads(environment.snapshot())
    snapshot["steps"] = cap - 1
    observation = environment.restore(json.dumps(snapshot).encode())
    observation = environment.step(NONSENSE)
    assert not observation.done, "the driver's cap comes first"
    observation = environment.step({"tool": tools_of(observation)[0]})
    assert observation.done and str(cap) in observation.metadata["truncated"]


def test_a_single_agent_that_sends_nonsense_is_cut_short() -> None:
    agent = SingleAgent("cricket")
    seen = agent.reset(seed=5, tell=True)
    for _ in range(MAX_CONSECUTIVE_REJECTIONS):
        seen = agent.step(NONSENSE)
    assert seen.done and "truncated" in seen.metadata
    told = agent.take_recorded()
    assert told.ended is not None and told.ended.reason == "step_cap" and told.ended.truncated
    agent.close()


def test_validity_falls_with_every_refusal_and_never_runs_out() -> None:
    environment, _ = begin(1)
    found = [environment.step(NONSENSE).metadata["rubric"]["clean_calls"] for _ in range(60)]
    assert all(later < earlier for earlier, later in pairwise(found)) and found[-1] > 0.0


def test_the_world_in_the_catalogue_is_the_one_that_is_played() -> None:
    assert load_world("cricket").profiles == WORLD.profiles


def test_profiles_that_options_change_travel_to_clients_of_the_server() -> None:
    schema = asyncio.run(WireWorlds().get("cricket")).schemas().action
    told = remote_world._profiles(schema)
    assert [options for options, _ in told] == [dict(options) for options, _ in WORLD.profiles]
    by_step = [profile for options, profile in told if "reward" in options]
    assert by_step and all(one.rewards == "step" and one.reward_min is None for one in by_step)
    assert schema["x-profile"]["rewards"] == "end"


@pytest.mark.parametrize("told", [[{"options": {}}], [7], 7, [{"options": {}, "profile": {"rewards": "x"}}]])
def test_profiles_that_cannot_be_read_are_refused(told: Any) -> None:
    with pytest.raises(ConfigurationError, match="x-profiles"):
        remote_world._profiles({"x-profiles": told})
