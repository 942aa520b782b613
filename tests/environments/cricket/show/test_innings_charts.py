"""The charts of an innings: wagon wheel, par line, percentile, and the plan beside the ball."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.environments.cricket.show.summary import outlook, par
from tests.environments.cricket.playing import Told, play


def run_off_the_bat(told: Told, innings: int) -> int:
    """Runs of the balls whose direction was told."""
    return sum(
        ball["bat"]
        for ball in told.of("ball_bowled")
        if ball["innings"] == innings and ball["zone"] is not None
    )


def run_on_the_wheel(wheel: dict[str, Any]) -> int:
    """Runs of all strokes of an innings."""
    return sum(
        int(runs) * times
        for sectors in wheel.values()
        for strokes in sectors.values()
        for runs, times in strokes.items()
    )


def test_the_wheel_holds_every_run_off_the_bat_and_par_every_over() -> None:
    told = play(4, "tactician", "aggressive", max_overs=20)
    world = told.state["world"]
    for innings in (1, 2):
        wheel = world["wheel"][str(innings)]
        assert run_on_the_wheel(wheel) == run_off_the_bat(told, innings) > 0
        assert wheel.keys() <= world["scorecards"][str(innings)]["batting"].keys()
        assert list(world["par"][str(innings)]) == [str(over) for over in range(1, 21)]
        overs = [over["over"] for over in told.of("over_completed") if over["innings"] == innings]
        assert list(world["standing"][str(innings)]) == [str(over) for over in overs]
        assert all(5 <= share <= 95 for share in world["standing"][str(innings)].values())


@pytest.mark.parametrize(
    "options", [{"max_overs": 5}, {"max_overs": 20, "level": 210}, {"max_overs": 20, "profile": "women"}]
)
def test_par_of_any_other_match_is_what_average_sides_make_of_it(options: dict[str, Any]) -> None:
    world = play(4, **options).state["world"]
    overs, usual = options["max_overs"], outlook(world)
    for innings in ("1", "2"):
        lines = world["par"][innings]
        assert list(lines) == [str(over) for over in range(1, overs + 1)]
        assert lines[str(overs)]["median"] == pytest.approx(usual.par, abs=0.1)
        assert all(line["low"] < line["median"] < line["high"] for line in lines.values())
        assert all(5 <= share <= 95 for share in world["standing"][innings].values())
    real = par(1, 20)
    assert real is not None and lines[str(overs)]["median"] != real.median


def test_the_plan_stands_beside_the_deed() -> None:
    """Every style tells a plan; a ball shows what it said for the part of the innings it was bowled in."""
    told = play(7, "aggressive", "defensive", max_overs=5)
    ball = told.state["world"]["last_ball"]
    plans = told.state["world"]["plans"]
    batting = told.of("ball_bowled")[-1]["side"]
    bowling = "away" if batting == "home" else "home"
    assert ball["planned"]["segment"] == "death"
    assert ball["planned"]["batting"] == plans[batting]["match_plan"]["batting_death"]
    assert ball["planned"]["bowling"] == plans[bowling]["match_plan"]["bowling_death"]
    assert 0 <= ball["intents"]["aggression"] <= 1
    assert told.state["world"]["field"]["outside_limit"] == 5
