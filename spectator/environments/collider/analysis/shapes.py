"""Shapes of peaks, integrated over bins: Gauss, Voigt and the double-sided Crystal Ball.

Each function gives the share of a peak's events that falls into each bin, so that events outside the
bins are counted in the yield. Masses and widths are in GeV.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from spectator.environments.collider.analysis import normal
from spectator.environments.collider.analysis.checks import Floats

FWHM_OF_SIGMA: Final = 2.0 * math.sqrt(2.0 * math.log(2.0))
"""Full width at half maximum of a Gauss curve, in standard deviations."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def gauss_bins(edges: Floats, mass: float, sigma: float) -> Floats:
    """Share of a Gauss curve in each bin.

    >>> bins = gauss_bins(np.linspace(120.0, 130.0, 3), 125.0, 1.0)
    >>> [round(float(share), 6) for share in bins]
    [0.5, 0.5]
    """
    below = normal.cumulative((edges - mass) / sigma)
    return np.asarray(below[1:] - below[:-1])


def gauss_slopes(edges: Floats, mass: float, sigma: float) -> tuple[Floats, Floats, Floats]:
    """Share of a Gauss curve in each bin, and its derivatives by mass and by sigma."""
    t = (edges - mass) / sigma
    below, height = normal.cumulative(t), normal.density(t) / sigma
    tilted = t * height
    return below[1:] - below[:-1], height[:-1] - height[1:], tilted[:-1] - tilted[1:]


def voigt_bins(edges: Floats, mass: float, sigma: float, gamma: float) -> Floats:
    """Share in each bin of a Breit-Wigner curve of full width ``gamma``, smeared by a Gauss curve.

    The curve is integrated by four-point Gauss-Legendre quadrature in pieces no wider than ``sigma``.
    """
    from scipy.special import voigt_profile

    if gamma <= 0:
        return gauss_bins(edges, mass, sigma)
    widths = np.diff(edges)
    pieces = max(1, math.ceil(float(widths.max()) / max(sigma, 0.5 * gamma)))
    fine = widths / pieces
    starts = edges[:-1, None] + fine[:, None] * np.arange(pieces)
    points = starts[:, :, None] + 0.5 * fine[:, None, None] * (_NODES + 1.0)
    values = voigt_profile(points - mass, sigma, 0.5 * gamma)
    return np.asarray((values * _WEIGHTS).sum(axis=(1, 2)) * 0.5 * fine)


def crystal_ball_bins(
    edges: Floats, mass: float, sigma: float, tails: tuple[float, float, float, float]
) -> Floats:
    """Share in each bin of a Gauss core with a power-law tail on either side.

    Args:
        edges: Bin edges.
        mass: Where the core is centred.
        sigma: Width of the core.
        tails: Where the lower tail begins, in units of ``sigma``, and its power, above 1; the same above.
    """
    below, below_power, above, above_power = tails
    t = (edges - mass) / sigma
    lower, lower_area = _tail(np.maximum(-t, below), below, below_power)
    upper, upper_area = _tail(np.maximum(t, above), above, above_power)
    core = normal.cumulative(np.clip(t, -below, above))
    core_area = float(normal.cumulative(above) - normal.cumulative(-below))
    total = lower_area + core_area + upper_area
    running = lower + (core - float(normal.cumulative(-below))) + (upper_area - upper)
    return np.asarray(np.diff(running) / total)


def _tail(t: Floats, start: float, power: float) -> tuple[Floats, float]:
    """Area of a tail beyond each ``t >= start``, and beyond ``start`` itself.

    The tail continues the Gauss curve at ``start`` with the same value and slope.
    """
    height = math.exp(-0.5 * start * start) / math.sqrt(2 * math.pi)
    scale = power / start
    area = height * scale / (power - 1.0)
    return np.asarray(area * (1.0 + (t - start) / scale) ** (1.0 - power)), area
