"""From afar a match shows where it stands, how far it has come and how close it is."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.environments.cricket.show.projection import project
from spectator.environments.cricket.show.summary import glance
from spectator.events import Event
from spectator.json_values import apply_patch
from tests.environments.cricket.playing import play


def sights(**given: Any) -> list[tuple[str, dict[str, Any]]]:
    """The world's part of the viewers' state after every event of a match."""
    world: dict[str, Any] = {}
    seen = []
    for seq, fact in enumerate(play(**given).facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        world = apply_patch(world, project({"world": world, "decisions": {}}, event))
        seen.append((fact.type, world))
    return seen


@pytest.mark.parametrize(
    "given", [{"seed": 3, "max_overs": 2}, {"seed": 7, "max_overs": 5}], ids=["short", "tie"]
)
def test_the_steps_of_a_match_are_its_valid_balls(given: dict[str, Any]) -> None:
    told = sights(**given)
    after = [world["glance"] for kind, world in told if kind == "cricket.ball_bowled"]
    steps = [one["step"] for one in after]
    assert steps == sorted(steps)
    assert set(range(1, steps[-1] + 1)) >= set(steps)
    assert steps[-1] > 12
    assert all(0.0 <= one["progress"] <= 1.0 and 0.0 <= one["suspense"] <= 1.0 for one in after)
    for kind, world in told:
        if kind == "cricket.ball_bowled":
            score = world["score"][world["batting"]]
            assert world["glance"]["value"] == score["runs"]
            assert f"{score['runs']}/{score['wickets']} ({score['overs']})" in world["headline"]
    last = told[-1][1]
    assert last["headline"] == last["result"]
    assert (last["glance"]["progress"], last["glance"]["suspense"]) == (1.0, 0.0)


def test_a_chase_is_the_closer_the_more_open_and_the_later_it_is() -> None:
    def at(balls_left: int, need: int, wickets: int) -> dict[str, Any]:
        bowled = 30 - balls_left
        return glance(
            {
                "teams": {"home": {"name": "Home"}, "away": {"name": "Away"}},
                "format": {"overs": 5, "balls": 30},
                "target": 20 + need,
                "innings": 2,
                "batting": "away",
                "score": {"away": {"runs": 20, "wickets": wickets, "balls": bowled, "overs": "3.0"}},
                "equation": {"need": need, "balls": balls_left},
            }
        )

    close, lost, early = at(6, 9, 4), at(6, 30, 4), at(30, 45, 0)
    assert close["headline"] == "Away 20/4 (3.0), need 9 off 6"
    assert close["glance"]["suspense"] > 0.4 > lost["glance"]["suspense"]
    assert close["glance"]["suspense"] > early["glance"]["suspense"]


def test_before_the_toss_there_are_only_the_names() -> None:
    assert glance({}) == {}
    teams = {"home": {"name": "Home"}, "away": {"name": "Away"}}
    assert glance({"teams": teams})["headline"] == "Home v Away"
