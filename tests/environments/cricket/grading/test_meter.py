"""Cricket's own figures of a captain, on records made by hand and on whole matches."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.environments.contract import OUTCOME
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.grading import MEASURES, CricketMeter, specificity
from spectator.environments.world import derive_seed
from spectator.events import Event
from tests.environments.cricket.playing import options


def event(type: str, **data: Any) -> Event:
    return Event("ep-1", "e", 1, "", 1, type, data)


def ball(
    aggression: float = 0.5, attack: float = 0.5, *, side: str = "home", bowled: int = 16, **changes: Any
) -> Event:
    """A ball of an innings of 30, of which 9 are the powerplay and the last 7 the death."""
    intents = {
        "aggression": aggression, "shot": None, "attack": attack, "length": None, "line": None, "pace": None,
        "field": "standard",
    }  # fmt: skip
    usual = {
        "side": side, "intents": intents | changes.pop("intents", {}),
        "over": bowled // 6, "ball": bowled % 6 + 1,
        "dismissal": None, "boundary": False, "free_hit_next": False,
    }  # fmt: skip
    return event("cricket.ball_bowled", **usual | changes)


def measured(*events: Event) -> dict[str, dict[str, float]]:
    meter = CricketMeter()
    for one in (event("cricket.innings_started", balls=30, powerplay_balls=9), *events):
        meter.take(one)
    return {side: dict(figures) for side, figures in meter.figures().items()}


def plan(side: str, level: float, part: str = "match_plan") -> Event:
    levels = {
        f"{role}_{phase}": level
        for role in ("batting", "bowling")
        for phase in ("powerplay", "middle", "death")
    }
    return event("cricket.plan_changed", side=side, part=part, plan=levels)


def over() -> Event:
    return event("cricket.over_started")


def test_deeds_are_compared_with_the_plan_that_stood_when_the_over_began() -> None:
    home = measured(plan("home", 0.6), over(), ball(0.6), plan("home", 0.9), ball(0.9), over(), ball(0.9))[
        "home"
    ]
    assert home["declared_shown"] == pytest.approx((1.0 + 0.7 + 1.0) / 3)
    assert home["phase_fit"] == pytest.approx((0.8 + 0.8 + 0.2) / 3)


def test_who_declares_nothing_keeps_nothing() -> None:
    away = measured(over(), ball(), plan("away", 0.5, part="bowling"), ball())["away"]
    assert (away["declared_shown"], away["phase_fit"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("bowled", "phase"), [(0, "powerplay"), (8, "powerplay"), (9, "middle"), (22, "middle"), (23, "death")]
)
def test_a_ball_belongs_to_the_phase_in_which_it_was_bowled(bowled: int, phase: str) -> None:
    levels = {
        f"{role}_{part}": 0.5 for role in ("batting", "bowling") for part in ("powerplay", "middle", "death")
    }
    declared = {**levels, f"batting_{phase}": 0.8}
    planned = event("cricket.plan_changed", side="home", part="match_plan", plan=declared)
    assert measured(planned, over(), ball(0.8, bowled=bowled))["home"]["declared_shown"] == 1.0


def test_coherence_has_the_published_weights() -> None:
    said = event("decision.made", actor="home", source="model", reasoning="")
    home = measured(said, plan("home", 0.7), over(), ball(0.6))["home"]
    assert home["coherence"] == pytest.approx(0.5 * 0.9 + 0.3 * 0.0 + 0.2 * 0.6)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", 0.0),
        ("because", 0.5 / 12),
        ("I think that this is a really good thing to do right here", 0.5),
        ("58 for 3 with two overs left, so the yorker at the stumps to the set batter", 1.0),
        ("yorker wicket stumps", 0.5 * 3 / 12 + 0.5),
        ("wicket wicket wicket", 0.5 * 3 / 12 + 0.5 / 3),
    ],
)
def test_a_reason_is_specific_by_its_length_and_its_terms(reason: str, expected: float) -> None:
    assert specificity(reason) == pytest.approx(expected)


def test_a_fallbacks_reason_is_not_the_captains() -> None:
    said = [
        event("decision.made", actor="home", source=source, reasoning="wicket")
        for source in ("model", "fallback")
    ]
    assert measured(*said)["home"]["specific_reasons"] == specificity("wicket")


def test_adaptation_is_change_after_a_turn_beyond_change_at_any_time() -> None:
    def side(*balls: Event) -> float:
        return measured(over(), *balls)["home"]["adaptation"]

    wicket: dict[str, Any] = {"dismissal": "bowled"}
    assert side(ball(0.5, **wicket), ball(0.6), ball(0.6), ball(0.6)) == 1.0
    assert side(ball(0.5, **wicket), ball(0.5), ball(0.6), ball(0.6)) == -0.5
    assert side(ball(0.5, **wicket), ball(0.6), ball(0.7), ball(0.8)) == 0.0
    assert side(ball(0.5, **wicket), ball(0.5), ball(0.5), ball(0.5)) == 0.0
    assert side(ball(bowled=8), ball(intents={"shot": "slog"}), ball(), ball()) == 0.5


def test_the_bowling_side_is_measured_by_its_own_deeds() -> None:
    boundary: dict[str, Any] = {"boundary": True}
    found = measured(
        over(), ball(**boundary), ball(intents={"field": "defensive"}), ball(intents={"field": "defensive"})
    )
    assert found["away"]["adaptation"] == 1.0 and found["home"]["adaptation"] == 0.0


def test_another_innings_is_another_beginning() -> None:
    found = measured(
        over(), ball(0.5, dismissal="bowled"), ball(0.5), ball(0.5),
        event("cricket.innings_started", balls=30, powerplay_balls=9),
        over(), ball(0.9, side="away"), ball(0.9, side="away"),
    )  # fmt: skip
    assert found["home"]["adaptation"] == 0.0 and found["away"]["adaptation"] == 0.0


def test_values_belong_to_those_who_played_the_ball_even_when_the_innings_ends_with_it() -> None:
    forecast = event("cricket.forecast", batting="away", batting_value=0.02, bowling_value=-0.01)
    found = measured(over(), ball(side="home"), forecast)
    assert found["home"]["decision_value"] == pytest.approx(2.0)
    assert found["home"]["decision_value_batting"] == pytest.approx(2.0)
    assert found["away"]["decision_value"] == found["away"]["decision_value_bowling"] == pytest.approx(-1.0)


def test_the_winner_takes_one_and_a_tie_is_shared() -> None:
    won = measured(event("cricket.match_ended", winner="away"))
    assert (won["home"][OUTCOME], won["away"][OUTCOME]) == (0.0, 1.0)
    assert measured(event("cricket.match_ended", winner=None))["home"][OUTCOME] == 0.5
    assert OUTCOME not in measured()["home"]


@pytest.mark.parametrize("pack", ["default", "chase", "death", "super-over"])
def test_whole_matches_stay_within_the_ranges_that_are_stated(pack: str) -> None:
    found = play_and_measure({**WORLD.packs[pack].options, "max_overs": 2}, ("tactician", "random"))
    ranges = {measure.name: measure.range for measure in MEASURES}
    for figures in found.values():
        assert {"coherence", "specific_reasons", OUTCOME} <= set(figures)
        for name, value in figures.items():
            low, high = ranges.get(name, (0.0, 1.0))
            assert (low is None or value >= low - 1e-9) and (high is None or value <= high + 1e-9), name
    assert sum(figures[OUTCOME] for figures in found.values()) == 1.0


def test_values_are_measured_where_there_are_forecasts_and_the_usual_is_worth_nothing() -> None:
    found = play_and_measure({"max_overs": 1, "forecast_futures": 20}, ("heuristic", "aggressive"))
    assert found["home"]["decision_value"] == 0.0
    assert found["away"]["decision_value"] != 0.0
    assert "decision_value" not in play_and_measure({"max_overs": 1}, ("heuristic", "aggressive"))["home"]


def play_and_measure(wanted: dict[str, Any], captains: tuple[str, str]) -> dict[str, dict[str, float]]:
    environment, meter = WORLD.environment(), CricketMeter()
    policies: Any = {
        side: WORLD.captains[name].build(derive_seed(3, side))
        for side, name in zip(WORLD.actors, captains, strict=True)
    }
    observation = environment.reset(seed=3, episode_id="ep-1", options=options(**wanted))
    while True:
        for fact in environment.facts():
            meter.take(event(fact.type, **fact.data))
        if observation.done or observation.actor is None:
            return {side: dict(figures) for side, figures in meter.figures().items()}
        decision = policies[observation.actor].choose(observation)
        meter.take(
            event("decision.made", actor=observation.actor, source="heuristic", reasoning=decision.reasoning)
        )
        observation = environment.step(decision.action)
