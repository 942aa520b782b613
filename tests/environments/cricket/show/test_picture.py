"""From afar a match shows its field, where the last ball went, and where wickets fell."""

from __future__ import annotations

import math
from typing import Any

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.grounds import rope_at
from spectator.environments.cricket.match.field import PITCH_M
from spectator.environments.cricket.show.drawing import picture
from spectator.environments.cricket.show.summary import chances
from spectator.environments.world import MAX_PICTURE_BYTES
from spectator.events import Event, encode_json
from spectator.json_values import apply_patch, make_patch
from tests.environments.cricket.playing import play

Shown = list[tuple[Event, dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def shown() -> Shown:
    """Every event of a match, with the state after it and what is drawn of that."""
    told = play(9, max_overs=4, ground="lopsided", forecast_futures=20)
    state: dict[str, Any] = {"world": {}, "decisions": {}, "feed": {}}
    found: Shown = []
    for seq, fact in enumerate(told.facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        state = {**state, "world": apply_patch(state["world"], WORLD.projection(state, event))}
        found.append((event, state["world"], picture(state["world"])))
    return found


def test_there_is_a_ground_from_the_beginning_and_a_ball_once_one_is_bowled(shown: Shown) -> None:
    assert picture({}) == {}
    started = False
    for event, _, drawn in shown:
        assert len(drawn["rope"]) == 8
        started = (started and event.type != "cricket.innings_started") or event.type == "cricket.ball_bowled"
        assert ("ball" in drawn) is started
        if event.type == "cricket.ball_bowled":
            assert (drawn["ball"]["seq"], drawn["ball"]["kind"]) == (event.seq, event.data["kind"])
            assert drawn.get("powerplay", False) is event.data["powerplay_next"]


def test_a_six_ends_over_the_rope_a_four_on_it_and_fielders_stand_inside(shown: Shown) -> None:
    kinds = set()
    for event, _, drawn in shown:
        rope = tuple(drawn["rope"])
        beyond = [
            math.dist((x, y), (0, PITCH_M / 2)) - rope_at(rope, x, y - PITCH_M / 2)
            for x, y in drawn["men"].values()
        ]
        assert all(distance < 1 for distance in beyond)
        if (
            event.type == "cricket.ball_bowled"
            and event.data["kind"] in ("four", "six")
            and "to" in drawn["ball"]
        ):
            kinds.add(event.data["kind"])
            assert len(drawn["men"]) == 11
    assert kinds == {"four", "six"}


def test_marks_are_the_wickets_among_the_chances(shown: Shown) -> None:
    _, world, drawn = shown[-1]
    told = [world["chances"][innings][ball] for innings in sorted(world["chances"])
            for ball in sorted(world["chances"][innings])]  # fmt: skip
    assert [told[place]["mark"] for place in drawn["marks"]] == ["W"] * len(drawn["marks"])
    assert len(drawn["marks"]) == sum(len(card["fall"]) for card in world["scorecards"].values()) > 1
    assert max(drawn["marks"]) < len(chances(world))


def test_a_match_without_forecasts_has_no_marks_once_that_is_known() -> None:
    told = play(9, max_overs=1, forecast_futures=0)
    world: dict[str, Any] = {}
    for seq, fact in enumerate(told.facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        world = apply_patch(world, WORLD.projection({"world": world, "decisions": {}}, event))
        assert ("marks" in picture(world)) is ("last_ball" not in world)


def test_it_is_small_and_a_ball_changes_little_of_it(shown: Shown) -> None:
    before: dict[str, Any] = {}
    changed = []
    for _, _, drawn in shown:
        assert len(encode_json(drawn)) < MAX_PICTURE_BYTES / 3
        changed.append(len(encode_json(make_patch(before, drawn))))
        before = drawn
    assert sum(changed) / len(changed) < 60
