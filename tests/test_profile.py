"""Worlds with step rewards, free text or an action by its schema play, are recorded and verified."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from spectator import catalog
from spectator.environments.conformance import ConformanceError, check_world
from spectator.environments.world import World
from spectator.episodes.replayer import verify
from spectator.episodes.single_agent import SingleAgent
from spectator.episodes.view import replay_state
from spectator.evaluation.figures import measures_of
from spectator.events import RecordedEvent
from spectator.observations import SCORE_AT_THE_END, Profile
from tests.episodes.harness import Played, drive
from tests.profiled_worlds import ESSAY, NAMES, ORDERING, TRADING, Trading

WORLDS = [TRADING, ESSAY, ORDERING]


@pytest.fixture(autouse=True)
def catalogued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds are in the catalogue."""
    for name in NAMES:
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.profiled_worlds:{name.upper()}")
    catalog.load_world.cache_clear()


def play(world: World, **options: Any) -> Played:
    return asyncio.run(drive(world, **options))


def rewards(played: Played) -> list[float]:
    return [one.event.data["reward"] for one in played.events if one.event.type == "step.taken"]


async def each(events: list[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
    for one in events:
        yield one


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_it_conforms(world: World) -> None:
    check_world(world)


def test_step_rewards_play_are_recorded_and_add_up() -> None:
    played = play(TRADING, rounds=4)
    assert rewards(played) == [0.1, -0.05, -0.3, -0.05]
    assert played.end["reason"] == "finished", played.end
    assert played.end["score"] == played.end["total_reward"] == sum(rewards(played))
    started = played.events[0].event.data
    assert started["profile"] == TRADING.profile.model_dump()
    shown = replay_state(played.events)["episode"]
    assert shown["total_reward"] == shown["score"] == sum(rewards(played))
    assert shown["profile"]["rewards"] == "step"


def test_every_step_shows_the_rewards_so_far() -> None:
    played = play(TRADING, rounds=4)
    totals = []
    for number, one in enumerate(played.events, 1):
        if one.event.type == "step.taken":
            totals.append(replay_state(played.events[:number])["episode"]["total_reward"])
    assert totals == pytest.approx([0.1, 0.05, -0.25, -0.3])


def test_an_episode_that_is_cut_short_has_no_score_but_its_rewards() -> None:
    played = play(dataclasses.replace(TRADING, step_cap=lambda options: 2), rounds=4)
    assert (played.end["reason"], played.end["score"]) == ("step_cap", None)
    assert played.end["total_reward"] == 0.1 + -0.05


def test_a_world_of_the_usual_profile_says_nothing_of_it() -> None:
    usual = dataclasses.replace(ESSAY, profile=SCORE_AT_THE_END)
    assert "profile" not in play(usual, rounds=1).events[0].event.data
    played = play(ESSAY, rounds=2)
    assert played.end["score"] == 1.0
    assert "total_reward" not in played.end
    assert "total_reward" not in replay_state(played.events)["episode"]


@pytest.mark.parametrize("world", [ESSAY, ORDERING], ids=lambda world: world.name)
def test_a_world_without_a_tool_list_plays(world: World) -> None:
    played = play(world, rounds=3)
    assert played.end["reason"] == "finished"
    decided = [one.event.data for one in played.events if one.event.type == "decision.made"]
    assert [one["legal"] for one in decided] == [[], [], []]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_record_verifies_and_a_changed_reward_does_not(world: World) -> None:
    events = play(world, rounds=3).events
    assert asyncio.run(verify(each(events))) == []
    changed = [
        RecordedEvent(dataclasses.replace(one.event, data={**one.event.data, "reward": 0.05}), one.text)
        if one.event.type == "step.taken" and one.event.turn == 2
        else one
        for one in events
    ]
    found = asyncio.run(verify(each(changed)))
    assert found and "reward" in found[0].message


def test_a_changed_total_is_found() -> None:
    events = play(TRADING, rounds=2).events
    end = events[-1].event
    for name in ("score", "total_reward"):
        forged = RecordedEvent(dataclasses.replace(end, data={**end.data, name: 9.0}), events[-1].text)
        found = asyncio.run(verify(each([*events[:-1], forged])))
        assert any("is recorded as 9.0" in one.message for one in found), (name, found)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (0.2, "the reward 0.2 is not from -0.3 to 0.1"),
        (-1.0, "the reward -1.0 is not from -0.3 to 0.1"),
        (float("nan"), "the reward nan is not a finite number"),
        (float("inf"), "the reward inf is not a finite number"),
        (None, "the reward None is not a finite number"),
        ("0.1", "the reward '0.1' is not a finite number"),
        (True, "the reward True is not a finite number"),
    ],
)
def test_a_reward_outside_the_profile_ends_the_episode(reward: Any, said: str) -> None:
    class Wrong(Trading):
        def reward(self, done: Any) -> float:
            return reward  # type: ignore[no-any-return]

    end = play(dataclasses.replace(TRADING, environment=Wrong), rounds=2).end
    assert (end["reason"], end["detail"]) == ("environment_error", said)
    assert end["failure_class"] == "env_infra"


