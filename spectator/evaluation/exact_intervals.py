"""Intervals that a formula gives, without resampling: Student's of a mean, Wilson's of a share.

They need no NumPy, so that whoever shows a leaderboard starts without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NORMAL: Final = 1.959964
"""The 97.5 % point of the normal distribution."""


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
