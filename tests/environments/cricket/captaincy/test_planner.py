"""The planner: fair, sensible, and better than the percentage captain; the random captain draws arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.captains import RandomCaptain
from spectator.environments.cricket.captaincy.lookahead import situation_of
from spectator.environments.cricket.captaincy.planner import PlannerCaptain
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent
from spectator.environments.cricket.match.field import standard_field
from spectator.observations import Observation
from tests.environments.cricket.playing import begin, captain, play
from tools.cricket_ladder import contest, scripted
from tools.cricket_tools import value_of


def test_it_wins() -> None:
    """73 % of five-over matches over 150 pairs (docs/cricket-game.md); eight pairs are enough to see it."""
    score = contest("planner", lambda seed: scripted(PlannerCaptain(seed)), 5, 8, seed=4)["result"]
    assert score.share > 0.5


@pytest.mark.parametrize("tool", ["bowler", "field", "delivery", "shot", "attack"])
def test_each_of_its_decisions_is_worth_something(tool: str) -> None:
    """By the value of decisions, which is free of luck; the table is in docs/cricket-game.md."""
    values = [value_of({tool}, seed, 5) for seed in range(40, 48)]
    assert sum(values) > 0


def test_it_reads_the_ball_from_the_observation_as_the_world_has_it() -> None:
    """But for what is hidden from everybody: the day's effect; and skills rounded as cards show them."""
    environment, observation = begin(3, max_overs=2)
    usual, seen = captain("heuristic", 1), 0
    while not observation.done and seen < 12:
        if observation.content["phase"] == "bowl":
            match = environment._game.match  # type: ignore[union-attr]  # a match is on
            assert match is not None
            limit = observation.content["outside_limit"]
            truth = match.situation(BattingIntent(), BowlingIntent(field=standard_field(limit)))
            read = situation_of(observation.content)
            assert truth is not None
            for name in ("balls_bowled", "innings_balls", "wickets_lost", "runs_required", "striker_balls",
                         "free_hit", "powerplay", "conditions", "second", "seen", "field"):  # fmt: skip
                assert getattr(read, name) == getattr(truth, name), name
            assert read.striker.bat_spin == truth.striker.bat_spin
            assert (read.bowler.name, read.bowler.style) == (truth.bowler.name, truth.bowler.style)
            seen += 1
        observation = environment.step(usual.choose(observation).action)
    assert seen == 12


def _at(phase: str, **changed: Any) -> Observation:
    """The first observation of a phase, with a part of it changed."""
    environment, observation = begin(5, max_overs=5)
    usual = captain("heuristic", 1)
    while observation.content["phase"] != phase or "set_match_plan" in str(observation.legal_actions):
        observation = environment.step(usual.choose(observation).action)
    content = json.loads(json.dumps(dict(observation.content)))
    for side in content["squads"].values():
        for card in side["players"]:
            card |= changed
    return Observation(
        actor=observation.actor, legal_actions=observation.legal_actions, content=content, reward=0.0,
        done=False,
    )  # fmt: skip


def test_it_bowls_where_the_batter_is_weak() -> None:
    for trait, lengths in ((-0.3, {"short", "back of a length"}), (0.3, {"full", "yorker"})):
        action = PlannerCaptain(1).choose(_at("bowl", bat_short=trait)).action
        assert action["tool"] == "plan_delivery"
        assert action["arguments"]["length"] in lengths


def _drawn(observation: Observation) -> Any:
    return RandomCaptain(len(str(observation.content))).choose(observation).action


def test_the_random_captain_draws_arguments_that_are_refused_hardly_ever() -> None:
    """Every tool, and values all over their ranges."""
    told = play(2, _drawn, "random", max_overs=2)
    levels = {data["plan"].get("aggression") for data in told.of("plan_changed") if data["part"] == "batting"}
    assert len(levels) > 3
    refused = sum(one.refused is not None for one in told.observations)
    assert refused < 0.1 * len(told.observations)
    assert WORLD.captains["random"].build(1) is not None


def test_it_goes_on_from_a_snapshot_as_if_it_had_never_stopped() -> None:
    environment, observation = begin(8, max_overs=5)
    planner, usual = PlannerCaptain(1), captain("heuristic", 2)
    asked = 0
    while not observation.done and asked < 5:
        if observation.actor == "home":
            restored = PlannerCaptain(99)
            restored.restore(json.loads(json.dumps(planner.snapshot())))
            decision = planner.choose(observation)
            assert restored.choose(observation) == decision
            assert restored.left == planner.left
            asked += observation.content["phase"] == "bowler"
        else:
            decision = usual.choose(observation)
        observation = environment.step(decision.action)
    assert asked == 5, "it has bowlers who rest"
