"""Collecting episodes: every step kept, nothing lost, nothing credited to who did not earn it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.collector.collector import CollectedEpisode, collect_episode
from spectator.collector.records import EpisodeRecord, load_episodes_jsonl, save_episodes_jsonl
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.observations import Observation
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.policy import ScriptedPolicy
from tests.llm.brains import counter
from tests.profiled_worlds import TRADING

FALLBACK = InvalidAnswers(on_invalid="fallback")


def prompt_fn(messages: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(messages))


def counts(prompt: str, config: Any) -> str:
    return counter({"messages": json.loads(prompt)}).text


def counting(generate: Any = counts, *, turns: int = 4, **changes: Any) -> CollectedEpisode:
    settings: dict[str, Any] = {"options": {"turns": turns}, **changes}
    return collect_episode("counting", 7, None, None, prompt_fn, generate, **settings)


def test_an_episode_is_collected_step_by_step(tmp_path: Path) -> None:
    collected = counting()
    record = collected.record
    assert [step.action["text"] if "text" in step.action else step.action for step in record.steps]
    assert [step.step for step in record.steps] == [1, 2, 3, 4]
    assert all(step.parsed_ok and step.source == "model" for step in record.steps)
    assert [step.reward for step in record.steps] == [0.0, 0.0, 0.0, 1.0]
    assert (record.end_reason, record.terminated, record.truncated) == ("finished", True, False)
    assert (record.total_reward, record.model_reward, record.fallback_reward) == (1.0, 1.0, 0.0)
    assert [step.terminated for step in record.steps] == [False, False, False, True]
    save_episodes_jsonl([record], tmp_path / "e.jsonl")
    assert load_episodes_jsonl(tmp_path / "e.jsonl").episodes == [record]


def test_what_a_fallback_earns_is_never_the_completions(tmp_path: Path) -> None:
    record = counting(lambda prompt, config: "I would rather not say.", invalid=FALLBACK).record
    assert {step.source for step in record.steps} == {"fallback"}
    assert {step.failure_class for step in record.steps} == {"unparsable"}
    assert all(step.completion == "I would rather not say." and not step.parsed_ok for step in record.steps)
    assert record.model_reward == 0.0
    assert record.fallback_reward == record.total_reward == 1.0


def test_a_cap_is_a_truncation_and_no_end_of_the_world() -> None:
    record = counting(turns=9, max_steps=3).record
    assert (record.end_reason, record.terminated, record.truncated) == ("step_cap", False, True)
    assert [step.truncated for step in record.steps] == [False, False, True]
    assert record.total_reward is None, "its world rewards the end alone, which did not come"
    assert (record.model_reward, record.fallback_reward) == (None, None)
    assert [step.reward for step in record.steps] == [None, None, None]


def buys(prompt: str, config: Any) -> str:
    return json.dumps({"reason": "cheap", "tool": "buy", "arguments": {}})


def trading(**changes: Any) -> CollectedEpisode:
    """Trade with a market, which moves after each of the agent's orders and takes 0.05 of it."""
    return collect_episode("trading", 7, None, None, prompt_fn, buys, load=lambda name: TRADING, **changes)


def test_a_cap_in_a_world_that_rewards_its_steps_counts_for_what_was_earned() -> None:
    record = trading(max_steps=6, options={"rounds": 50}).record
    assert (record.end_reason, record.truncated) == ("step_cap", True)
    assert record.total_reward == record.model_reward == pytest.approx(3 * (0.1 - 0.05))


def test_what_others_move_brings_belongs_to_the_decision_before_it() -> None:
    """What the last move of another seat earned was nobody's, and no step was the last."""
    collected = trading(options={"rounds": 4})
    record = collected.record
    assert [step.reward for step in record.steps] == [pytest.approx(0.1 - 0.05)] * 2
    assert record.total_reward == pytest.approx(collected.events[-1].data["score"])
    assert [(step.done, step.terminated) for step in record.steps] == [(False, False), (True, True)]


def test_a_match_that_ends_with_an_opponents_move_is_worth_its_score() -> None:
    collected = collect_episode(
        "cricket",
        0,
        None,
        None,
        prompt_fn,
        lambda prompt, config: "",
        options={"max_overs": 1},
        invalid=FALLBACK,
    )
    record, score = collected.record, collected.events[-1].data["score"]
    assert record.total_reward == record.fallback_reward == pytest.approx(score) and score > 0.0
    assert record.steps[-1].done


class SeenEnvironment(ColliderEnvironment):
    """Keeps its last observation."""

    seen: Observation

    def reset(self, **given: Any) -> Observation:
        self.seen = super().reset(**given)
        return self.seen

    def step(self, action: Mapping[str, Any]) -> Observation:
        self.seen = super().step(action)
        return self.seen


