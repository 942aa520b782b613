"""The learner of the cricket benchmark: its gradient is one, it learns, and its page shows it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cricket_learner import TRAINING_FROM, Mark, chart_of, match_of, table_of
from benchmarks.cricket_policy import (
    CHOICES,
    FEATURES,
    PLAYER,
    Choice,
    Learner,
    Told,
    Vector,
    features,
    traits,
)
from tests.environments.cricket.playing import begin, captain


@pytest.mark.parametrize("name", ["attack", "bowler"])
def test_the_gradient_is_that_of_the_logarithm_of_the_probability(name: str) -> None:
    learner, source = Learner(3), np.random.default_rng(1)
    learner.weights[name] = source.normal(size=learner.weights[name].shape)
    seen = source.normal(size=FEATURES) if name == "attack" else source.normal(size=(4, PLAYER))
    open_to = (1, 3, 4, 7) if name == "attack" else range(4)
    place, gradient = learner.choose(name, seen, open_to, best=False)

    def logarithm(weights: Vector) -> float:
        scores = (weights @ seen)[list(open_to)] if seen.ndim == 1 else seen @ weights[0]
        return float(scores[list(open_to).index(place)] - np.log(np.exp(scores).sum()))

    weights, step = learner.weights[name], 1e-6
    for at in np.ndindex(*weights.shape):
        moved = weights.copy()
        moved[at] += step
        assert (logarithm(moved) - logarithm(weights)) / step == pytest.approx(gradient[at], abs=1e-4)


def test_what_brought_more_becomes_likelier() -> None:
    learner, seen = Learner(1), np.eye(FEATURES)[0]
    for _ in range(40):
        told: list[Told] = []
        for _ in range(8):
            place, gradient = learner.choose("pace", seen, range(len(CHOICES["pace"])), best=False)
            told.append(([Choice("pace", gradient)], 1.0 if place == 2 else 0.0))
        learner.learn(told)
    assert learner.choose("pace", seen, range(len(CHOICES["pace"])), best=True)[0] == 2


def test_a_choice_is_weighed_without_the_player_that_was_chosen_with_it() -> None:
    learner, source = Learner(2), np.random.default_rng(4)
    seen, players = np.eye(FEATURES)[0], np.eye(PLAYER)[:2]
    for _ in range(40):
        told: list[Told] = []
        for _ in range(12):
            place, gradient = learner.choose("pace", seen, range(len(CHOICES["pace"])), best=False)
            _, other = learner.choose("line", seen, range(len(CHOICES["line"])), best=False)
            who = int(source.integers(2))
            choices = [
                Choice("bowler", np.zeros((1, PLAYER)), players[who]),
                Choice("pace", gradient),
                Choice("line", other),
            ]
            told.append((choices, 30.0 * who + (1.0 if place == 2 else 0.0)))
        learner.learn(told)
    assert learner.choose("pace", seen, range(len(CHOICES["pace"])), best=True)[0] == 2


def test_it_sees_what_suits_the_batters_who_are_in() -> None:
    environment, observation = begin(5, max_overs=2, decisions="over")
    usual = captain("heuristic", 1)
    while observation.content["phase"] != "batting_plan":
        observation = environment.step(usual.choose(observation).action)
    view = observation.content
    pair = {view["striker"]["name"], view["non_striker"]["name"]}
    two = [man for man in view["squads"][view["batting"]]["players"] if man["name"] in pair]
    told = [3.0 * sum(man[name] for man in two) for name in ("bat_spin", "bat_short", "bat_leg")]
    assert traits(view) == pytest.approx(told) and len(two) == 2
    assert list(features(view)[-4:-1]) == pytest.approx(told)


def test_a_match_pays_what_its_choices_brought_and_is_the_same_again() -> None:
    score, told = match_of(Learner(5), TRAINING_FROM, overs=2)
    again, told_again = match_of(Learner(5), TRAINING_FROM, overs=2)
    assert score == again and len(told) == len(told_again) >= 8
    assert score < 0.0, "arguments drawn evenly cost matches"
    made = {choice.name for choices, _ in told for choice in choices}
    assert made >= {"aggression", "attack", "preset", "bowler", "batter"}
    assert match_of(None, TRAINING_FROM, overs=2)[0] == 0.0, "the usual decisions are worth nothing"


def test_the_curve_shows_every_mark() -> None:
    marks = [Mark(0, 0.0, [-9.0, -7.0]), Mark(120, 12.5, [1.0, 2.0])]
    assert marks[1].mean == 1.5 and marks[1].error == pytest.approx(0.98)
    assert table_of(marks)[-1] == "| 120 | 12 s | +1.50 ± 0.98 |"
    assert "<svg" in chart_of(marks) and "learner" in chart_of(marks)
