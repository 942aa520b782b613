"""The forecast before any ball against what the match engine then makes of it."""

from __future__ import annotations

import random
from statistics import fmean, stdev

import numpy as np
import pytest

from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.state import BowlingAttack, plan_overs, plan_remaining_overs
from spectator.environments.cricket.laws import format_of
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.forecasts import forecast_state
from spectator.environments.cricket.match.starts import advance
from spectator.environments.cricket.people import draw_fixture, teams_of
from spectator.environments.cricket.simulation import play_out

MATCHES = 60
CHASES = 12
"""Of so many of them the chase is foretold, too."""
FUTURES = 1500


@pytest.mark.parametrize(
    ("overs", "level", "profile"),
    [(20, 210.0, "men"), (20, "all", "women"), (10, 190.0, "men"), (5, 145.0, "men")],
)
def test_the_forecast_before_any_ball_is_what_the_engine_makes(
    overs: int, level: str | float, profile: str
) -> None:
    """Totals, chances at the start and chances of the chase of drawn squads, within 3.5 standard errors."""
    misses: list[list[float]] = [[], [], []]
    for seed in range(2):
        for number, found in enumerate(_misses(overs, level, profile, seed)):
            misses[number] += found
    for name, found in zip(("total", "chance at the start", "chance of the chase"), misses, strict=True):
        error = stdev(found) / len(found) ** 0.5
        assert abs(fmean(found)) < 3.5 * error, (name, fmean(found), error)


def _misses(overs: int, level: str | float, profile: str, seed: int) -> tuple[list[float], ...]:
    """Forecast less outcome of every match of one pair of squads."""
    model, rng = load_model(profile, level), np.random.default_rng(seed)
    teams = teams_of(draw_fixture(seed))
    before = None
    totals, starts, chases = [], [], []
    for number in range(MATCHES):
        match = Match(format_of(overs), teams, "home", model, random.Random(1000 * seed + number))
        advance(match)
        advance(match)
        if before is None:
            state = forecast_state(match)
            assert state is not None
            before = forecast(state, FUTURES, rng, model)
        _play_first(match)
        totals.append(before.total - match.innings[0].runs)
        state = forecast_state(match)
        assert state is not None
        chance = forecast(state, 60, rng, model).p_win if number < CHASES else None
        for _ in play_out(match):
            if match.innings[1].closed:
                break
        margin = match.innings[1].runs - match.innings[0].runs
        won = 1.0 if margin > 0 else 0.5 if margin == 0 else 0.0
        starts.append(before.p_win - (1.0 - won))
        if chance is not None:
            chases.append(chance - won)
    return totals, starts, chases


def _play_first(match: Match) -> None:
    """Play the first innings, and send in the openers of the second."""
    for _ in play_out(match):
        if match.innings[0].closed:
            break
    match.close_innings()
    advance(match)
    advance(match)


@pytest.mark.parametrize("overs", [5, 8, 12, 20])
def test_the_forecast_expects_the_bowlers_that_the_engine_uses(overs: int) -> None:
    """Over by over the same, and never one who does not usually bowl."""
    for seed in range(12):
        match = Match(format_of(overs), teams_of(draw_fixture(seed)), "home", load_model("men", "all"),
                      random.Random(seed))  # fmt: skip
        advance(match)
        advance(match)
        state = forecast_state(match)
        assert state is not None
        expected = plan_overs(state)
        for _ in play_out(match):
            if match.innings[0].closed:
                break
        used = match.innings[0].over_starters
        assert used and expected[: len(used)] == used
        bowls = match.teams["away"].bowls
        assert all(bowls[player] for player in expected)


def test_extra_overs_go_to_as_many_bowlers_as_the_law_allows() -> None:
    """Twelve overs: two each, and two of them bowl a third (Law O5)."""
    players = draw_fixture(3)[0].players
    chosen = plan_remaining_overs(BowlingAttack.of(players, 12, 2, 2), None)
    counts = sorted((chosen.count(player) for player in set(chosen)), reverse=True)
    assert len(chosen) == 12 and counts[0] <= 3 and sum(count == 3 for count in counts) <= 2
