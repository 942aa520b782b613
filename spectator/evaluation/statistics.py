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

NORMAL: Final = 1.959964
"""The 97.5 % point of the normal distribution."""

LEAST_ERROR: Final = 0.25
"""Least standard error of a resampled mean, in that of the sample: few values may come out all alike."""

PRIOR_GAMES: Final = 1.0
"""Drawn games against each opponent that a rating is given, so that it stays finite when one always wins."""

ELO: Final = 400.0 / math.log(10.0)
"""Rating points in one unit of log-odds: 400 points are ten to one."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the interval about it.

    Args:
        value: The estimate.
        low: Lower end.
        high: Upper end.
        n: Independent units that it rests on.
    """

    value: float
    low: float
    high: float
    n: int


def share_interval(pairs: Sequence[float], rng: np.random.Generator, *, draws: int = DRAWS) -> Interval:
    """The share of matches won, from the share won of every pair.

    Percentile bootstrap over pairs, :data:`PRIOR_PAIRS` added; the estimate itself is the plain mean.

    Args:
        pairs: Share of each pair in [0, 1], at least one.
        rng: Source of chance.
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
    other; `python -m benchmarks.intervals` measures how often they cover the mean. One unit has no interval.

    Args:
        values: At least one.
        rng: Source of chance.
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


def student_interval(values: Sequence[float]) -> Interval:
    """The mean of any figure with Student's interval, which needs no resampling; one unit has none.

    Raises:
        ValueError: There is no value.

    >>> found = student_interval([1.0, 2.0, 3.0])
    >>> found.value, round(found.high - found.value, 2)
    (2.0, 2.48)
    """
    if not values:
        raise ValueError("a mean needs at least one value")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Interval(mean, mean, mean, 1)
    error = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (n - 1) / n)
    return Interval(mean, mean - student(n - 1) * error, mean + student(n - 1) * error, n)


def student(freedom: int) -> float:
    """The 97.5 % point of Student's t, good to 0.2 %: exact up to two degrees of freedom, then its expansion.

    Fisher and Cornish 1960; Abramowitz and Stegun 26.7.5.

    >>> [round(student(freedom), 2) for freedom in (1, 2, 9, 100)]
    [12.71, 4.3, 2.26, 1.98]
    """
    if freedom < 3:
        return (12.7062, 4.30265)[freedom - 1]
    z = NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def wilson(points: float, games: int) -> Interval:
    """The share of games won, without any pairs: Wilson's interval, a tie counting as half a win.

    Args:
        points: Wins and half the ties.
        games: At least 1.

    Raises:
        ValueError: ``games`` is below 1, or ``points`` not from 0 to ``games``.

    >>> found = wilson(points=12, games=20)
    >>> round(found.low, 2), found.value, round(found.high, 2)
    (0.39, 0.6, 0.78)
    """
    if games < 1 or not 0 <= points <= games:
        raise ValueError(f"{points} points of {games} games")
    z2 = NORMAL**2
    share = points / games
    centre = (share + z2 / (2 * games)) / (1 + z2 / games)
    spread = math.sqrt(z2 * (share * (1 - share) / games + z2 / (4 * games**2))) / (1 + z2 / games)
    return Interval(share, min(share, centre - spread), max(share, centre + spread), games)


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
        rng: Source of chance.
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


def bradley_terry(points: Floats, games: Floats, *, steps: int = 500, tolerance: float = 1e-9) -> Floats:
    """Ratings in Elo points, mean 0, of many independent fields at once, by Hunter's MM iteration.

    Args:
        points: Wins and half the ties, shape (fields, k, k), row against column.
        games: Games, likewise, symmetric.
        steps: Most iterations.
        tolerance: Change of log-strength at which the iteration ends.
    """
    k = points.shape[1]
    apart = 1.0 - np.eye(k)
    met = np.where(games > 0, PRIOR_GAMES, 0.0) * apart
    won = ((points + met / 2.0) * apart).sum(axis=2)
    played = (games + met) * apart
    strength = np.ones(won.shape)
    for _ in range(steps):
        expected = (played / (strength[:, :, None] + strength[:, None, :])).sum(axis=2)
        after = np.where(expected > 0, won / np.where(expected > 0, expected, 1.0), strength)
        after /= np.exp(np.log(after).mean(axis=1, keepdims=True))
        moved = float(np.abs(np.log(after) - np.log(strength)).max())
        strength = after
        if moved < tolerance:
            break
    return ELO * np.log(strength)


def _weights(n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Bootstrap weights, each row summing to 1."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=draws) / n


def _ends(sampled: Floats) -> tuple[float, float]:
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(sampled, (tail, 100.0 - tail))
    return float(low), float(high)
