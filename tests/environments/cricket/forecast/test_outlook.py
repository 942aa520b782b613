"""What captains, viewers and graders are told agrees with what is won, in every kind of match."""

from __future__ import annotations

from functools import cache
from itertools import islice
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from spectator.environments.cricket import grading
from spectator.environments.cricket.captaincy.lookahead import model_of, outlook_on, situation_of
from spectator.environments.cricket.captaincy.reasons import pressure
from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.outlook import Outlook, outlook_of
from spectator.environments.cricket.laws import SUPER_OVER, format_of
from spectator.environments.cricket.match.engine import Match, analyze, load_model
from spectator.environments.cricket.match.forecasts import forecast_state
from spectator.environments.cricket.show.summary import glance
from spectator.environments.cricket.simulation import open_match
from spectator.observations import Observation
from tests.environments.cricket.playing import begin

KINDS: tuple[tuple[str, str | float], ...] = (
    ("men", "all"), ("men", 145.0), ("men", 210.0), ("women", "all"), ("associates", "all"),
)  # fmt: skip
FIXTURES, FUTURES = 12, 60


@cache
def starts(profile: str, level: str | float, overs: int) -> list[Match]:
    """Matches between drawn sides before their first ball, on even evenings."""
    model = load_model(profile, level)
    opened = (open_match(overs, seed, model=model) for seed in range(4 * FIXTURES))
    even = (match for match in opened if match.conditions.evening == "even")
    return list(islice(even, FIXTURES if overs < 50 else 10))


@cache
def simulated(profile: str, level: str | float, overs: int) -> tuple[float, float, float]:
    """The mean total, its standard error between fixtures, and the share won by the side batting first."""
    model, seen = load_model(profile, level), []
    for number, match in enumerate(starts(profile, level, overs)):
        state = forecast_state(match)
        assert state is not None
        sides = state._replace(striker=0, partner=1, to_come=tuple(range(2, 11)))
        seen.append(forecast(sides, FUTURES, np.random.default_rng(number), model))
    totals = [one.total for one in seen]
    return fmean(totals), float(np.std(totals) / len(totals) ** 0.5), fmean(one.p_win for one in seen)


def outlook(profile: str, level: str | float, overs: int) -> Outlook:
    return outlook_of(load_model(profile, level), format_of(overs))


@pytest.mark.parametrize(
    ("profile", "level", "overs"),
    [(*kind, overs) for kind in KINDS for overs in (5, 20, 50) if overs < 50 or kind[1] == "all"],
)
def test_the_projection_and_the_chance_at_the_start_are_those_of_the_simulation(
    profile: str, level: str | float, overs: int
) -> None:
    total, error, won = simulated(profile, level, overs)
    usual = outlook(profile, level, overs)
    assert usual.total(0, 0, 0) == pytest.approx(total, abs=3.5 * error + 0.015 * total)
    assert usual.chance(0, 0, 0) == pytest.approx(won, abs=0.06)


@pytest.mark.parametrize(("profile", "level"), KINDS)
def test_a_captain_is_told_the_chance_of_a_chase_at_this_level(profile: str, level: str | float) -> None:
    """A chase of the level's own mean total: the page's forecast and the analyst agree."""
    told, seen = [], []
    for number, match in enumerate(starts(profile, level, 20)[:6]):
        match = match.copy()
        match.innings[0].closed = "overs"
        match.innings[0].runs = round(match.outlook(match.format).par)
        match.close_innings()
        match.send_in(0)
        match.send_in(1)
        told.append(analyze(match, match.batting_side)["chance_of_chase"])
        assert told[-1] == pytest.approx(grading._chance(match), abs=0.0006)
        state = forecast_state(match)
        assert state is not None
        seen.append(forecast(state, 400, np.random.default_rng(number), match.model).p_win)
    assert fmean(told) == pytest.approx(fmean(seen), abs=0.08)
    assert 0.4 < fmean(told) < 0.7


def observed(**options: Any) -> Observation:
    return begin(3, start="bat_first", **options)[1]


