"""The forecast: the same model as the sampler's, calibrated, repeatable, and fast enough for every ball."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.forecast.monte_carlo import decision_value, forecast, next_ball_values
from spectator.environments.cricket.forecast.state import (
    BowlingAttack,
    ForecastState,
    plan_overs,
    plan_remaining_overs,
)
from spectator.environments.cricket.people import Player, draw_fixture
from tools.cricket_model.fitting.counts import read_rows
from tools.cricket_model.forecast_scores import chase_chance

MODEL = BallModel.load()
HOME, AWAY = draw_fixture(1)


def average(players: tuple[Player, ...]) -> tuple[Player, ...]:
    return tuple(
        replace(p, bat_runs=1.0, bat_out=1.0, bowl_runs=1.0, bowl_wickets=1.0, bowl_extras=1.0, bat_spin=0.0)
        for p in players
    )


def state(overs: int = 20, **change: Any) -> ForecastState:
    limit = {20: 4, 10: 2, 5: 2}.get(overs, 1)
    fresh = ForecastState(
        innings_balls=6 * overs,
        powerplay_balls=round(1.8 * overs),
        balls=0,
        runs=0,
        wickets=0,
        target=None,
        striker=0,
        striker_balls=0,
        partner=1,
        partner_balls=0,
        to_come=tuple(range(2, 11)),
        batting=average(HOME.players),
        bowling=average(AWAY.players),
        bowler=None,
        overs_left=tuple(limit if p.bowls else 0 for p in AWAY.players),
        bowler_overs=limit,
    )
    return fresh._replace(**change)


def test_a_seed_gives_one_forecast() -> None:
    first = forecast(state(5, target=58), 500, np.random.default_rng(4))
    assert forecast(state(5, target=58), 500, np.random.default_rng(4)) == first
    assert forecast(state(5, target=58), 500, np.random.default_rng(5)) != first


def test_the_forecast_plays_the_sampler_s_own_cricket() -> None:
    """Ten overs played ball by ball by the sampler give the totals and wickets that the futures give."""
    at = state(10)
    rng = random.Random(8)
    runs, wickets = zip(*(sampled_innings(at, rng) for _ in range(1500)), strict=True)
    seen = forecast(at, 20_000, np.random.default_rng(8))
    assert seen.total == pytest.approx(np.mean(runs), abs=4 * np.std(runs) / 1500**0.5)
    assert seen.wickets == pytest.approx(np.mean(wickets), abs=4 * np.std(wickets) / 1500**0.5)
    low, high = np.percentile(runs, (10, 90))
    assert seen.total_low == pytest.approx(low, abs=3) and seen.total_high == pytest.approx(high, abs=3)


def sampled_innings(at: ForecastState, rng: random.Random) -> tuple[int, int]:
    effect = MODEL.draw_effects(rng).of(1)
    ends, faced, next_in, free_hit = [at.striker, at.partner], [0] * 11, 2, False
    runs = wickets = balls = 0
    plan = plan_overs(at)
    while balls < at.innings_balls and wickets < 10:
        on_strike = ends[0]
        bowler = at.bowling[plan[balls // 6]]
        situation = Situation(
            balls, at.innings_balls, wickets, None, at.batting[on_strike], faced[on_strike], bowler,
            free_hit, balls < at.powerplay_balls, effect=effect,
        )  # fmt: skip
        ball = MODEL.bowl(situation, rng).ball
        runs += ball.runs
        faced[on_strike] += not ball.wide
        if ball.ran % 2:
            ends.reverse()
        if ball.dismissal:
            wickets += 1
            out = on_strike if ball.striker_out else ends[0] if ends[0] != on_strike else ends[1]
            ends[ends.index(out)] = min(next_in, 10)
            next_in += 1
        free_hit = ball.noball or (free_hit and not ball.valid)
        if ball.valid:
            balls += 1
            if balls % 6 == 0:
                ends.reverse()
    return runs, wickets


def test_the_first_innings_of_twenty_overs_has_the_tables_total() -> None:
    """170.0 runs with sd 32.9 and 6.24 wickets (innings_summary.json) for average sides."""
    seen = forecast(state(20), 20_000, np.random.default_rng(2))
    assert seen.total == pytest.approx(170.0, abs=5.0)
    assert seen.wickets == pytest.approx(6.24, abs=0.3)
    assert 70 < seen.total_high - seen.total_low < 95


@pytest.mark.parametrize(("overs", "total", "slack"), [(5, 58.3, 2.5), (10, 104.9, 4.0), (15, 141.7, 7.0)])
def test_short_innings_have_the_total_of_their_resources(overs: int, total: float, slack: float) -> None:
    """Runs of a whole innings with as many overs left in resources_model.json."""
    assert forecast(state(overs), 8000, np.random.default_rng(3)).total == pytest.approx(total, abs=slack)


def test_a_five_over_match_spreads_and_falls_as_it_should() -> None:
    """Sd 14 to 15 runs, 2.5 to 3 wickets (data README, point 4); drawn squads add a little."""
    people = average(HOME.players)
    seen = forecast(state(5, batting=people), 20_000, np.random.default_rng(5))
    sd = (seen.total_high - seen.total_low) / 2.563
    assert 13.0 < sd < 15.5
    assert 2.5 < seen.wickets < 3.1


def test_the_forecast_agrees_with_the_fitted_logistic() -> None:
    """On the cells of win_prob_cells.csv: no bias, and nearer to what happened than the 6-parameter
    logistic."""
    rng = np.random.default_rng(1)
    cells = [row for row in read_rows("win_prob_cells.csv") if int(row["n_states"]) >= 60]
    seen, logistic, real, weight = (np.empty(len(cells)) for _ in range(4))
    for k, row in enumerate(cells):
        middle = {
            name: (int(row[f"{name}_from"]) + int(row[f"{name}_to"])) / 2
            for name in ("balls_left", "wickets_in_hand", "runs_required")
        }
        balls, lost, required = (
            int(middle["balls_left"]), 10 - round(middle["wickets_in_hand"]), round(middle["runs_required"]),
        )  # fmt: skip
        attack, last = usual_attack(120 - balls)
        at = state(
            20, balls=120 - balls, wickets=lost, target=required, striker=lost, striker_balls=8,
            partner=min(10, lost + 1), partner_balls=8, to_come=tuple(range(lost + 2, 11)),
            attack=attack, last_bowler=last,
        )  # fmt: skip
        seen[k] = forecast(at, 500, rng).p_win
        logistic[k] = chase_chance(balls, lost, required)
        real[k], weight[k] = float(row["p_win"]), float(row["n_states"])
    assert len(cells) > 80
    assert abs(np.average(seen - real, weights=weight)) < 0.025
    ours, theirs = (np.average((guess - real) ** 2, weights=weight) for guess in (seen, logistic))
    assert ours < 1.15 * theirs
    assert np.sqrt(np.average((seen - logistic) ** 2, weights=weight)) < 0.07
    for low in np.arange(0.0, 1.0, 0.2):
        band = (seen >= low) & (seen <= low + 0.2)
        assert np.average(seen[band] - real[band], weights=weight[band]) == pytest.approx(0.0, abs=0.06)


def usual_attack(balls: int) -> tuple[BowlingAttack, int | None]:
    """The bowling of average bowlers after so many balls of 20 overs, and who bowled last."""
    attack = BowlingAttack.of(average(AWAY.players), 20, 4)
    for bowler in plan_remaining_overs(attack.copy(), None)[: balls // 6]:
        attack.take(bowler)
    return attack, attack.starters[-1] if attack.starters else None


def test_certain_and_hopeless_chases_are_seen() -> None:
    rng = np.random.default_rng(1)
    easy = state(20, balls=60, runs=100, target=102)
    hopeless = state(20, balls=114, runs=100, target=150)
    assert forecast(easy, 500, rng).p_win > 0.99
    assert forecast(hopeless, 500, rng).p_win == 0.0


def test_more_runs_needed_is_never_easier() -> None:
    targets = (40, 50, 60, 70, 80)
    chances = [forecast(state(5, target=t), 4000, np.random.default_rng(1)).p_win for t in targets]
    assert chances == sorted(chances, reverse=True)


def test_the_next_over_is_foretold() -> None:
    """What is left of the over in progress: fewer balls, fewer runs."""
    rng = np.random.default_rng(1)
    set_pair = {"runs": 80, "wickets": 2, "striker_balls": 20, "partner_balls": 12}
    whole = forecast(state(20, balls=60, **set_pair), 4000, rng)
    last = forecast(state(20, balls=65, **set_pair), 4000, rng)
    assert 6.5 < whole.over_runs < 9.5 and 0.15 < whole.over_wicket < 0.3
    assert 0.8 < last.over_runs < 2.0 and last.over_wicket < 0.1


def test_values_of_the_next_ball_add_up_to_the_forecast() -> None:
    """The chance of winning is the mean of its values after each category, weighted by their
    probabilities."""
    at = state(5, target=60, effect_sd=0.0)
    values = next_ball_values(at, 3000, np.random.default_rng(6))
    bowler = at.bowling[plan_overs(at)[0]]
    situation = Situation(0, 30, 0, 60, at.batting[0], 0, bowler, powerplay=True)
    total = sum(p * v for p, v in zip(MODEL.weights(situation), values, strict=True))
    seen = forecast(at, 20_000, np.random.default_rng(7))
    assert total == pytest.approx(seen.p_win, abs=5 * seen.p_win_se + 0.01)
    assert values[5] > values[4] > values[0] > values[6]


def test_a_decision_is_worth_what_it_changes() -> None:
    """With 15 to get off the last over blocking costs chances, hitting does not; no change, no worth."""
    at = state(5, balls=24, runs=45, target=60, striker_balls=10, effect_sd=0.0)
    values = next_ball_values(at, 3000, np.random.default_rng(6))
    bowler = at.bowling[plan_overs(at)[4]]
    usual = Situation(24, 30, 0, 15, at.batting[0], 10, bowler)
    assert decision_value(MODEL, usual, usual, values) == 0.0
    block = decision_value(MODEL, replace(usual, aggression=0.1), usual, values)
    assert block < -0.01
    assert decision_value(MODEL, replace(usual, aggression=0.6), usual, values) > block + 0.01


def test_the_bowling_plan_can_be_bowled() -> None:
    """Nobody twice in a row, nobody over the limit, whoever has the ball keeps it for the over."""
    for balls, bowler, last in ((0, None, None), (33, 7, None), (60, None, 6), (114, 10, None)):
        at = state(20, balls=balls, bowler=bowler, last_bowler=last)
        plan = plan_overs(at)
        rest = plan[balls // 6 :]
        assert len(plan) == 20
        assert bowler is None or rest[0] == bowler
        assert last is None or rest[0] != last
        assert all(a != b for a, b in pairwise(rest))
        later = rest[1:] if bowler is not None else rest
        assert all(later.count(place) <= at.overs_left[place] for place in set(later))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"balls": 120}, "balls must be 0 to 119"),
        ({"wickets": 10}, "wickets must be 0 to 9"),
        ({"target": 50, "runs": 50}, "target is reached"),
        ({"overs_left": (4,)}, "eleven"),
    ],
)
def test_a_state_that_is_over_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        forecast(state(20, **wrong), 10, np.random.default_rng(1))


def test_no_futures_are_refused() -> None:
    for count in (0, -5):
        with pytest.raises(ValueError, match="at least 1"):
            forecast(state(), count, np.random.default_rng(1))
        with pytest.raises(ValueError, match="at least 1"):
            next_ball_values(state(), count, np.random.default_rng(1))
