"""Significance of an excess over a known or partly known background, by counting and by shape.

Formulas: G. Cowan, K. Cranmer, E. Gross, O. Vitells, "Asymptotic formulae for likelihood-based tests of new
physics", EPJC 71 (2011) 1554, arXiv:1007.1727; with a background uncertainty: G. Cowan, "Discovery
sensitivity for a counting experiment with background uncertainty" (2012): the Asimov form of the on/off
problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, Window, checked_number, refuse
from spectator.environments.collider.analysis.normal import p_of_z, z_of_p
from spectator.environments.collider.analysis.yields import peak_search

EXACT_BELOW: Final = 1e6
"""Backgrounds below it, where known, are tested by exact Poisson sums: asymptotic formulas are off by
0.2 to 0.3 sigma where two events are expected."""

_SMALLEST: Final = 1e-290
"""Chances below it cannot be told from 0; there the formula is used."""


@dataclass(frozen=True, slots=True)
class ProfileSignificance:
    """Significance of an excess at one mass and width.

    Args:
        z_local: sqrt(q0), 0 without an excess.
        p_local: Its one-sided chance.
        q0: Twice the gain in log-likelihood by the signal; 0 without an excess.
        signal: Fitted events.
        signal_error: Their standard error.
        background: Family of the background.
    """

    z_local: float
    p_local: float
    q0: float
    signal: float
    signal_error: float
    background: str


def discovery_significance(
    signal: ArrayLike, background: ArrayLike, background_error: ArrayLike = 0.0
) -> Floats:
    """Median significance Z_A of ``signal`` expected events over ``background``, by counting.

    Args:
        signal: Expected signal, 0 or more; a number or an array.
        background: Expected background, above 0.
        background_error: Its standard error in events.

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
        raise refuse("background", "is above 0")
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
        raise refuse(name, "holds something that is not a number") from error
    if not np.isfinite(array).all() or (array < least).any():
        raise refuse(name, f"is finite and at least {least:g}")
    return array


def counting_significance(observed: float, background: float, background_error: float = 0.0) -> float:
    """Significance of ``observed`` events where ``background`` are expected; below it, negative.

    A known background is tested by the exact Poisson sum, an uncertain one by the profile likelihood ratio,
    with the background's error as the Poisson error of a side measurement.

    Raises:
        InvalidAnalysis: An argument is negative or not finite, or the background is 0.

    >>> round(counting_significance(12, 4.7), 2)
    2.71
    """
    n = checked_number("observed", observed, least=0.0)
    b = checked_number("background", background, above=0.0)
    error = checked_number("background_error", background_error, least=0.0)
    if error == 0 and b < EXACT_BELOW:
        from scipy.special import gammainc

        chance = float(gammainc(n, b)) if n > 0 else 1.0
        if chance > _SMALLEST:
            return z_of_p(chance)
    if n <= b:
        return -_below(n, b, error)
    return float(discovery_significance(n - b, b, error))


def _below(n: float, b: float, error: float) -> float:
    """Root of the likelihood ratio for a deficit."""
    if error == 0:
        return math.sqrt(2.0 * (b - n + (n * math.log(n / b) if n > 0 else 0.0)))
    ratio = b / (error * error)
    side = b * ratio
    common = (n + side) / (1.0 + ratio)
    term = n * math.log(n / common) if n > 0 else 0.0
    return math.sqrt(max(2.0 * (term + side * math.log(side / (ratio * common))), 0.0))


def profile_significance(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    window_gev: Window | None = None,
    background: str = "auto",
    natural_width_gev: float = 0.0,
    spurious_signal: float = 0.0,
) -> ProfileSignificance:
    """Discovery test q0 of a peak of given mass and width on a fitted background.

    Args:
        edges_gev: Bin edges.
        counts: Events.
        mass_gev: Where the peak is.
        resolution_gev: Its Gaussian width.
        window_gev: Bins that enter; all without it.
        background: One of ``BACKGROUNDS``, or ``auto``.
        natural_width_gev: Full natural width; 0 for a Gauss curve.
        spurious_signal: Error of the yield, in events, from the choice of the background's family; it enters
            as Z -> Z sqrt(V / (V + S^2)) with V the variance of the yield.

    Raises:
        InvalidAnalysis: An argument breaks its rule.
    """
    checked_number("spurious_signal", spurious_signal, least=0.0)
    search = peak_search(
        edges_gev,
        counts,
        mass_gev,
        resolution_gev,
        window_gev=window_gev,
        background=background,
        natural_width_gev=natural_width_gev,
    )
    fit = search.problem.fit(start=search.null.beta)
    signal, error = float(fit.theta[0]), search.problem.error(fit)
    q0 = max(2.0 * (search.null.nll - fit.nll), 0.0) if signal > 0 else 0.0
    z = math.sqrt(q0) * error / math.hypot(error, spurious_signal) if error > 0 else 0.0
    return ProfileSignificance(z, p_of_z(z), q0, signal, error, search.background)
