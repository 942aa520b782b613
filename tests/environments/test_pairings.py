"""Who is suggested to play whom: two different captains who cost nothing, a model first if there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spectator.catalog import load_world, world_names
from spectator.environments.world import World
from spectator.policies.policy import Preset

WHOLE = load_world("cricket")
CRICKET = replace(
    WHOLE, captains={name: one for name, one in WHOLE.captains.items() if one.source != "model"}
)
MODEL = replace(CRICKET.captains["heuristic"], name="taught", label="Taught", source="model")


def with_model(model: Preset) -> World:
    return replace(CRICKET, captains={**CRICKET.captains, model.name: model})


@pytest.mark.parametrize("name", world_names())
def test_everybody_suggested_is_there_and_plays_somebody_else(name: str) -> None:
    world = load_world(name)
    for captain, opponent in world.pairings():
        assert captain in world.captains
        assert opponent != captain
        assert (opponent in world.opponents) if world.opponents else opponent is None


def test_the_labels_of_cricket_s_captains_are_short_and_distinct() -> None:
    labels = [one.label for one in {**WHOLE.captains, **WHOLE.opponents}.values()]
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= 24 for label in labels)


def test_a_model_that_plays_here_for_nothing_is_in_every_pair() -> None:
    pairings = with_model(MODEL).pairings()
    assert {captain for captain, _ in pairings} == {"taught"}
    assert [opponent for _, opponent in pairings] == [opponent for _, opponent in CRICKET.showcase]


def test_the_trained_captain_of_cricket_is_in_every_pair() -> None:
    assert {captain for captain, _ in WHOLE.pairings()} == {"trained"}


@pytest.mark.parametrize("change", [{"missing": "needs a key"}, {"costs_money": True}])
def test_a_model_that_cannot_play_here_for_nothing_is_in_none(change: dict[str, Any]) -> None:
    assert with_model(replace(MODEL, **change)).pairings() == CRICKET.pairings()


def test_a_world_that_names_no_pairs_has_its_usual_captain_meet_the_others() -> None:
    pairings = replace(CRICKET, showcase=()).pairings()
    assert {captain for captain, _ in pairings} == {"heuristic"}
    assert {"planner", "aggressive"} <= {opponent for _, opponent in pairings}
    assert not {"heuristic", "self", "oracle"} & {opponent for _, opponent in pairings}
