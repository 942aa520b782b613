"""Shapes over mass bins: peaks, smooth backgrounds, and the selection score.

Bins are equal in ln m, half a nominal resolution wide: a resolution that is a fixed share of the mass
spans as many bins everywhere.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SCORE_BINS: Final = 8
"""Equal bins of the selection score in [0, 1]."""

BINS_PER_SIGMA: Final = 2.0
MARGIN_SIGMA: Final = 10.0
"""Sidebands on either side of the search window, in resolutions."""


def mass_edges(low_gev: float, high_gev: float, relative_resolution: float) -> Array:
    """Edges of the fit window: the search window and its sidebands, rounded to nine digits."""
    step = relative_resolution / BINS_PER_SIGMA
    margin = min(MARGIN_SIGMA * relative_resolution, 0.45)
    start, stop = math.log(low_gev) - margin, math.log(high_gev) + margin
    bins = math.ceil((stop - start) / step)
    edges = np.exp(start + step * np.arange(bins + 1))
    return np.array([float(f"{edge:.9g}") for edge in edges])


def centres(edges_gev: Array) -> Array:
    """Geometric middles of the bins."""
    return np.asarray(np.sqrt(edges_gev[1:] * edges_gev[:-1]))


def peak(edges_gev: Array, mass_gev: float, sigma_gev: float, natural_width_gev: float = 0.0) -> Array:
    """Share of a resonance in each bin.

    Gaussian by its integral; with a natural width of at least a fifth of sigma a Voigt profile, by its value
    in the middle of a bin.
    """
    from scipy.special import ndtr, voigt_profile

    if natural_width_gev < 0.2 * sigma_gev:
        return np.diff(ndtr((edges_gev - mass_gev) / sigma_gev))
    middle = 0.5 * (edges_gev[1:] + edges_gev[:-1])
    return np.asarray(
        voigt_profile(middle - mass_gev, sigma_gev, natural_width_gev / 2.0) * np.diff(edges_gev)
    )


def smooth(edges_gev: Array, density_at: float, pivot_gev: float, coefficients: tuple[float, ...]) -> Array:
    """Background by bin: ``density_at`` exp(c1 u + c2 u^2 + ...) with u = ln(m / pivot), times bin width."""
    u = np.log(centres(edges_gev) / pivot_gev)
    exponent = np.zeros_like(u)
    for power, coefficient in enumerate(coefficients, 1):
        exponent += coefficient * u**power
    return np.asarray(density_at * np.exp(exponent) * np.diff(edges_gev))


@cache
def score_shares(first: float, second: float) -> Array:
    """Shares of the score bins of a Beta(first, second) distribution."""
    from scipy.special import betainc

    shares = np.diff(betainc(first, second, np.linspace(0.0, 1.0, SCORE_BINS + 1)))
    shares.setflags(write=False)
    return np.asarray(shares)


def asimov_significance(signal: Array, background: Array) -> float:
    """Expected significance of ``signal`` over a known ``background``, bins added in quadrature."""
    ratio = signal / np.maximum(background, 1e-12)
    q = 2.0 * ((signal + background) * np.log1p(ratio) - signal)
    return float(math.sqrt(max(0.0, q.sum())))
