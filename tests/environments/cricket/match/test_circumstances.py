"""Ground, form, tiredness and uneven squads: opt-in, seen by both captains, and known to the forecast."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.grounds import (
    GROUND_NAMES,
    GROUNDS,
    MAX_BOUNDARY_M,
    as_faced,
    draw_ground,
    ground_factors,
    lean,
    rope_at,
)
from spectator.environments.cricket.ball.situation import load_by_over, loads, tired_runs
from spectator.environments.cricket.ball.tables import SIX
from spectator.environments.cricket.captaincy.lookahead import situation_of
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.forecast.win_table import WinTable
from spectator.environments.cricket.match.engine import (
    VARIED,
    BattingIntent,
    BowlingIntent,
    circumstances_of,
    load_model,
    teams_in,
)
from spectator.environments.cricket.match.field import inside_the_rope, is_inside_ground, standard_field
from spectator.environments.cricket.match.forecasts import forecast_state
from spectator.environments.cricket.match.starts import advance
from spectator.environments.cricket.people import Player
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.environments.world import derive_seed
from tests.environments.cricket.playing import Told, begin, captain, options, play
from tools.cricket_model.forecast_matches import misses

LOPSIDED = GROUNDS["lopsided"].boundaries


def test_options_left_alone_are_not_even_written_down() -> None:
    assert not {"ground", "form", "fatigue", "squads"} & options().keys()
    assert options(squads=0.0, ground="neutral")["squads"] == 0.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ground": "beach"}, "ground"),
        ({"form": "superb"}, "form"),
        ({"fatigue": "yes"}, "fatigue"),
        ({"squads": "strong"}, "squads"),
        ({"squads": 401.0}, "-400 to 400 Elo points"),
        ({"squads": math.nan}, "-400 to 400 Elo points"),
    ],
)
def test_what_is_no_circumstance_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        options(**given)


def test_an_ordinary_match_says_nothing_new() -> None:
    told = play(3, max_overs=1)
    assert not {"ground", "form", "fatigue", "squad_difference"} & told.of("match_arranged")[0].keys()
    assert not {"ground", "tired", "squad_difference"} & told.last.content.keys()
    assert all("bat_form" not in card for card in told.last.content["squads"]["home"]["players"])
    assert all("tired" not in data for data in told.of("bowler_selected"))


@pytest.fixture(scope="module")
def varied() -> Told:
    """A match with every situation on, on the lopsided ground."""
    return play(6, "planner", max_overs=2, **{**VARIED, "ground": "lopsided"})


def test_all_of_it_is_seen_and_fits_the_models(varied: Told) -> None:
    content = varied.observations[-2].content
    arranged = varied.of("match_arranged")[0]
    WORLD.observation_type.model_validate(varied.last.to_json())
    for fact in varied.facts:
        WORLD.events[fact.type].model_validate(fact.data)
    assert arranged["squad_difference"] == content["squad_difference"]
    assert arranged["fatigue"] is True
    assert list(content["ground"]["metres"].values()) == arranged["ground"]["boundaries"] == list(LOPSIDED)
    cards = {card["name"]: card for card in content["squads"]["home"]["players"]}
    assert {one["name"]: one["bat"] for one in arranged["form"]["home"]} == {
        name: card["bat_form"] for name, card in cards.items()
    }
    assert any(card["bat_form"] for card in cards.values())
    assert all(data["tired"] >= 0.0 for data in varied.of("bowler_selected"))
    assert all(one.refused is None for one in varied.observations)


def test_a_captain_reads_from_it_the_very_ball_that_the_world_bowls() -> None:
    environment, observation = begin(4, max_overs=3, **{**VARIED, "ground": "lopsided"})
    usual, seen, ends = captain("heuristic", 1), 0, set()
    while not observation.done:
        if observation.content["phase"] == "bowl":
            match = environment._game.match  # type: ignore[union-attr]  # a match is on
            assert match is not None
            field = standard_field(observation.content["outside_limit"])
            truth = match.situation(BattingIntent(), BowlingIntent(field=field))
            read = situation_of(observation.content)
            assert truth is not None
            assert (read.boundaries, read.tired) == (truth.boundaries, truth.tired)
            assert read.striker.bat_form == truth.striker.bat_form
            assert read.bowler.bowl_form == truth.bowler.bowl_form
            now = observation.content["ground"]["now"]
            over, left = truth.balls_bowled // 6, truth.striker.bats == "left"
            assert tuple(now.values()) == as_faced(LOPSIDED, over % 2, left)
            ends.add(now["midwicket"])
            seen += 1
        observation = environment.step(usual.choose(observation).action)
    assert seen > 20 and ends == {60.0, 78.0}


def test_a_snapshot_in_varied_situations_has_the_same_future() -> None:
    environment, observation = begin(5, max_overs=2, reward="decision_value", **VARIED)
    mine, number = captain("heuristic", 2), 0
    while not observation.done:
        kept = environment.snapshot()
        twin = CricketEnvironment()
        assert twin.restore(kept).content == observation.content
        assert twin.snapshot() == kept
        environment = twin if number % 2 else environment
        observation = environment.step(mine.choose(observation).action)
        number += 1


def test_nobody_stands_beyond_the_rope_and_a_captain_who_asks_for_it_is_told() -> None:
    environment, observation = begin(2, max_overs=2, ground="lopsided")
    usual = captain("heuristic", 1)
    while observation.content["phase"] != "bowl":
        observation = environment.step(usual.choose(observation).action)
    faced = tuple(observation.content["ground"]["now"].values())
    near = faced.index(60.0)
    angle = math.radians(45.0 * near + 22.5)
    x, y = -66.0 * math.sin(angle), 10.06 - 66.0 * math.cos(angle)
    spots = [("sweeper", x, y), *((f"man {n}", 20.0 - 4.0 * n, 24.0) for n in range(8))]
    men = [{"name": name, "x": at_x, "y": at_y} for name, at_x, at_y in spots]
    refused = environment.step({"tool": "set_field", "arguments": {"fielders": men}}).refused
    assert refused is not None and refused.rule == "F4.off_the_ground"
    while not observation.done:
        view = observation.content
        if view.get("field"):
            faced = tuple(view["ground"]["now"].values())
            assert all(is_inside_ground(man["x"], man["y"], faced) for man in view["field"]["fielders"])
        observation = environment.step(usual.choose(observation).action)


def test_every_ground_is_lawful_and_the_drawn_ones_favour_no_side() -> None:
    drawn = [draw_ground(random.Random(seed)).boundaries for seed in range(400)]
    assert len(set(drawn)) == 6
    for name in GROUND_NAMES[1:]:
        assert all(59.43 <= metres <= MAX_BOUNDARY_M for metres in GROUNDS[name].boundaries)
    leans = [lean(as_faced(sizes, 0, False)) for sizes in drawn]
    assert abs(fmean(leans)) < 3.5 * stdev(leans) / 20
    assert fmean(fmean(sizes) for sizes in drawn) == pytest.approx(69.0, abs=1.5)


def test_a_short_side_is_where_sixes_go_from_either_end_and_by_either_hand() -> None:
    tables = load_model("men", "all").tables
    for over, left in product((0, 1), (False, True)):
        faced = as_faced(LOPSIDED, over, left)
        assert (faced[1] == 60.0) == (over == int(left))
        factor = ground_factors(tables, LOPSIDED, over, left, 1, 0)[SIX]
        assert (factor > 1.0) == (faced[1] == 60.0)
    assert rope_at(LOPSIDED, -10.0, 0.0) == pytest.approx(60.0)
    assert inside_the_rope(-20.0, 10.06, LOPSIDED) == (-20.0, 10.06)


def test_a_load_grows_with_overs_and_rest_takes_it_off() -> None:
    assert load_by_over([0, 1, 0, 1, 0]) == [0.0, 0.0, 0.6, 0.6, 1.2]
    assert loads([0, 1, 2, 1, 2, 1, 2], overs=20)[0] == 0.0
    spell = [0, 1] * 5
    assert load_by_over([*spell, *[2, 3] * 20])[8] == pytest.approx(0.4 * load_by_over(spell)[8], abs=0.05)
    assert tired_runs(False, load_by_over([*spell, *[2, 3] * 20])[8]) == pytest.approx(0.06, abs=0.01)


def test_tired_or_out_of_form_bowlers_concede_more_and_are_slower() -> None:
    match = open_match(5, 3)
    advance(match)
    advance(match)
    match.give_ball(match.eligible_bowlers()[-1])
    ball = match.situation(BattingIntent(), BowlingIntent())
    assert ball is not None

    def runs(**changed: Any) -> float:
        weights = match.model.weights(replace(ball, **changed))
        return sum(p * r for p, r in zip(weights, (0, 1, 2, 3, 4, 6, 0, 0, 1, 2, 1), strict=True))

    def formed(player: Player, **form: float) -> Player:
        return replace(player, **form)  # type: ignore[arg-type]  # floats only

    usual = runs()
    assert runs(tired=2.0) > runs(tired=1.0) > usual
    assert (
        runs(bowler=formed(ball.bowler, bowl_form=0.1))
        < usual
        < runs(striker=formed(ball.striker, bat_form=0.1))
    )


def test_uneven_squads_are_as_far_apart_as_is_said() -> None:
    for difference in (-200.0, 200.0):
        at = circumstances_of(9, {"squads": difference})
        teams, plain = teams_in(9, at, 5), teams_in(9, circumstances_of(9, {}), 5)
        better = [
            a.bat_runs > b.bat_runs for a, b in zip(teams["home"].players, plain["home"].players, strict=True)
        ]
        assert set(better) == {difference > 0}
    won = []
    for number in range(160):
        match = open_match(5, derive_seed(4, "uneven", number), options={"squads": 200.0})
        for _ in play_out(match):
            pass
        assert match.result is not None
        won.append(float(match.result.winner == "home"))
    assert fmean(won) == pytest.approx(
        1.0 / (1.0 + 10.0 ** (-200.0 / 400.0)), abs=3.5 * stdev(won) / 160**0.5
    )


def test_teams_take_the_names_they_are_given_and_nothing_else_changes() -> None:
    """A team that is drawn under a name that the other one took has the other drawn name."""
    plain = begin(3)[1].content["squads"]
    first, second = plain["home"]["name"], plain["away"]["name"]
    for given, named in (
        ({"home_team": "Tamarind"}, ["Tamarind", second]),
        ({"home_team": second}, [second, first]),
        ({"away_team": first}, [second, first]),
        ({"home_team": "Tamarind", "away_team": first}, ["Tamarind", first]),
    ):
        squads = begin(3, **given)[1].content["squads"]
        assert [squads[side]["name"] for side in ("home", "away")] == named
        assert all(squads[side]["players"] == plain[side]["players"] for side in squads)
    assert "home_team" not in options()
    with pytest.raises(ValidationError, match="must differ from home_team"):
        options(home_team="Tamarind", away_team="Tamarind")
    with pytest.raises(ValidationError, match="home_team"):
        options(home_team="Nowhere")


def test_what_is_expected_of_a_captain_knows_how_uneven_the_squads_are() -> None:
    """Before the toss the result expected is that of the ratings: the weaker side is expected to lose."""
    expected = {}
    for difference in (-200.0, 0.0, 200.0):
        _, observation = begin(1, squads=difference)
        expected[difference] = observation.metadata["rubric"]["result"]
    assert expected[-200.0] == pytest.approx(0.2403, abs=1e-3)
    assert (expected[0.0], expected[200.0]) == (0.5, pytest.approx(0.7597, abs=1e-3))


def test_the_forecast_before_any_ball_is_right_with_every_situation_on() -> None:
    found = list(misses(5, "all", "men", 60, 40, VARIED))
    for column in zip(*found, strict=True):
        assert abs(fmean(column)) < 3.5 * stdev(column) / math.sqrt(len(column))


@pytest.mark.parametrize("given", [{"ground": "compact"}, {"ground": "vast"}, {"form": "drawn"}, VARIED])
def test_the_table_of_chances_knows_what_the_forecast_knows(given: dict[str, Any]) -> None:
    """From the same chases: the mean difference is small beside what the situations do."""
    rng, gaps = np.random.default_rng(1), []
    for seed in range(6):
        match = open_match(5, 70 + seed, options=given)
        for _ in play_out(match):
            if match.awaited == "innings" and match.number == 1:
                break
        match.close_innings()
        advance(match)
        advance(match)
        state = forecast_state(match)
        assert state is not None
        gaps.append(WinTable(state, match.model).chance(0, 0, 0) - forecast(state, 1500, rng).p_win)
    assert abs(fmean(gaps)) < 0.03


def test_the_commentary_tells_of_the_ground_and_of_who_is_the_stronger(varied: Told) -> None:
    said = [line.text for event, line in varied.lines if event.type == "cricket.match_arranged"]
    assert "The boundary is 60 metres on one side and 78 on the other" in said[0]
    difference = varied.of("match_arranged")[0]["squad_difference"]
    assert any("stronger squad" in text or "nothing between them" in text for text in said), difference
    assert varied.state["world"]["ground"]["boundaries"] == list(LOPSIDED)
