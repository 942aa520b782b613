"""The forecast within a match: asked for by option, exact, and worth what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.forecasts import decision_values, forecast_state
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.observations import Observation
from tests.environments.cricket.playing import begin, play


def test_there_is_none_unless_asked_for() -> None:
    assert play(1, max_overs=1).of("forecast") == []


def test_one_after_the_toss_and_one_after_every_ball_the_last_of_them_certain() -> None:
    told = play(5, max_overs=2, forecast_futures=60, super_over=False)
    found = told.of("forecast")
    assert len(found) == 1 + len(told.of("ball_bowled"))
    assert all(one["home"] + one["away"] == pytest.approx(1.0) for one in found)
    winner = told.of("match_ended")[0]["winner"]
    assert found[-1]["home"] == {"home": 1.0, "away": 0.0, None: 0.5}[winner]
    assert (found[-1]["se"], found[-1]["futures"]) == (0.0, 0)
    assert 0.2 < found[0]["home"] < 0.8
    world = told.state["world"]
    assert world["forecast"]["home"] == found[-1]["home"]
    assert set(world["chances"]) == {"1", "2"}


def test_the_forecast_does_not_touch_the_match() -> None:
    without = play(6, "tactician", "aggressive", max_overs=2).of("ball_bowled")
    assert play(6, "tactician", "aggressive", max_overs=2, forecast_futures=40).of("ball_bowled") == without


def test_the_same_seed_foretells_the_same_through_a_snapshot() -> None:
    environment, observation = begin(7, max_overs=1, forecast_futures=30)
    facts = [environment.facts()]
    while not observation.done:
        twin = CricketEnvironment()
        twin.restore(environment.snapshot())
        action = {"tool": observation.legal_actions[0]["tool"]}
        observation = environment.step(action)
        twin.step(action)
        facts.append(environment.facts())
        assert twin.facts() == facts[-1]


def test_an_episode_reads_the_day_and_forecasts_by_it() -> None:
    """The same balls, once with a far better day read from them: more is expected of the next."""
    environment, observation = begin(7, max_overs=5, forecast_futures=200)
    environment.facts()
    for _ in range(12):
        observation = environment.step({"tool": observation.legal_actions[0]["tool"]})
        environment.facts()
    whole = json.loads(environment.snapshot())
    assert any(whole["reading"][0]) and not any(whole["reading"][1])
    whole["reading"][0][0] += 15.0
    better = CricketEnvironment()
    better.restore(json.dumps(whole).encode())
    plain, read = (_next_forecast(one, observation) for one in (environment, better))
    assert read["total"] > plain["total"] + 4.0
    assert (read["delivery"], read["batting"]) == (plain["delivery"], plain["batting"])


def _next_forecast(environment: CricketEnvironment, observation: Observation) -> Mapping[str, Any]:
    """Play until the next one is told."""
    while True:
        observation = environment.step({"tool": observation.legal_actions[0]["tool"]})
        for fact in environment.facts():
            if fact.type == "cricket.forecast":
                return fact.data


def last_over_of_a_chase() -> Match:
    """A chase that needs 6 to 10 of the last 4 or 5 balls."""
    for seed in range(200):
        match = open_match(20, seed)
        for _ in play_out(match):
            innings = match.current
            if match.number != 2 or innings.needed is None or match.awaited != "ball" or innings.free_hit:
                continue
            if 4 <= innings.balls_left <= 5 and 6 <= innings.needed <= 10:
                return match
    raise AssertionError("no such chase")


def test_default_decisions_are_worth_nothing_and_blocking_the_last_over_of_a_chase_costs() -> None:
    match = last_over_of_a_chase()
    usual = BowlingIntent(field=standard_field(5))
    nothing = decision_values(match, BattingIntent(), usual, 1000, 1)
    assert nothing == {"batting_value": 0.0, "bowling_value": 0.0}
    blocked = [decision_values(match, BattingIntent(0.0), usual, 4000, seed) for seed in range(6)]
    assert all(one["batting_value"] < -0.004 for one in blocked), blocked
    assert all(str(one["bowling_value"]) == "0.0" for one in blocked)


def test_every_state_of_a_match_can_be_foretold_or_says_why_not() -> None:
    match = open_match(5, 11)
    for _ in play_out(match):
        state = forecast_state(match)
        if match.result is not None or match.current.closed or match.number > 2:
            assert state is None
            continue
        assert state is not None
        assert len({state.striker, state.partner, *state.to_come}) == 2 + len(state.to_come)
        assert state.overs_left[match.teams[match.fielding_side].keeper] == 0
