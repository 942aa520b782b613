"""Evaluations that stop when they know: intervals that hold at every stop, and which pair plays next.

The unit is a seed that a pair of captains played: the share that the first one won of it, from 0 to 1, both
seats played. Its mean is estimated by the hedged betting confidence sequence of Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", Journal of the Royal Statistical Society B 86
(2024), 1-27 (arXiv:2010.09686), section 4: with probability 1 - alpha the mean lies in all intervals of the
sequence at once, so they hold whenever and for whatever reason one stops. Several pairs share alpha equally
(Bonferroni), so all intervals of an evaluation hold together.

Which pair plays next depends only on the recorded results in the order of the seeds: a run that was killed
takes the same decisions again, and so does someone who verifies it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.errors import FieldError, InvalidRequest
from spectator.evaluation.intervals import Interval

LEVEL: Final = 0.95
"""Probability that all intervals of an evaluation hold at all times."""

BATCH: Final = 10
"""Seeds that a pair plays before the next decision."""

DOLLARS_A_SECOND: Final = 1e-5
"""What a second of deciding counts beside money, an assumption: a processor core costs 3.6 cents an hour."""

LEAST_COST: Final = 1e-9
"""Least cost of a seed, so that captains whose decisions take no time can be compared, too."""

_STEPS: Final = 1000
"""Steps between 0 and 1 of the means that are tested; an end lies at most one step too far out."""

_TRUNCATION: Final = 0.5
"""Share of the capital that may be lost in one bet, the constant c of the paper."""

_MEANS: Final[NDArray[np.float64]] = np.linspace(0.0, 1.0, _STEPS + 1)
with np.errstate(divide="ignore"):
    _MOST_UP: Final[NDArray[np.float64]] = _TRUNCATION / _MEANS
    _MOST_DOWN: Final[NDArray[np.float64]] = _TRUNCATION / (1.0 - _MEANS)

Pair = tuple[str, str]
"""Two captains, in the order of the evaluation."""


class ConfidenceSequence:
    """Intervals for the mean of values from 0 to 1, all valid at once.

    Two gamblers bet that the mean is higher, or lower, than each candidate. A candidate against which one of
    them multiplies half of the capital by 1 / alpha is rejected for good: by Ville's inequality that happens
    to the true mean with probability alpha at most. The capital of the first falls with the candidate and
    that of the second rises, so what remains is an interval, and a grid of candidates is enough. Any bet that
    rests on earlier values alone is valid; ours, the target over the variance so far, reaches the target with
    about the fewest values.

    Args:
        alpha: Probability that the mean is ever outside.
        target: Half the width at which one wants to stop.

    >>> sequence = ConfidenceSequence(0.05, target=0.05)
    >>> for value in 100 * [0.5, 1.0]:
    ...     sequence.add(value)
    >>> found = sequence.interval()
    >>> round(found.value, 2), 0.65 < found.low < 0.75 < found.high < 0.85
    (0.75, True)
    """

    def __init__(self, alpha: float, target: float) -> None:
        self._needed = math.log(2.0 / alpha)
        self._target = target
        self._up = np.zeros(_STEPS + 1)
        self._down = np.zeros(_STEPS + 1)
        self._sum = 0.0
        self._squares = 0.25
        self._low, self._high = 0.0, 1.0
        self.n = 0
        """Values so far."""

    def add(self, value: float) -> None:
        """Take the next value.

        Raises:
            ValueError: It is not from 0 to 1.
        """
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"a value is from 0 to 1, not {value}")
        self.n += 1
        variance = self._squares / self.n  # of the values before, and one of 1/4
        bet = self._target / variance
        self._up += np.log1p(np.minimum(bet, _MOST_UP) * (value - _MEANS))
        self._down += np.log1p(np.minimum(bet, _MOST_DOWN) * (_MEANS - value))
        self._sum += value
        self._squares += (value - (0.5 + self._sum) / (self.n + 1)) ** 2
        above = np.flatnonzero(self._up >= self._needed)
        below = np.flatnonzero(self._down >= self._needed)
        low = max(self._low, float(_MEANS[above[-1]])) if above.size else self._low
        high = min(self._high, float(_MEANS[below[0]])) if below.size else self._high
        if low <= high:  # else nothing remains, which happens with probability alpha at most
            self._low, self._high = low, high

    def interval(self) -> Interval:
        """The mean so far, one half before the first value, and the present interval."""
        value = self._sum / self.n if self.n else 0.5
        return Interval(value, min(self._low, value), max(self._high, value), self.n)


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When an evaluation stops by itself.

    Args:
        half_width: Half the width of the interval at which a pair is known well enough, in shares of 1.
        most: Most seeds of each pair.
    """

    half_width: float
    pairs: int
    most: int

    @property
    def alpha(self) -> float:
        """Probability that the interval of one pair ever fails: what Bonferroni leaves of 1 - level."""
        return (1.0 - LEVEL) / self.pairs

    def sequence(self) -> ConfidenceSequence:
        """A new sequence for one pair."""
        return ConfidenceSequence(self.alpha, self.half_width)

    def interval(self, shares: Sequence[float]) -> Interval:
        """The interval of one pair, from its shares in the order of the seeds."""
        sequence = self.sequence()
        for share in shares:
            sequence.add(share)
        return sequence.interval()


