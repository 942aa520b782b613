"""The normal distribution between probabilities and significances; scipy is imported at the first call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spectator.environments.collider.analysis.checks import Floats


def cumulative(x: Any) -> Floats:
    """Chance that a standard normal variable is below ``x``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x), dtype=np.float64)


def density(x: Any) -> Floats:
    """Density of the standard normal distribution at ``x``."""
    values = np.asarray(x, dtype=np.float64)
    return np.asarray(np.exp(-0.5 * values * values) / math.sqrt(2 * math.pi), dtype=np.float64)


def p_of_z(z: float) -> float:
    """One-sided chance of a fluctuation of at least ``z`` standard deviations.

    >>> round(p_of_z(5.0) * 1e7, 3)
    2.867
    """
    from scipy.special import ndtr

    return float(ndtr(-z))


def z_of_p(p: float) -> float:
    """Significance of the one-sided chance ``p``; for p of 0.5 and more it is 0 or negative.

    >>> round(z_of_p(2.867e-7), 3)
    5.0
    """
    from scipy.special import ndtri

    return float(-ndtri(min(max(p, 1e-300), 1 - 1e-16)))


def chi2_p(chi2: float, ndf: float) -> float:
    """Chance that a chi-square of ``ndf`` degrees of freedom is at least ``chi2``; 1 without any freedom."""
    from scipy.special import gammaincc

    return float(gammaincc(0.5 * ndf, 0.5 * chi2)) if ndf > 0 else 1.0
