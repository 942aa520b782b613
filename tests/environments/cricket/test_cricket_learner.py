"""The learner of the cricket benchmark: its gradient is one, it learns, and its page shows it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cricket_learner import (
    CHOICES,
    FEATURES,
    PLAYER,
    TRAINING_FROM,
    Learner,
    Mark,
    chart_of,
    match_of,
    table_of,
)


@pytest.mark.parametrize("name", ["attack", "bowler"])
def test_the_gradient_is_that_of_the_logarithm_of_the_probability(name: str) -> None:
    learner, source = Learner(3), np.random.default_rng(1)
    learner.weights[name] = source.normal(size=learner.weights[name].shape)
    seen = source.normal(size=FEATURES) if name == "attack" else source.normal(size=(4, PLAYER))
    open_to = (1, 3, 4, 7) if name == "attack" else range(4)
    place, gradient = learner.choose(name, seen, open_to, best=False)

    def logarithm(weights: np.ndarray) -> float:
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
        told = []
        for _ in range(8):
            place, gradient = learner.choose("pace", seen, range(len(CHOICES["pace"])), best=False)
            told.append(("pace", gradient, 1.0 if place == 2 else 0.0))
        learner.learn(told)
    assert learner.choose("pace", seen, range(len(CHOICES["pace"])), best=True)[0] == 2


def test_a_match_pays_what_its_choices_brought_and_is_the_same_again() -> None:
    score, told = match_of(Learner(5), TRAINING_FROM, overs=2)
    again, told_again = match_of(Learner(5), TRAINING_FROM, overs=2)
    assert score == again and len(told) == len(told_again) > 10
    assert score < 0.0, "arguments drawn evenly cost matches"
    assert {name for name, _, _ in told} >= {"aggression", "attack", "preset", "bowler", "batter"}
    assert match_of(None, TRAINING_FROM, overs=2)[0] == 0.0, "the usual decisions are worth nothing"


def test_the_curve_shows_every_mark() -> None:
    marks = [Mark(0, 0.0, [-9.0, -7.0]), Mark(120, 12.5, [1.0, 2.0])]
    assert marks[1].mean == 1.5 and marks[1].error == pytest.approx(0.98)
    assert table_of(marks)[-1] == "| 120 | 12 s | +1.50 ± 0.98 |"
    assert "<svg" in chart_of(marks) and "learner" in chart_of(marks)