_UNTIL: Final = re.compile(r"(?:\+-|\+/-|±)?\s*([0-9]+(?:\.[0-9]+)?)\s*(?:points?|%)?")


def half_width_of(text: str) -> float:
    """Read the target of ``--until``, in points of the win share.

    >>> half_width_of("+-5 points"), half_width_of("±2.5")
    (0.05, 0.025)

    Raises:
        InvalidRequest: It is not such a target, or not from 1 to 40 points.
    """
    found = _UNTIL.fullmatch(text.strip())
    points = float(found[1]) if found else 0.0
    if not 1.0 <= points <= 40.0:
        rule = 'must be half the width of an interval, from 1 to 40 points, such as "+-5 points"'
        raise InvalidRequest([FieldError("until", rule)])
    return points / 100.0


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a pair's matches on one seed gave.

    Args:
        share: Share that the first one won; ``None`` if a match of the seed does not count.
        cost: US dollars, as recorded.
        seconds: Time of all decisions, as recorded.
    """

    share: float | None
    cost: float
    seconds: float


Look = Callable[[Pair, int], SeedResult | None]
"""Gives the result of a pair on the seed of a number; ``None`` if it is not played yet."""


@dataclass(slots=True)
class Comparison:
    """One pair of an evaluation under way.

    Args:
        sequence: The interval of its share.
        planned: Seeds that it plays, the first ones.
        judged: Seeds of them that are played, without a gap.
        cost: US dollars for these, a second counted as :data:`DOLLARS_A_SECOND`.
    """

    sequence: ConfidenceSequence
    planned: int
    judged: int = 0
    cost: float = 0.0

    @property
    def half_width(self) -> float:
        """Half the width of the present interval."""
        found = self.sequence.interval()
        return (found.high - found.low) / 2.0

    def advance(self, pair: Pair, look: Look) -> None:
        """Take the results of the next seeds, as far as they are played."""
        while self.judged < self.planned and (result := look(pair, self.judged)) is not None:
            self.judged += 1
            self.cost += result.cost + DOLLARS_A_SECOND * result.seconds
            if result.share is not None:
                self.sequence.add(result.share)

    def gain(self, target: float) -> float:
        """By how much the next batch is expected to narrow the interval towards ``target``, a dollar.

        The width falls about as the root of the number of seeds.
        """
        width, seeds = self.half_width, max(1, self.judged)
        expected = max(target, width * math.sqrt(seeds / (seeds + BATCH)))
        return (width - expected) * seeds / max(self.cost, LEAST_COST * seeds) / BATCH


@dataclass(frozen=True, slots=True)
class Path:
    """How far an evaluation with a stopping rule is.

    Args:
        comparisons: Every pair.
        finished: Whether the rule stops it here.
    """

    comparisons: Mapping[Pair, Comparison] = field(default_factory=dict)
    finished: bool = False

    @property
    def planned(self) -> dict[Pair, int]:
        """By pair, how many seeds it plays."""
        return {pair: one.planned for pair, one in self.comparisons.items()}


def follow(rule: StoppingRule, pairs: Sequence[Pair], look: Look) -> Path:
    """Apply the rule to the results that exist, from the beginning.

    Every pair plays a batch. Then the next batch goes to the pair whose interval it is expected to narrow
    most for its cost, until all intervals are narrow enough or the seeds are used up.

    Args:
        look: Gives the results.
    """
    found = {pair: Comparison(rule.sequence(), min(BATCH, rule.most)) for pair in pairs}
    while True:
        for pair, one in found.items():
            one.advance(pair, look)
        if any(one.judged < one.planned for one in found.values()):
            return Path(found)
        wide = [one for one in found.values() if one.half_width > rule.half_width and one.planned < rule.most]
        if not wide:
            return Path(found, finished=True)
        best = max(wide, key=lambda one: one.gain(rule.half_width))
        best.planned = min(rule.most, best.planned + BATCH)