def test_a_score_outside_the_profile_ends_the_episode() -> None:
    profile = TRADING.profile.model_copy(update={"score_min": -0.2})
    end = play(dataclasses.replace(TRADING, profile=profile), rounds=4).end
    assert end["reason"] == "environment_error"
    assert end["detail"].endswith("is not at least -0.2")


def test_a_reward_before_the_first_action_ends_the_episode() -> None:
    class Early(Trading):
        def reset(self, **begun: Any) -> Any:
            return dataclasses.replace(super().reset(**begun), reward=0.1)

    end = play(dataclasses.replace(TRADING, environment=Early), rounds=2).end
    assert end["detail"] == "gave the reward 0.1 before the first action"


def test_a_rewarded_refusal_ends_the_episode() -> None:
    class Paid(Trading):
        def step(self, action: Any) -> Any:
            answer = super().step({"tool": "neither"})
            return dataclasses.replace(answer, reward=0.1)

    end = play(dataclasses.replace(TRADING, environment=Paid), rounds=2).end
    assert end["detail"] == "refused an action by action.shape but rewarded it"


def test_a_list_of_tools_against_the_profile_ends_the_episode() -> None:
    class Listing(Trading):
        legal = Trading.legal

    wrong = dataclasses.replace(ESSAY, environment=Listing, actors=Listing.actors, events=TRADING.events)
    end = play(wrong, rounds=2).end
    assert end["detail"] == "lists legal actions, but the actions of its profile are text"


def test_the_conformance_kit_checks_the_declared_profile() -> None:
    with pytest.raises(ConformanceError, match="before the end"):
        check_world(dataclasses.replace(TRADING, profile=Profile(reward_min=-1, score_min=-9)))
    with pytest.raises(ConformanceError, match=r"the reward -0\.05 is not from 0 to 1"):
        check_world(dataclasses.replace(TRADING, profile=Profile(rewards="step")))
    with pytest.raises(ConformanceError, match="no action is legal"):
        check_world(dataclasses.replace(ESSAY, profile=SCORE_AT_THE_END))
    with pytest.raises(ConformanceError, match="lists legal actions"):
        check_world(
            dataclasses.replace(TRADING, profile=TRADING.profile.model_copy(update={"actions": "schema"}))
        )
    with pytest.raises(ConformanceError, match="not a str"):
        numbered = type("Number", (ESSAY.action_type,), {"__annotations__": {"said": int}, "said": ...})
        check_world(dataclasses.replace(ESSAY, action_type=numbered))


def test_a_profile_whose_bounds_are_upside_down_is_refused() -> None:
    with pytest.raises(ValidationError, match="reward_min 1 is above reward_max 0"):
        Profile(reward_min=1.0, reward_max=0.0)


def test_a_single_agent_gets_the_rewards_of_the_others_steps_too() -> None:
    agent = SingleAgent("trading")
    agent.reset(seed=1, options={"rounds": 4}, tell=True)
    first = agent.step({"tool": "buy"})
    second = agent.step({"tool": "sell"})
    assert [first.reward, second.reward] == pytest.approx([0.05, -0.35])
    assert second.done
    told = agent.take_recorded()
    ended = told.ended
    assert ended is not None
    taken = [fact.data["reward"] for _, facts in told.steps for fact in facts if fact.type == "step.taken"]
    assert taken == [0.1, -0.05, -0.3, -0.05]
    assert ended.score == ended.total_reward == sum(taken)
    assert agent.step({"tool": "buy"}).reward == 0.0


def test_a_single_agent_that_is_cut_short_keeps_the_rewards_of_its_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = dataclasses.replace(TRADING, step_cap=lambda options: 2)
    monkeypatch.setattr("tests.profiled_worlds.TRADING", short)
    catalog.load_world.cache_clear()
    agent = SingleAgent("trading")
    agent.reset(seed=1, options={"rounds": 4})
    cut = agent.step({"tool": "buy"})
    assert cut.done
    assert cut.reward == pytest.approx(0.05)
    ended = agent.take_recorded().ended
    assert ended is not None
    assert ended.total_reward == pytest.approx(0.05)
    catalog.load_world.cache_clear()


def test_a_score_that_is_no_share_is_measured_within_its_own_bounds() -> None:
    def score_of(world: World | None) -> Any:
        return next(one for one in measures_of(world) if one.name == "score")

    assert (score_of(None).unit, score_of(ESSAY).range) == ("share", (0.0, 1.0))
    assert (score_of(TRADING).unit, score_of(TRADING).range) == ("", (None, None))
    assert score_of(TRADING).shown(-0.3) == "-0.30"


def test_options_that_reward_otherwise_change_what_the_score_is() -> None:
    cricket = catalog.load_world("cricket")

    def unit(options: Mapping[str, Any]) -> str:
        return next(one for one in measures_of(cricket, options) if one.name == "score").unit

    assert unit({}) == unit({"reward": "score", "decisions": "ball"}) == "share"
    assert unit({"reward": "decision_value", "decisions": "ball"}) == ""
    assert unit({"reward": "decision_value", "decisions": "over"}) == ""
