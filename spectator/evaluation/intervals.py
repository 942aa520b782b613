"""Exact confidence intervals, and reliability as pass@k and pass^k."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.environments.contract import OUTCOME
from spectator.evaluation.figures import PROMISES, EpisodeFigures

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


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that grows with each value, accurate also where the values hardly differ.

    Args:
        value: The mean.
        n: Number of values.
        squares: Sum of their squared differences from the mean.

    >>> grown = Mean(1.0).plus(Mean(2.0)).plus(Mean(3.0))
    >>> grown.value, grown.n, round(grown.error, 3)
    (2.0, 3, 0.577)
    >>> Mean(1.0).error is None
    True
    """

    value: float
    n: int = 1
    squares: float = 0.0

    def plus(self, other: Mean) -> Mean:
        """Return the mean of both (Chan, Golub and LeVeque 1979)."""
        n, apart = self.n + other.n, other.value - self.value
        return Mean(
            self.value + apart * other.n / n,
            n,
            self.squares + other.squares + apart**2 * self.n * other.n / n,
        )

    @property
    def error(self) -> float | None:
        """The standard error of the mean; ``None`` for fewer than two values."""
        return math.sqrt(self.squares / (self.n - 1) / self.n) if self.n > 1 else None


def student_interval(values: Sequence[float]) -> Interval:
    """Mean with Student's interval, without resampling; the interval of one value is a point.

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
    """The 97.5 % point of Student's t, accurate to 0.2 %.

    It is exact up to two degrees of freedom; above, it uses the expansion by
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
    """Share of independent games won, with Wilson's interval; a tie counts as half a win.

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
        raise ValueError(
            f"points must be from 0 to games, and games at least 1; got {points} points of {games} games"
        )
    z2 = NORMAL**2
    share = points / games
    centre = (share + z2 / (2 * games)) / (1 + z2 / games)
    spread = math.sqrt(z2 * (share * (1 - share) / games + z2 / (4 * games**2))) / (1 + z2 / games)
    return Interval(share, min(share, centre - spread), max(share, centre + spread), games)


EVEN: Final = 0.25
"""The Brier score of always predicting one half."""


@dataclass(frozen=True, slots=True)
class PromisedTenth:
    """The reported win chances within one tenth.

    Args:
        low: Lower end; the upper end is 0.1 above.
        count: Number of reported chances.
        matches: Number of matches that they come from.
        promised: Mean of the chances; ``None`` without any.
        happened: Share that came true, a tie as half. Chances of one match share its outcome, so the interval
            counts the effective number of matches, as if they had equal length.
    """

    low: float
    count: int
    matches: int
    promised: float | None
    happened: Interval | None


class Reliability:
    """Sums up finished matches of one world; see :meth:`tenths`."""

    def __init__(self) -> None:
        self.matches = 0
        self._reported: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
        self._squares = 0.0
        self._all = 0

    def add(self, figures: EpisodeFigures) -> None:
        """Add a match; one without reported chances, unfinished, forked or forfeited is ignored."""
        outcome = figures.seats[0].figures.get(OUTCOME)
        if not figures.promised or figures.reason != "finished" or figures.forked or outcome is None:
            return
        self.matches += 1
        for tenth, (count, total, squares) in enumerate(figures.promised):
            if count:
                self._reported[tenth].append((count, total, outcome))
                self._all += count
                self._squares += squares - 2 * outcome * total + count * outcome**2

    @property
    def brier(self) -> float | None:
        """Mean squared error of the chances: 0 is perfect, :data:`EVEN` is always one half."""
        return self._squares / self._all if self._all else None

    def tenths(self) -> Sequence[PromisedTenth]:
        """All ten, the least likely first.

        >>> [one.count for one in Reliability().tenths()]
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        """
        return [_tenth(tenth / PROMISES, self._reported.get(tenth, [])) for tenth in range(PROMISES)]


def reliability_of(episodes: Iterable[EpisodeFigures]) -> dict[str, Reliability]:
    """By world; only worlds with reported chances in a finished match are included."""
    found: dict[str, Reliability] = defaultdict(Reliability)
    for figures in episodes:
        if figures.promised:
            found[figures.environment].add(figures)
    return {name: one for name, one in found.items() if one.matches}


def _tenth(low: float, reported: Sequence[tuple[int, float, float]]) -> PromisedTenth:
    count = sum(one for one, _, _ in reported)
    if not count:
        return PromisedTenth(low, 0, 0, None, None)
    share = math.fsum(one * outcome for one, _, outcome in reported) / count
    units = max(1, int(count**2 / sum(one**2 for one, _, _ in reported)))
    interval = wilson(share * units, units)
    promised = math.fsum(total for _, total, _ in reported) / count
    return PromisedTenth(low, count, len(reported), promised, interval)
