"""Significance of counts, and of predicted signals and backgrounds bin by bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, checked_array, checked_number, invalid
from spectator.environments.collider.analysis.likelihood import YieldProblem
from spectator.environments.collider.analysis.shapes import z_of_p

EXACT_BELOW: Final = 1e6
"""Known backgrounds below this are tested by exact Poisson sums: asymptotic formulas are off by 0.2 to 0.3
sigma if two events are expected."""

_SMALLEST: Final = 1e-290
"""Chances below this are numerically 0; the asymptotic formula is used instead."""


def discovery_significance(
    signal: ArrayLike, background: ArrayLike, background_error: ArrayLike = 0.0
) -> Floats:
    """Return the median significance Z_A of a counting experiment.

    Args:
        signal: Expected signal, 0 or more; a number or an array.
        background: Expected background, above 0.

    Returns:
        An array of the shape of the arguments taken together; a number for numbers.

    Raises:
        InvalidAnalysis: An argument is negative or not finite, or the background is 0.

    >>> [round(float(discovery_significance(50, 100, error)), 3) for error in (0, 5, 10, 20)]
    [4.652, 4.099, 3.173, 1.968]
    """
    s, b, error = (
        _least(name, value, 0.0)
        for name, value in (
            ("signal", signal),
            ("background", background),
            ("background_error", background_error),
        )
    )
    if (b <= 0).any():
        raise invalid("background", "must be above 0")
    s, b, error = np.broadcast_arrays(s, b, error)
    known = 2.0 * ((s + b) * np.log1p(s / b) - s)
    variance = np.where(error > 0, error, 1.0) ** 2
    first = (s + b) * np.log((s + b) * (b + variance) / (b * b + (s + b) * variance))
    second = b * b / variance * np.log1p(variance * s / (b * (b + variance)))
    return np.sqrt(np.maximum(np.where(error > 0, 2.0 * (first - second), known), 0.0))


def _least(name: str, values: ArrayLike, least: float) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid(name, "must hold numbers only") from error
    if not np.isfinite(array).all() or (array < least).any():
        raise invalid(name, f"must be finite and at least {least:g}")
    return array


def counting_significance(observed: float, background: float, background_error: float = 0.0) -> float:
    """Return the significance of an observed count; negative for a deficit.

    A known background is tested by exact Poisson sums: of ``observed`` or more events for an excess, of
    ``observed`` or fewer for a deficit, and 0 where both are likelier than not. An uncertain one is tested by
    the profile likelihood ratio, with its error as the Poisson error of a side measurement.

    Raises:
        InvalidAnalysis: An argument is negative or not finite, or the background is 0.

    >>> [round(counting_significance(*counted), 2) for counted in ((12, 4.7), (0, 4.7), (0, 0.1))]
    [2.71, -2.36, 0.0]
    """
    n = checked_number("observed", observed, least=0.0)
    b = checked_number("background", background, above=0.0)
    error = checked_number("background_error", background_error, least=0.0)
    if error == 0 and b < EXACT_BELOW:
        from scipy.special import gammainc, gammaincc

        above, below = float(gammainc(n, b)) if n > 0 else 1.0, float(gammaincc(n + 1.0, b))
        if min(above, below) > _SMALLEST:
            return max(z_of_p(above), 0.0) - max(z_of_p(below), 0.0)
    if n <= b:
        return -_below(n, b, error)
    return float(discovery_significance(n - b, b, error))


def _below(n: float, b: float, error: float) -> float:
    """Return the root of the likelihood ratio for a deficit."""
    if error == 0:
        return math.sqrt(2.0 * (b - n + (n * math.log(n / b) if n > 0 else 0.0)))
    ratio = b / (error * error)
    side = b * ratio
    common = (n + side) / (1.0 + ratio)
    term = n * math.log(n / common) if n > 0 else 0.0
    return math.sqrt(max(2.0 * (term + side * math.log(side / (ratio * common))), 0.0))


@dataclass(frozen=True, slots=True)
class TemplateFit:
    """Strength of a predicted signal.

    Args:
        mu: Fitted strength; 1 is the prediction.
        z_observed: sqrt(q0) of the data, 0 without an excess.
        z_expected: The same for the Asimov data of strength 1.
        background_pull: How far the background's scale was moved, in units of its error.
    """

    mu: float
    mu_error: float
    z_observed: float
    z_expected: float
    background_pull: float


def template_fit(
    counts: ArrayLike, signal: ArrayLike, background: ArrayLike, background_error: float = 0.0
) -> TemplateFit:
    """Fit the strength of a predicted signal; the background's scale may float.

    Args:
        signal: Events of the signal at strength 1.
        background: Events of the background; bins without any expectation must be empty and are ignored.
        background_error: Relative standard error of the background's scale, log-normal.

    Raises:
        InvalidAnalysis: The arrays differ in length, are negative, or expect no events in a bin with counts.

    >>> fit = template_fit([5, 12, 6], [0.5, 6.0, 0.5], [5.0, 5.0, 5.0])
    >>> round(fit.mu, 2), round(fit.z_observed, 2), round(fit.z_expected, 2)
    (1.16, 2.67, 2.33)
    """
    seen, s, b = (_checked(name, values) for name, values in _named(counts, signal, background))
    for name, values in (("signal", s), ("background", b)):
        if len(values) != len(seen):
            raise invalid(name, f"must have one value for each count: {len(seen)}, not {len(values)}")
    error = checked_number("background_error", background_error, least=0.0, most=1.0)
    if not s.any():
        raise invalid("signal", "must expect events in some bin")
    if seen[(b == 0) & (s == 0)].any():
        raise invalid("background", "must expect events in every bin that has counts")
    used = b + s > 0
    problem = _problem(seen[used], s[used], np.maximum(b[used], 1e-6), error)
    asimov = problem.with_counts(problem.nominal + problem.template)
    fit = problem.fit()
    pull = float(fit.theta[1]) if error else 0.0
    return TemplateFit(float(fit.theta[0]), problem.error(fit), root_q0(problem), root_q0(asimov), pull)


def _named(*values: ArrayLike) -> Sequence[tuple[str, ArrayLike]]:
    return list(zip(("counts", "signal", "background"), values, strict=True))


def _checked(name: str, values: ArrayLike) -> Floats:
    array = checked_array(name, values)
    if not len(array):
        raise invalid(name, "must have at least one bin")
    if array.min() < 0:
        raise invalid(name, f"must be zero or more, not {array.min():g}")
    return array


def _problem(counts: Floats, signal: Floats, background: Floats, error: float) -> YieldProblem:
    columns = np.full((len(counts), 1), error)
    return YieldProblem(counts, signal, columns, background, np.ones(1))


def root_q0(problem: YieldProblem) -> float:
    """Return sqrt(q0), the discovery test statistic; 0 without an excess."""
    fit, null = problem.fit(), problem.fit(0.0)
    return math.sqrt(max(2.0 * (null.nll - fit.nll), 0.0)) if fit.theta[0] > 0 else 0.0


def expected_significance(signal: ArrayLike, background: ArrayLike, background_error: float = 0.0) -> float:
    """Return the median significance of a predicted signal, all bins together.

    Raises:
        InvalidAnalysis: As for :func:`template_fit`.

    >>> round(expected_significance([50.0], [100.0]), 3)
    4.652
    """
    total = _checked("signal", signal)
    smooth = _checked("background", background)
    if len(total) != len(smooth):
        raise invalid(
            "background", f"must have one value for each bin of signal: {len(total)}, not {len(smooth)}"
        )
    return template_fit(total + smooth, total, smooth, background_error).z_expected