@pytest.mark.parametrize(("options", "named", "low", "high"), [
    ({"max_overs": 20}, ("men", 170.33), 165, 175),
    ({"max_overs": 20, "level": 145}, ("men", 145.0), 141, 149),
    ({"max_overs": 20, "level": 210}, ("men", 210.0), 204, 214),
    ({"max_overs": 20, "level": "ipl 2024"}, ("men", 191.0), 186, 196),
    ({"max_overs": 20, "profile": "women"}, ("women", 158.35), 153, 163),
    ({"max_overs": 20, "profile": "associates"}, ("associates", 144.23), 139, 149),
])  # fmt: skip
def test_an_observation_names_its_kind_of_match_and_projects_it(
    options: dict[str, Any], named: tuple[str, float], low: int, high: int
) -> None:
    view = observed(**options).content
    assert (view["format"]["profile"], view["format"]["level"]) == named
    assert view["format"]["overs"] == 20
    assert low <= view["projected"] <= high


def test_scripted_captains_know_the_kind_of_match_that_they_see() -> None:
    high, usual = (begin(3, start="chase", max_overs=5, level=level)[1].content for level in (210, "all"))
    assert situation_of(high).model is model_of(high) is load_model("men", 210.0)
    assert outlook_on(high).par > outlook_on(usual).par + 12
    same = {**usual, "format": high["format"]}
    asked, harder = pressure(same), pressure(usual)
    assert asked is not None and harder is not None and asked < 0.85 * harder
    old = {**usual, "format": {"overs": 5}}
    assert model_of(old) is load_model("men", "all"), "an old observation names neither"


def test_the_suspense_of_a_chase_is_that_of_its_level() -> None:
    def suspense(**format: Any) -> float:
        world = {
            "teams": {"home": {"name": "Home"}, "away": {"name": "Away"}},
            "format": {"overs": 20, "balls": 120, **format},
            "innings": 2,
            "batting": "away",
            "target": 215,
            "score": {"away": {"runs": 105, "wickets": 3, "balls": 60, "overs": "10.0"}},
            "equation": {"need": 110, "balls": 60},
        }
        found: float = glance(world)["glance"]["suspense"]
        return found

    assert suspense(level=210.0) > suspense() + 0.2


def test_more_wickets_and_fewer_balls_leave_fewer_runs() -> None:
    usual = outlook("men", "all", 20)
    for wickets in range(10):
        assert usual.runs_to_come(60, wickets) > usual.runs_to_come(60, wickets + 1)
        assert usual.runs_to_come(60, wickets) > usual.runs_to_come(66, wickets)
    assert usual.runs_to_come(120, 3) == usual.runs_to_come(60, 10) == 0.0
    assert usual.total(120, 3, 151) == usual.total(80, 10, 151) == 151.0


def test_the_chance_of_a_chase_falls_with_the_runs_needed_and_is_certain_at_its_ends() -> None:
    usual = outlook("men", "all", 20)
    chances = [usual.chance(60, 2, 171 - need, 171) for need in (1, 40, 80, 120, 170)]
    assert chances == sorted(chances, reverse=True)
    assert usual.chance(110, 5, 171, 171) == pytest.approx(1.0)
    assert usual.chance(120, 5, 170, 171) == pytest.approx(0.5) == usual.chance(90, 10, 170, 171), (
        "level scores"
    )
    assert usual.chance(120, 5, 169, 171) == usual.chance(90, 10, 140, 171) == 0.0


def test_a_score_is_evidence_of_the_day() -> None:
    """A side far ahead is likelier to go on like that, above all where days differ most."""
    gained = []
    for profile in ("men", "associates"):
        usual = outlook(profile, "all", 20)
        to_come = usual.runs_to_come(60, 2)
        ahead, behind = (usual.total(60, 2, runs) - runs - to_come for runs in (115, 45))
        assert ahead > 1.0 and behind < -1.0
        gained.append(ahead - behind)
    assert gained[1] > 2.0 * gained[0]
    poor, good = (outlook("associates", "all", 20).chance(0, 0, 0, target) for target in (190, 150))
    assert good > poor > 0.05


def test_a_super_over_has_two_wickets() -> None:
    usual = outlook_of(load_model("men", "all"), SUPER_OVER)
    assert 8.0 < usual.par < 14.0
    assert usual.runs_to_come(3, 2) == 0.0
    assert usual.chance(0, 0, 0, 8) > usual.chance(0, 1, 0, 8) > usual.chance(0, 1, 0, 16)
