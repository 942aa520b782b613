"""Fits of a predicted signal on a predicted background, bin by bin, and of several channels together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Floats,
    checked_array,
    checked_number,
    refuse,
)
from spectator.environments.collider.analysis.yields import YieldProblem


@dataclass(frozen=True, slots=True)
class TemplateFit:
    """Strength of a predicted signal.

    Args:
        mu: Fitted strength; 1 is the prediction.
        mu_error: Its standard error.
        z_observed: sqrt(q0) of the data, 0 without an excess.
        z_expected: The same where the data are exactly what strength 1 predicts (Asimov).
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
    """Fit the strength of a predicted signal; the background may float as a whole.

    Args:
        counts: Events in each bin.
        signal: Events of the signal at strength 1.
        background: Events of the background; bins without any expectation must be empty, and are left out.
        background_error: Relative standard error of the background's scale, log-normal.

    Raises:
        InvalidAnalysis: The arrays differ in length, are negative, or expect nothing where events were seen.

    >>> fit = template_fit([5, 12, 6], [0.5, 6.0, 0.5], [5.0, 5.0, 5.0])
    >>> round(fit.mu, 2), round(fit.z_observed, 2), round(fit.z_expected, 2)
    (1.16, 2.67, 2.33)
    """
    seen, s, b = (_checked(name, values) for name, values in _named(counts, signal, background))
    for name, values in (("signal", s), ("background", b)):
        if len(values) != len(seen):
            raise refuse(name, f"has one value for each count: {len(seen)}, not {len(values)}")
    error = checked_number("background_error", background_error, least=0.0, most=1.0)
    if not s.any():
        raise refuse("signal", "expects events somewhere")
    if seen[(b == 0) & (s == 0)].any():
        raise refuse("background", "expects something wherever events were seen")
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
        raise refuse(name, "has at least one bin")
    if array.min() < 0:
        raise refuse(name, f"are zero or more, not {array.min():g}")
    return array


def _problem(counts: Floats, signal: Floats, background: Floats, error: float) -> YieldProblem:
    columns = np.full((len(counts), 1), error)
    return YieldProblem(counts, signal, columns, background, np.ones(1))


def root_q0(problem: YieldProblem) -> float:
    """Square root of the discovery test statistic; 0 without an excess."""
    fit, null = problem.fit(), problem.fit(0.0)
    return math.sqrt(max(2.0 * (null.nll - fit.nll), 0.0)) if fit.theta[0] > 0 else 0.0


def expected_significance(signal: ArrayLike, background: ArrayLike, background_error: float = 0.0) -> float:
    """Median significance of a predicted signal, by all bins together.

    Raises:
        InvalidAnalysis: As for :func:`template_fit`.

    >>> round(expected_significance([50.0], [100.0]), 3)
    4.652
    """
    total = _checked("signal", signal)
    smooth = _checked("background", background)
    if len(total) != len(smooth):
        raise refuse("background", f"has one value for each bin of signal: {len(total)}, not {len(smooth)}")
    return template_fit(total + smooth, total, smooth, background_error).z_expected
