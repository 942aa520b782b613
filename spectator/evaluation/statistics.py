"""Statistics of paired matches: shares, intervals, and a ranking with its uncertainty.

The unit of all resampling is the seed: the two matches of a pair share squads, coin and conditions, and every
pair of captains plays the same seeds, so neither matches of a pair nor pairs on a seed are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.evaluation.intervals import Interval, student_interval

Floats = NDArray[np.float64]

LEVEL: Final = 0.95
"""Coverage that every interval aims at."""

DRAWS: Final = 4000
"""Bootstrap samples; the ends of an interval then move by a few hundredths of its width from seed to seed."""

PRIOR_PAIRS: Final = 2.0
"""Pairs, half won and half lost, that are added to a share before it is resampled.

Without them the interval of a captain who won every match would be a point. They pull an interval of n pairs
towards one half by 2 / (n + 2); see `tests/evaluation/test_statistics.py` for the coverage with them.
"""

LEAST_ERROR: Final = 0.25
"""Least standard error of a resampled mean, in that of the sample: few values may come out all alike."""

PRIOR_GAMES: Final = 1.0
"""Drawn games against each opponent that a rating is given, so that it stays finite when one always wins."""

ELO: Final = 400.0 / math.log(10.0)
"""Rating points in one unit of log-odds: 400 points are ten to one."""


def share_interval(pairs: Sequence[float], rng: np.random.Generator, *, draws: int = DRAWS) -> Interval:
    """The share of matches won, from the share won of every pair.

    Percentile bootstrap over pairs, :data:`PRIOR_PAIRS` added; the estimate itself is the plain mean.

    Args:
        pairs: Share of each pair in [0, 1], at least one.
        draws: Bootstrap samples.

    Raises:
        ValueError: There is no pair, or a share is outside [0, 1].

    >>> won = share_interval([1.0, 0.5, 1.0, 0.5, 1.0, 0.0, 1.0, 0.5], np.random.default_rng(1))
    >>> round(won.value, 2), round(won.low, 2), round(won.high, 2)
    (0.69, 0.4, 0.9)
    """
    shares = np.asarray(pairs, dtype=np.float64)
    if shares.size == 0 or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise ValueError("shares of pairs are from 0 to 1, and there is at least one")
    half = PRIOR_PAIRS / 2.0
    padded = np.concatenate([shares, np.ones(round(half)), np.zeros(round(half))])
    low, high = _ends(_weights(padded.size, draws, rng) @ padded)
    value = float(shares.mean())
    return Interval(value, min(low, value), max(high, value), int(shares.size))


def mean_interval(
    values: Sequence[float],
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Interval:
    """The mean of any figure, one value a unit: the wider of the bootstrap-t and Student's interval.

    The bootstrap-t follows a skewed distribution, Student's holds where few units happen to lie close to each
    other; `python -m tools.intervals` measures how often they cover the mean. One unit has no interval.

    Args:
        values: At least one.
        draws: Bootstrap samples.
        bounds: Least and greatest that the mean can be, where that is known.

    Raises:
        ValueError: There is none.

    >>> found = mean_interval([0.2, 0.4, 0.1, 0.9, 0.3], np.random.default_rng(1), bounds=(0.0, 1.0))
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.38, 0.0, 1.0)
    """
    array = np.asarray(values, dtype=np.float64)
    found = student_interval(values)
    error = float(array.std(ddof=1)) / math.sqrt(array.size) if array.size > 1 else 0.0
    if error == 0.0:
        return found
    weights = _weights(array.size, draws, rng)
    means = weights @ array
    spread = np.maximum(weights @ (array - found.value) ** 2 - (means - found.value) ** 2, 0.0)
    errors = np.maximum(np.sqrt(spread / (array.size - 1)), LEAST_ERROR * error)
    low, high = _ends((means - found.value) / errors)
    least, most = bounds
    ends = min(found.low, found.value - high * error), max(found.high, found.value - low * error)
    return Interval(
        found.value,
        ends[0] if least is None else min(found.value, max(least, ends[0])),
        ends[1] if most is None else max(found.value, min(most, ends[1])),
        found.n,
    )


@dataclass(frozen=True, slots=True)
class Ranked:
    """One captain's place.

    Args:
        name: The captain.
        rating: Elo points against the mean of the field, which is 0.
        best: Share of bootstrap samples in which it is the best.
        rank_low: Best rank, 1 the first, that all but 2.5 % of the samples give it.
        rank_high: Worst likewise.
    """

    name: str
    rating: Interval
    best: float
    rank_low: int
    rank_high: int


def rank(
    names: Sequence[str], points: Floats, games: Floats, rng: np.random.Generator, *, draws: int = DRAWS
) -> list[Ranked]:
    """Bradley-Terry ratings, best first, resampling whole seeds.

    Bradley-Terry, because it also ranks captains whose schedule is not complete (a match that broke down, an
    evaluation under way); for a complete round robin its order is that of the win shares.

    Args:
        names: The captains.
        points: By seed, captain and opponent: wins and half the ties; shape (seeds, k, k).
        games: Games likewise, symmetric in the last two; a seed on which a pair did not meet holds 0.
        draws: Bootstrap samples.

    Raises:
        ValueError: The shapes do not agree, or there are fewer than two captains or no seed.
    """
    seeds, k = points.shape[0], len(names)
    if k < 2 or not seeds or points.shape != (seeds, k, k) or games.shape != points.shape:
        raise ValueError("a ranking needs two captains, a seed, and one square of points and games a seed")
    estimate = bradley_terry(points.sum(axis=0)[None], games.sum(axis=0)[None])[0]
    weights = np.rint(_weights(seeds, draws, rng) * seeds)
    extra_points = rng.poisson(PRIOR_PAIRS / 2.0, size=(draws, k, k)) * games.max(axis=0)
    extra_games = extra_points + np.swapaxes(extra_points, 1, 2)
    sampled = bradley_terry(
        (weights @ points.reshape(seeds, k * k)).reshape(-1, k, k) + extra_points,
        (weights @ games.reshape(seeds, k * k)).reshape(-1, k, k) + extra_games,
    )
    ranks = 1 + (sampled[:, None, :] > sampled[:, :, None]).sum(axis=2)
    firsts = (ranks == 1) / (ranks == 1).sum(axis=1, keepdims=True)
    found = []
    for at, name in enumerate(names):
        low, high = _ends(sampled[:, at])
        first, last = np.percentile(ranks[:, at], (2.5, 97.5), method="nearest")
        value = float(estimate[at])
        rating = Interval(value, min(low, value), max(high, value), seeds)
        found.append(Ranked(name, rating, float(firsts[:, at].mean()), int(first), int(last)))
    return sorted(found, key=lambda one: (-one.rating.value, one.name))


def bradley_terry(points: Floats, games: Floats) -> Floats:
    """Ratings in Elo points, mean 0, of many independent fields at once, by Hunter's MM iteration.

    Args:
        points: Wins and half the ties, shape (fields, k, k), row against column.
        games: Games, likewise, symmetric.
    """
    k = points.shape[1]
    apart = 1.0 - np.eye(k)
    met = np.where(games > 0, PRIOR_GAMES, 0.0) * apart
    won = ((points + met / 2.0) * apart).sum(axis=2)
    played = (games + met) * apart
    strength = np.ones(won.shape)
    for _ in range(500):
        expected = (played / (strength[:, :, None] + strength[:, None, :])).sum(axis=2)
        after = np.where(expected > 0, won / np.where(expected > 0, expected, 1.0), strength)
        after /= np.exp(np.log(after).mean(axis=1, keepdims=True))
        moved = float(np.abs(np.log(after) - np.log(strength)).max())
        strength = after
        if moved < 1e-9:
            break
    return ELO * np.log(strength)


def _weights(n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Bootstrap weights, each row summing to 1."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=draws) / n


def _ends(sampled: Floats) -> tuple[float, float]:
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(sampled, (tail, 100.0 - tail))
    return float(low), float(high)
