"""What is drawn is what happened: catches, stops, boundaries, run-outs, keeper and bowler, left-handers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.grounds import rope_at
from spectator.environments.cricket.ball.situation import LENGTHS, LINES
from spectator.environments.cricket.match.field import PITCH_M, zone_of
from spectator.environments.cricket.show.drawing import BLOCKED_M, STUMPS, draw_ball, picture
from spectator.environments.cricket.show.scenes import CENTRE, RADIUS, scenes
from spectator.events import Event
from spectator.json_values import apply_patch
from tests.environments.cricket.playing import play


@dataclass(frozen=True)
class DrawnBall:
    """A ball, the state before and after it, and its drawing."""

    event: Event
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def data(self) -> Mapping[str, Any]:
        return self.event.data

    @property
    def drawn(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.after["drawing"]
        return found

    @property
    def end(self) -> tuple[float, float]:
        x, y = self.drawn["ball"]["to"]
        return x, y

    @property
    def man(self) -> tuple[float, float] | None:
        by = self.drawn["ball"].get("by")
        return None if by is None else tuple(self.drawn["men"][by][:2])


def states(seed: int, **options: Any) -> Iterator[tuple[Event, dict[str, Any], dict[str, Any]]]:
    world: dict[str, Any] = {}
    for seq, fact in enumerate(play(seed, forecast_futures=0, **options).facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        after = apply_patch(world, WORLD.projection({"world": world, "decisions": {}}, event))
        yield event, world, after
        world = after


@pytest.fixture(scope="module")
def balls() -> list[DrawnBall]:
    """The balls of four matches, on a neutral and on other grounds; fifty overs have two powerplays."""
    return [
        DrawnBall(*one)
        for seed, overs, ground in (
            (7, 20, "neutral"),
            (8, 20, "lopsided"),
            (9, 20, "broad"),
            (11, 50, "neutral"),
        )
        for one in states(seed, max_overs=overs, ground=ground, away="match_ups")
        if one[0].type == "cricket.ball_bowled"
    ]


def named(ball: DrawnBall) -> tuple[float, float]:
    """Where the man stands whom the record names."""
    return next((x, y) for x, y, name in ball.drawn["men"].values() if name == ball.data["position"])


def test_a_catch_ends_at_its_catcher(balls: list[DrawnBall]) -> None:
    caught = [ball for ball in balls if str(ball.data["dismissal"]).startswith("caught")]
    assert {"keeper", "bowler"} < {ball.data["position"] for ball in caught}
    for ball in caught:
        assert math.dist(ball.end, named(ball)) < 3
        assert ball.man == named(ball)
    placed = [ball for ball in caught if ball.data["position"] not in ("keeper", "bowler")]
    assert len(placed) > 12
    for ball in placed:
        men = ball.before["field"]["fielders"].values()
        spots = [(one["x"], one["y"]) for one in men if one["name"] == ball.data["position"]]
        assert min(math.dist(ball.end, spot) for spot in spots) < 15, "moved inside the rope at most"


def test_a_stop_ends_at_its_fielder_in_its_sector(balls: list[DrawnBall]) -> None:
    stopped = [
        ball
        for ball in balls
        if ball.data["zone"] and not ball.data["dismissal"] and not ball.data["boundary"]
    ]
    stood = 0
    for ball in stopped:
        assert zone_of(*ball.end) == ball.data["zone"], ball.data["words"]
        if ball.man is None:
            assert ball.data["shot"] == "defend"
            assert math.hypot(*ball.end) < BLOCKED_M + 1
            continue
        nearest = min(math.dist(ball.end, man[:2]) for man in ball.drawn["men"].values())
        assert math.dist(ball.end, ball.man) < nearest + 1, "who is nearest runs to it"
        stood += nearest < 1
        if ball.data["ran"] >= 2:
            assert math.hypot(*ball.end) > 27
    assert stood > 0.5 * len(stopped)


def test_a_ball_on_the_ground_passes_through_nobody(balls: list[DrawnBall]) -> None:
    """Except for a few, into sectors that are full of fielders."""
    struck = passed = 0
    for ball in balls:
        if not ball.data["zone"] or ball.data["aerial"] or ball.data["dismissal"]:
            continue
        (x, y), far = ball.end, math.hypot(*ball.end)
        for key, (mx, my, _) in ball.drawn["men"].items():
            along = (x * mx + y * my) / far
            if key.isdigit() and key != ball.drawn["ball"].get("by") and 0 < along < far - 2:
                passed += 1
                struck += abs(x * my - y * mx) / far < 1.5
    assert passed > 500
    assert struck < 0.002 * passed


def test_a_boundary_crosses_the_rope_in_its_sector(balls: list[DrawnBall]) -> None:
    seen: Counter[tuple[str, tuple[float, float]]] = Counter()
    for ball in balls:
        if ball.data["kind"] not in ("four", "six"):
            continue
        x, y = ball.end
        beyond = math.hypot(x, y - PITCH_M / 2) - rope_at(tuple(ball.drawn["rope"]), x, y - PITCH_M / 2)
        assert beyond == pytest.approx(6 if ball.data["kind"] == "six" else 0, abs=1.3)
        assert zone_of(x, y) == ball.data["zone"]
        seen[ball.data["kind"], ball.end] += 1
    assert {kind for kind, _ in seen} == {"four", "six"}
    assert len(seen) > 0.6 * seen.total(), "not all to the same place"


def test_what_was_not_hit_ends_at_stumps_pad_or_keeper(balls: list[DrawnBall]) -> None:
    seen = set()
    for ball in balls:
        out = ball.data["dismissal"]
        if out == "bowled":
            assert ball.end == STUMPS["striker"]
        elif out == "lbw":
            assert math.dist(ball.end, (0, 1)) < 1
        elif out == "stumped":
            assert ball.drawn["men"]["keeper"][1] > -4
            assert ball.drawn["ball"]["by"] == "keeper"
        elif not ball.data["zone"] and not out and not ball.data["ran"] and not ball.data["boundary"]:
            assert ball.man == ball.end or ball.data["contact"] == "padded"
        seen.add(out)
        assert ball.drawn["ball"].get("out") == out
    assert {"bowled", "lbw", "run out"} <= seen


def test_a_run_out_is_at_the_end_that_the_next_batter_comes_to() -> None:
    runs_out = [
        DrawnBall(*one)
        for seed in range(12)
        for one in states(seed, max_overs=10)
        if one[0].type == "cricket.ball_bowled" and one[0].data["dismissal"] == "run out"
    ]
    ends = Counter(ball.drawn["ball"]["broken"] for ball in runs_out)
    assert set(ends) == {"striker", "non_striker"}
    for ball in runs_out:
        data = ball.data
        assert ball.man == ball.end == named(ball)
        over_ended = data["ball"] == 6 and not data["wides"] and not data["noball"]
        vacant = next(end for end in ("striker", "non_striker") if data["ends"][end] is None)
        assert (vacant == ball.drawn["ball"]["broken"]) is not over_ended


def test_keeper_and_bowler_stand_in_every_field(balls: list[DrawnBall]) -> None:
    backs = set()
    for ball in balls:
        men, kind = ball.drawn["men"], ball.data["bowler_line"]["kind"]
        assert set(men) == {*"123456789", "keeper", "bowler"}
        assert men["bowler"][1] > PITCH_M
        up = men["keeper"][1] > -4
        assert up is ("pace" not in kind or ball.data["dismissal"] == "stumped")
        backs.add(up)
    assert backs == {True, False}


def test_the_field_is_mirrored_for_a_left_hander() -> None:
    bats: dict[str, str] = {}
    for event, before, after in states(7, max_overs=20):
        if event.type == "cricket.batter_selected":
            bats[event.data["player"]["name"]] = event.data["bats"]
        elif event.type == "cricket.ball_bowled":
            ball = DrawnBall(event, before, after)
            left = bats[event.data["striker"]] == "left"
            assert ("left" in ball.drawn) is left
            (scene, *_), x = scenes(event, before, after), ball.drawn["men"]["1"][0]
            assert (
                f'cx="{CENTRE[0] + RADIUS / max(ball.drawn["rope"]) * (-x if left else x):.1f}"' in scene.svg
            )
    assert set(bats.values()) == {"left", "right"}


def test_tile_clip_and_page_have_the_same_places(balls: list[DrawnBall]) -> None:
    for ball in balls:
        assert ball.drawn == draw_ball(ball.before, ball.data, ball.event.seq)
        tile = picture(ball.after)
        assert tile["ball"] == ball.drawn["ball"]
        assert tile["men"] == {key: man[:2] for key, man in ball.drawn["men"].items()}
        flight = scenes(ball.event, ball.before, ball.after)[1].mover
        assert flight is not None
        x, y = ball.end
        scale = RADIUS / max(ball.drawn["rope"])
        x = -x if "left" in ball.drawn else x
        assert flight.places[-1] == pytest.approx(
            (CENTRE[0] + scale * x, CENTRE[1] + scale * (PITCH_M / 2 - y))
        )


def test_a_ball_stays_until_another_field_is_set() -> None:
    last, standing = None, set()
    for event, _, after in states(5, max_overs=4, away="match_ups"):
        ball = after.get("drawing", {}).get("ball")
        if event.type == "cricket.ball_bowled":
            last = event.seq
        if event.type in ("cricket.field_set", "cricket.innings_started"):
            assert ball is None
        elif ball is not None:
            assert ball["seq"] == last
            standing.add(event.type)
    assert {"cricket.ball_bowled", "cricket.over_completed", "cricket.batter_selected"} <= standing


def test_every_ball_is_on_the_pitch_map(balls: list[DrawnBall]) -> None:
    match = [ball for ball in balls if ball.after["teams"] == balls[0].after["teams"]]
    bowled, world = [ball.data for ball in match], match[-1].after
    for innings, made in world["pitched"].items():
        wanted = Counter(
            (
                one["bowler_line"]["number"],
                one["striker_line"]["number"],
                one["length"],
                one["line"],
                one["mark"],
            )
            for one in bowled
            if str(one["innings"]) == innings
        )
        assert Counter((a, b, LENGTHS[c], LINES[d], mark) for a, b, c, d, mark in made.values()) == wanted
