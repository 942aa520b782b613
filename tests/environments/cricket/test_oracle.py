"""The oracle sees the truth, says so, and nobody gets it who did not ask for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.lookahead import category_values, situation_of
from spectator.environments.cricket.oracle import worth_of
from tests.commands import spectator
from tests.environments.cricket.playing import begin, captain

SAYS = "The next ball is: "


def test_it_is_marked_and_never_a_default() -> None:
    oracle = WORLD.captains["oracle"]
    assert oracle.source == "oracle"
    assert "sees the truth" in oracle.label
    assert WORLD.default_captain != "oracle"
    assert "oracle" not in WORLD.opponents


def test_what_it_foresees_as_batting_captain_is_what_happens_and_its_record_is_the_truth(
    tmp_path: Path,
) -> None:
    play = ["play", "cricket", "--captain", "oracle", "--seed", "4", "--option", "max_overs=2"]
    played = spectator(*play, "--data-dir", tmp_path)
    assert played.exit_code == 0, played.output
    events = [json.loads(line) for line in played.stdout.splitlines()]
    foreseen: str | None = None
    kept, tools = 0, set[str]()
    for event in events:
        data = event["data"]
        if event["type"] == "decision.made" and data["actor"] == "home":
            assert data["source"] == "oracle"
            tools.add(data["action"]["tool"])
            playing = data["action"]["tool"] == "play_delivery"
            foreseen = data["reasoning"].removeprefix(SAYS).removesuffix(".") if playing else None
        elif event["type"] == "cricket.ball_bowled" and foreseen is not None:
            assert data["words"] == foreseen
            kept += 1
    assert kept >= 6
    assert tools >= {"plan_delivery", "plan_shot"}, "it plans as the planner does"
    verified = spectator("verify", events[0]["episode_id"], "--data-dir", tmp_path)
    assert verified.exit_code == 0, verified.output


FACTS = {"dismissal": None, "wides": 0, "noball": 0, "byes": 0, "legbyes": 0, "bat": 0, "runs": 0}
CHASE = np.array([0.50, 0.56, 0.61, 0.65, 0.69, 0.77, 0.38, 0.42, 0.58, 0.66, 0.56])


@pytest.mark.parametrize(
    ("brought", "worth"),
    [
        ({}, 0.0),
        ({"bat": 6, "runs": 6}, 0.27),
        ({"dismissal": "caught"}, -0.12),
        ({"dismissal": "run out", "bat": 1, "runs": 1}, -0.08 + 0.06),
        ({"wides": 5, "runs": 5}, 0.08 + 4 * 0.06),
        ({"noball": 1, "bat": 4, "runs": 5}, 0.16 + 3 * 0.06),
        ({"legbyes": 2, "runs": 2}, 0.06 + 0.06),
        ({"bat": 5, "runs": 5}, 0.19 + 0.06),
    ],
)
def test_a_ball_is_worth_what_its_category_is_worth_there(brought: dict[str, Any], worth: float) -> None:
    assert worth_of(FACTS | brought, CHASE) == pytest.approx(worth)
    assert worth_of({}, CHASE) == 0.0


def test_it_takes_a_wicket_for_what_it_costs_where_it_falls() -> None:
    environment, observation = begin(3, max_overs=20)
    usual = captain("heuristic", 1)
    while observation.content["phase"] != "bat":
        observation = environment.step(usual.choose(observation).action)
    first, out = situation_of(observation.content), FACTS | {"dismissal": "bowled"}
    last = replace(first, balls_bowled=119, wickets_lost=5)
    assert worth_of(out, category_values(first)) < -8.0
    assert worth_of(out, category_values(last)) > -0.5, "a wicket costs nothing more on the last ball"
