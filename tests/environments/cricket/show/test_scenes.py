"""A ball is drawn as it was bowled: the field, the way of the ball, the score before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from spectator.environments.contract import SCENE_HEIGHT, SCENE_WIDTH, Scene, whole_svg
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.show.scenes import CENTRE, RADIUS, scenes
from spectator.events import Event
from spectator.json_values import apply_patch
from tests.environments.cricket.playing import play

Drawn = list[tuple[Event, tuple[Scene, ...]]]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    """Every event of a match with what is drawn of it."""
    told = play(9, max_overs=3, ground="lopsided")
    state: dict[str, Any] = {"world": {}, "decisions": {}, "feed": {}}
    found: Drawn = []
    for seq, fact in enumerate(told.facts, 1):
        event = Event("test", "e", seq, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
        world = apply_patch(state["world"], WORLD.projection(state, event))
        found.append((event, tuple(scenes(event, state["world"], world))))
        state = {**state, "world": world}
    return found


def test_balls_are_drawn_and_nothing_else(drawn: Drawn) -> None:
    for event, made in drawn:
        assert bool(made) is (event.type == "cricket.ball_bowled")
        assert sum(scene.duration_s for scene in made) <= 3.5
    assert sum(bool(made) for _, made in drawn) > 20


def test_a_scene_is_a_drawing_with_the_words_of_its_ball(drawn: Drawn) -> None:
    for event, made in balls(drawn):
        before, flight, after = (words(scene) for scene in made)
        assert before == flight
        assert event.data["bowler"].partition(" ")[2] in before
        assert event.data["mark"] in after
        score = event.data["score"]
        assert f"{score['runs']}/{score['wickets']}" in after
        assert event.data["words"].partition(": ")[2].split()[0] in after


def test_the_ball_ends_where_it_was_hit(drawn: Drawn) -> None:
    for event, made in balls(drawn):
        mover = made[1].mover
        assert mover is not None
        x, y = mover.places[-1]
        away = math.dist((x, y), CENTRE)
        assert 0 < x < SCENE_WIDTH and -20 < y < SCENE_HEIGHT + 20
        kind = event.data["kind"]
        if kind == "four":
            assert away > 0.6 * RADIUS
        if kind == "dot" and event.data["zone"]:
            assert away < 0.6 * RADIUS
    sixes = [made[1].mover for event, made in balls(drawn) if event.data["kind"] == "six"]
    assert sixes


def test_names_are_text(drawn: Drawn) -> None:
    event, made = next(iter(balls(drawn)))
    data = {**event.data, "bowler": "A <b>&", "words": "A to B: <script>"}
    hostile = Event("test", "e", 1, event.at, 0, event.type, data)
    world: Mapping[str, Any] = {
        "teams": {"home": {"name": "<i>"}, "away": {"name": "&amp;"}},
        "score": {"home": {"runs": 1, "wickets": 0}, "away": {"runs": 0, "wickets": 0}},
    }
    texts = [words(scene) for scene in scenes(hostile, {}, world)]
    assert "<b>&" in texts[0] and "<script>" in texts[2]
    assert len(made) == 3


def balls(drawn: Drawn) -> Drawn:
    return [(event, made) for event, made in drawn if made]


def words(scene: Scene) -> str:
    """What is written in a scene, which must be well-formed."""
    root = ElementTree.fromstring(whole_svg(scene.svg, SCENE_WIDTH, SCENE_HEIGHT))
    return " | ".join(part.text or "" for part in root.iter() if part.tag.endswith("text"))