def searched(max_steps: int | None) -> EpisodeRecord:
    physicist = load_world("collider").captains["reference"].build(1)
    environment = SeenEnvironment()

    def acts(prompt: str, config: Any) -> str:
        assert isinstance(physicist, ScriptedPolicy)
        return json.dumps({"reason": "", **physicist.choose(environment.seen).action})

    return collect_episode(environment, 3, "mixed", "easy", prompt_fn, acts, max_steps=max_steps).record


def test_a_capped_search_has_the_rewards_of_its_stages() -> None:
    """It had no reward at all: its world pays the score at the end alone."""
    capped = searched(12)
    assert (capped.end_reason, capped.truncated, len(capped.steps)) == ("step_cap", True, 12)
    rewards = [step.reward or 0.0 for step in capped.steps]
    assert {round(reward, 9) for reward in rewards} == {0.0, 0.03}
    assert capped.total_reward == pytest.approx(sum(rewards)) and sum(rewards) > 0.0
    whole = searched(None)
    assert whole.end_reason == "finished" and whole.total_reward == pytest.approx(whole.terminal_reward)
    assert [step.reward for step in whole.steps[:12]] == rewards, "and the end pays the rest of the score"


def test_an_environment_a_world_or_a_name_is_played(tmp_path: Path) -> None:
    environment = CountingEnvironment()
    given: list[Any] = ["counting", load_world("counting"), environment]
    played = [collect_episode(env, 7, None, None, prompt_fn, counts, options={"turns": 2}) for env in given]
    assert {one.record.total_reward for one in played} == {1.0}
    assert environment.state["episode_id"] == played[2].record.episode_id
    with pytest.raises(ConfigurationError, match="OddEnvironment is not the environment of a world"):
        collect_episode(OddEnvironment(), 7, None, None, prompt_fn, counts)


def test_what_was_collected_is_saved_and_loaded_by_index(tmp_path: Path) -> None:
    played = [counting(), counting()]
    assert save_episodes_jsonl(played, tmp_path / "e.jsonl") == 2
    loaded = load_episodes_jsonl(tmp_path / "e.jsonl")
    assert [loaded[0], loaded[-1]] == [one.record for one in played]


class OddEnvironment:
    """An environment that belongs to no world."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("it is not used")


class BrokenEnvironment(CountingEnvironment):
    """Raises on its third step."""

    def step(self, action: Mapping[str, Any]) -> Any:
        self._steps = getattr(self, "_steps", 0) + 1
        if self._steps == 3:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


def broken(name: str) -> World:
    return replace(load_world(name), environment=BrokenEnvironment)


def test_an_environment_that_fails_keeps_the_steps_before() -> None:
    record = counting(load=broken).record
    assert (record.end_reason, record.failure_class) == ("environment_error", "env_infra")
    assert len(record.steps) == 2
    assert record.total_reward is None, "no verdict is no reward of 0"


def test_a_model_that_fails_is_replaced_and_named() -> None:
    def fails(prompt: str, config: Any) -> str:
        raise RuntimeError("out of memory")

    record = counting(fails, invalid=FALLBACK).record
    assert {step.failure_class for step in record.steps} == {"model_infra"}
    assert {step.source for step in record.steps} == {"fallback"}


def test_config_and_prompt_reach_the_model() -> None:
    seen: list[tuple[str, Any]] = []

    def generate(prompt: str, config: Any) -> str:
        seen.append((prompt, config))
        return counts(prompt, config)

    record = counting(generate, config={"temperature": 0.7}).record
    assert [prompt for prompt, _ in seen] == [step.prompt for step in record.steps]
    assert all(config == {"temperature": 0.7} for _, config in seen)


def test_the_same_seed_and_model_collect_the_same() -> None:
    def steps(collected: CollectedEpisode) -> list[Any]:
        return [step.model_dump(exclude={"latency_s"}) for step in collected.record.steps]

    assert steps(counting()) == steps(counting())


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "3", True])
def test_a_cap_of_nothing_is_refused(wrong: int) -> None:
    with pytest.raises(ConfigurationError, match="max_steps"):
        counting(max_steps=wrong)


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(InvalidRequest, match=re.escape("options.difficulty")):
        collect_episode("collider", 1, None, "impossible", prompt_fn, counts)


def test_a_collider_campaign_is_collected_with_its_truth_apart() -> None:
    def declines(prompt: str, config: Any) -> str:
        return json.dumps({"tool": "conclude_null", "arguments": {}, "reason": "nothing"})

    collected = collect_episode("collider", 3, "mixed", "easy", prompt_fn, declines)
    record = collected.record
    assert (record.scenario, record.difficulty, record.end_reason) == ("mixed", "easy", "finished")
    assert record.discovered is not None and record.correct_mass is not None
    assert record.terminal_reward == pytest.approx(record.total_reward)
    assert {"resource_usage", "cumulative_significance"} <= set(record.steps[0].observation_summary)
    assert "particles" in collected.truth
    assert "particles" not in record.model_dump_json()
