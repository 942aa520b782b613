"""Measure how often the intervals of an evaluation cover the true mean: python -m tools.intervals

Draws samples of a few seeds from distributions of known mean, and counts how often the interval of
`mean_interval` (bootstrap-t or Student, the wider), Student's alone, and the percentile bootstrap cover it.
Then simulates pairs of an evaluation with a stopping rule, looks at their intervals after every seed, and
counts how many are ever wrong, and how many seeds the target takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from spectator.evaluation.intervals import student_interval
from spectator.evaluation.sequential import ConfidenceSequence
from spectator.evaluation.statistics import Floats, mean_interval

Draw = Callable[[np.random.Generator, int], Floats]

REPETITIONS: Final = 1000
DRAWS: Final = 1000
SIZES: Final = (5, 10, 20, 50)

KINDS: Final[Mapping[str, tuple[Draw, float]]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "Student, 4 degrees": (lambda rng, n: rng.standard_t(4, size=n), 0.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(size=n), math.exp(0.5)),
    "beta(8, 1)": (lambda rng, n: rng.beta(8.0, 1.0, size=n), 8.0 / 9.0),
}
"""Distributions of a value over seeds, with their means."""


def percentile(values: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Return the plain percentile bootstrap interval, too narrow for few values."""
    weights = rng.multinomial(values.size, np.full(values.size, 1.0 / values.size), size=DRAWS)
    low, high = np.percentile(weights @ values / values.size, (2.5, 97.5))
    return float(low), float(high)


def coverage(draw: Draw, mean: float, size: int, rng: np.random.Generator) -> list[float]:
    """Return the shares of intervals that cover ``mean``: ours, Student's, percentile."""
    covered = np.zeros(3)
    for _ in range(REPETITIONS):
        values = draw(rng, size)
        ours, student = mean_interval(list(values), rng, draws=DRAWS), student_interval(list(values))
        ends = [(ours.low, ours.high), (student.low, student.high), percentile(values, rng)]
        covered += [low <= mean <= high for low, high in ends]
    return [float(share) for share in covered / REPETITIONS]


PAIRS: Final[Mapping[str, tuple[float, ...]]] = {
    "even, few ties": (0.4, 0.2, 0.4),
    "even": (0.25, 0.5, 0.25),
    "60 %": (0.15, 0.5, 0.35),
    "95 %": (0.01, 0.08, 0.91),
}
"""Chances that the first of two captains wins none, one or both matches of a seed."""


def ever_missed(sequence: ConfidenceSequence, values: Sequence[float], mean: float) -> bool:
    """Return whether an interval of the sequence ever misses ``mean`` while it takes ``values``."""
    for value in values:
        sequence.add(value)
        found = sequence.interval()
        if not found.low <= mean <= found.high:
            return True
    return False


def sequential(chances: Sequence[float], alpha: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the share of pairs that are ever wrong, and the mean number of seeds to +-5 points."""
    missed, needed = 0, 0
    for _ in range(REPETITIONS // 2):
        values = [float(one) for one in rng.choice((0.0, 0.5, 1.0), size=1000, p=chances)]
        mean = float(np.dot((0.0, 0.5, 1.0), chances))
        missed += ever_missed(ConfidenceSequence(alpha, 0.05), values, mean)
        sequence = ConfidenceSequence(alpha, 0.05)
        for value in values:
            sequence.add(value)
            if (found := sequence.interval()).high - found.low <= 0.1:
                break
        needed += sequence.n
    return missed / (REPETITIONS // 2), needed / (REPETITIONS // 2)


def main() -> None:
    """Print the tables."""
    rng = np.random.default_rng(2026)
    print("| distribution | seeds | ours | Student | percentile |\n|---|---|---|---|---|")
    for name, (draw, mean) in KINDS.items():
        for size in SIZES:
            shares = " | ".join(f"{100 * share:.1f} %" for share in coverage(draw, mean, size, rng))
            print(f"| {name} | {size} | {shares} |")
    print("\n| pair | alpha | ever wrong | seeds to +-5 points |\n|---|---|---|---|")
    for name, chances in PAIRS.items():
        for alpha in (0.05, 0.05 / 6):
            missed, needed = sequential(chances, alpha, rng)
            print(f"| {name} | {alpha:.4f} | {100 * missed:.1f} % | {needed:.0f} |")


if __name__ == "__main__":
    main()
