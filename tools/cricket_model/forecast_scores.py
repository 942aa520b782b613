"""Score chances against outcomes, and fit the six-parameter logistic that a forecast must beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools.cricket_model.fitting.counts import read_json
from tools.cricket_model.forecast_matches import ChaseState

Floats = NDArray[np.float64]

DRAWS: Final = 4000
RESAMPLING_SEED: Final = 1
FOLDS: Final = 2
LEAST: Final = 0.001
"""Least distance of a chance from 0 and 1 in the log loss: the resolution of a thousand futures."""


class ScoreGap(NamedTuple):
    """Mean scores of two forecasters on the same matches; lower is better.

    Args:
        ours: Score of the forecast.
        theirs: Score of the other.
        low: Lower end of the 95 % interval of the difference, by resampling matches.
        high: Its upper end.
    """

    ours: float
    theirs: float
    low: float
    high: float


def brier(chance: Floats, won: Floats) -> Floats:
    """Return the squared error of every chance."""
    return np.asarray((chance - won) ** 2)


def log_loss(chance: Floats, won: Floats) -> Floats:
    """Return the log loss of every chance, in nats."""
    sure = np.clip(chance, LEAST, 1.0 - LEAST)
    return np.asarray(-won * np.log(sure) - (1.0 - won) * np.log(1.0 - sure))


def compare(ours: Floats, theirs: Floats) -> ScoreGap:
    """Return the means of two scores of the same matches, with a bootstrap over matches.

    >>> same = np.array([0.1, 0.2])
    >>> tuple(compare(same, same)[2:])
    (0.0, 0.0)
    """
    difference = ours - theirs
    rng = np.random.default_rng(RESAMPLING_SEED)
    means = [float(rng.choice(difference, len(difference)).mean()) for _ in range(DRAWS)]
    low, high = (float(end) for end in np.percentile(means, (2.5, 97.5)))
    return ScoreGap(float(ours.mean()), float(theirs.mean()), low, high)


def moved_to(mean: float, chance: Floats) -> Floats:
    """Shift all log odds by one constant so that the mean chance is ``mean``.

    >>> moved_to(0.6, np.array([0.5, 0.5])).round(3).tolist()
    [0.6, 0.6]
    """
    odds = np.log(chance / (1.0 - chance))
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2.0
        moved = np.asarray(1.0 / (1.0 + np.exp(-odds - middle)))
        low, high = (middle, high) if moved.mean() < mean else (low, middle)
    return moved


def against_logistic(states: Sequence[ChaseState]) -> tuple[ScoreGap, ScoreGap]:
    """Compare Brier score and log loss of forecast and logistic, one state per match.

    The logistic that judges a match is fitted to the other half of the matches only.
    """
    won = np.array([at.won for at in states])
    ours = np.array([at.chance for at in states])
    theirs = np.empty(len(states))
    for fold in range(FOLDS):
        rest = [at for number, at in enumerate(states) if number % FOLDS != fold]
        theirs[fold::FOLDS] = chances(states[fold::FOLDS], fit_logistic(rest))
    return (
        compare(brier(ours, won), brier(theirs, won)),
        compare(log_loss(ours, won), log_loss(theirs, won)),
    )


def chances(states: Sequence[ChaseState], beta: Floats) -> Floats:
    """Return the logistic's chance of every state."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(_features(states) @ beta, -30, 30))))


def fit_logistic(states: Sequence[ChaseState]) -> Floats:
    """Fit the weights of the six terms, by Newton's method with a small ridge."""
    x, y = _features(states), np.array([at.won for at in states])
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ beta, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(len(beta))
        beta += np.linalg.solve(hessian, x.T @ (y - p) - 0.01 * beta)
    return np.asarray(beta)


def chase_chance(balls_left: int, lost: int, needed: int) -> float:
    """Return the chance of a chase by the logistic of `win_prob_model.json` (men's T20, 2018-2024).

    >>> round(chase_chance(balls_left=30, lost=4, needed=45), 2)
    0.68
    """
    x = np.array(_terms(balls_left, lost, needed)) @ np.array(read_json("win_prob_model.json")["beta"])
    return float(1.0 / (1.0 + np.exp(-np.clip(x, -40.0, 40.0))))


def _features(states: Sequence[ChaseState]) -> Floats:
    return np.array([_terms(at.balls_left, at.lost, at.needed) for at in states])


def _terms(balls_left: int, lost: int, needed: int) -> tuple[float, ...]:
    """Return the six terms of the logistic; `resources_model.json` has the runs to come."""
    model, overs = read_json("resources_model.json"), balls_left / 6.0
    share = model["F"][lost]
    to_come = model["Z0"] * share * (1.0 - math.exp(-model["b"] * overs / share))
    z = (to_come - needed) / math.sqrt(max(4.0, 9.0 * overs))
    h, v = (10 - lost) / 10.0, overs / 20.0
    return 1.0, z, math.copysign(z * z / 10.0, z), h, v, h * v
