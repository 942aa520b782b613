"""Shapes of a spectrum: peaks, smooth backgrounds, and the score test.

A peak's shape (Gauss, Voigt, double-sided Crystal Ball) is the share of its events in each bin, so that the
yield includes events outside the bins. Masses and widths are in GeV. The normal
distribution converts between probabilities and significances; scipy is imported at the first call.

Backgrounds are families that are linear in the logarithm, fitted by Newton's method to Poisson counts:
the expected events of a bin are ``width x exp(X b)`` at its centre. Such a likelihood has one minimum,
so no starting values are needed.

The score test gives the significance of a small signal at many masses at once, from one background fit.
For a signal of unit yield with share T_i in bin i on a fitted background b = exp(X beta), the score is
``sum T_i (n_i / b_i - 1)``; its variance is the information on the yield that the background's own
coefficients leave: ``T'(1/b)T - (T'X) (X'bX)^-1 (X'T)``. See Cowan, Cranmer, Gross and Vitells, EPJC 71
(2011) 1554, arXiv:1007.1727, for the likelihood ratio that it approximates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectator.environments.collider.analysis.checks import (
    MIN_BINS,
    Floats,
    Window,
    checked_choice,
    checked_spectrum,
    checked_window,
    invalid,
)


def cumulative(x: Any) -> Floats:
    """Return the chance that a standard normal variable is below ``x``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x), dtype=np.float64)


def density(x: Any) -> Floats:
    """Return the density of the standard normal distribution at ``x``."""
    values = np.asarray(x, dtype=np.float64)
    return np.asarray(np.exp(-0.5 * values * values) / math.sqrt(2 * math.pi), dtype=np.float64)


def p_of_z(z: float) -> float:
    """Return the one-sided chance of a fluctuation of at least ``z`` sigma.

    >>> round(p_of_z(5.0) * 1e7, 3)
    2.867
    """
    from scipy.special import ndtr

    return float(ndtr(-z))


def z_of_p(p: float) -> float:
    """Return the significance of a one-sided chance; 0 or negative for p >= 0.5.

    >>> round(z_of_p(2.867e-7), 3)
    5.0
    """
    from scipy.special import ndtri

    return float(-ndtri(min(max(p, 1e-300), 1 - 1e-16)))


def chi2_p(chi2: float, ndf: float) -> float:
    """Return the chance that a chi-square is at least ``chi2``; 1 if ``ndf`` is 0."""
    from scipy.special import gammaincc

    return float(gammaincc(0.5 * ndf, 0.5 * chi2)) if ndf > 0 else 1.0


FWHM_OF_SIGMA: Final = 2.0 * math.sqrt(2.0 * math.log(2.0))
"""Full width at half maximum of a Gauss curve, in standard deviations."""

Numbers = float | Floats
"""A number, or one for each row."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def gauss_bins(edges: Floats, mass: float, sigma: float) -> Floats:
    """Return the share of a Gauss curve in each bin.

    >>> bins = gauss_bins(np.linspace(120.0, 130.0, 3), 125.0, 1.0)
    >>> [round(float(share), 6) for share in bins]
    [0.5, 0.5]
    """
    below = cumulative((edges - mass) / sigma)
    return np.asarray(below[1:] - below[:-1])


def gauss_slopes(edges: Floats, mass: float, sigma: float) -> tuple[Floats, Floats, Floats]:
    """Return the share of a Gauss curve in each bin, and its slopes by mass and sigma."""
    t = (edges - mass) / sigma
    below, height = cumulative(t), density(t) / sigma
    tilted = t * height
    return below[1:] - below[:-1], height[:-1] - height[1:], tilted[:-1] - tilted[1:]


def voigt_bins(edges: Floats, mass: float, sigma: float, gamma: float) -> Floats:
    """Return the share in each bin of a Breit-Wigner curve smeared by a Gauss curve.

    ``gamma`` is the full width of the Breit-Wigner curve.

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
    edges: Floats, mass: Numbers, sigma: Numbers, tails: tuple[Numbers, Numbers, Numbers, Numbers]
) -> Floats:
    """Return the share in each bin of a Gauss core with two power-law tails.

    Columns of numbers, of shape (k, 1), give k rows of shares.

    Args:
        sigma: Width of the core.
        tails: Start of the lower tail in units of ``sigma`` and its power (above 1), then the same for the
            upper.
    """
    below, below_power, above, above_power = tails
    t = (edges - mass) / sigma
    lower, lower_area = _tail(np.maximum(-t, below), below, below_power)
    upper, upper_area = _tail(np.maximum(t, above), above, above_power)
    core, core_start = cumulative(np.clip(t, -below, above)), cumulative(-below)
    core_area = cumulative(above) - core_start
    total = lower_area + core_area + upper_area
    running = lower + (core - core_start) + (upper_area - upper)
    return np.asarray(np.diff(running) / total)


_EXP: Final = np.frompyfunc(math.exp, 1, 1)
"""The C library's, as for a single number: numpy's own differs from it in the last bit."""


def _tail(t: Floats, start: Numbers, power: Numbers) -> tuple[Floats, Numbers]:
    """Return the area of a tail beyond each ``t >= start``, and beyond ``start``.

    The tail continues the Gauss curve at ``start`` with the same value and slope.
    """
    height = np.asarray(_EXP(-0.5 * start * start), dtype=np.float64) / math.sqrt(2 * math.pi)
    scale = power / start
    area = height * scale / (power - 1.0)
    return np.asarray(area * (1.0 + (t - start) / scale) ** (1.0 - power)), area


@dataclass(frozen=True, slots=True)
class ScoreTest:
    """The part of a score test that does not depend on the counts.

    Args:
        filters: One row per mass: the weight of each bin's excess over the background in z.
        errors: Standard deviation of the fitted yield at each mass.
    """

    filters: Floats
    errors: Floats


def gauss_templates(edges: Floats, masses: Floats, sigmas: Floats) -> Floats:
    """Return the share of a Gauss curve in each bin, one row per mass."""
    return np.diff(cumulative((edges - masses[:, None]) / sigmas[:, None]), axis=1)


def score_test(templates: Floats, background: Floats, columns: Floats) -> ScoreTest:
    """Prepare the score test for small signals on a fitted background.

    Args:
        templates: Share of each bin, one row per mass.
    """
    inverse = 1.0 / np.maximum(background, 1e-12)
    information = columns.T @ (background[:, None] * columns)
    information[np.diag_indices_from(information)] += 1e-9 * np.trace(information) + 1e-12
    crossed = templates @ columns
    solved = np.linalg.solve(information, crossed.T)
    own = (templates * templates) @ inverse
    left = np.maximum(own - np.einsum("ij,ji->i", crossed, solved), 1e-9 * own + 1e-300)
    projected = templates * inverse - (columns @ solved).T
    return ScoreTest(projected / np.sqrt(left)[:, None], 1.0 / np.sqrt(left))


def score_z(test: ScoreTest, counts: Floats, background: Floats) -> Floats:
    """Return the signed significance at each mass.

    ``counts`` may be a matrix with one column per spectrum.
    """
    excess = counts - (background[:, None] if counts.ndim == 2 else background)
    return np.asarray(test.filters @ excess)


ORDERS: Final[Mapping[str, int]] = {"exponential": 1, "quadratic": 2, "cubic": 3, "quartic": 4}
"""Log-polynomials by their order in the mass."""

BACKGROUNDS: Final = (*ORDERS, "power_law", "dijet", "dijet5")
"""Names of the families. ``power_law`` is linear in ln m. ``dijet`` is (1-x)^p1 x^-(p2 + p3 ln x) with
x = m / sqrt(s), the form of dijet searches such as CMS arXiv:1911.03947; ``dijet5`` has p4 ln^2 x besides."""

SQRT_S_GEV: Final = 13_000.0
"""Collision energy for ``power_law`` and ``dijet``; a model input."""

_RIDGE: Final = 1e-3
"""Weight of the penalty on shape parameters: it keeps them finite in empty spectra, and is negligible with a
few events."""

_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class BackgroundFit:
    """A background alone, fitted to the bins of a window.

    Args:
        parameters: Coefficients of the columns of :func:`design`.
        expected: Events in each bin of the window, including excluded stretches.
        chi2: Pearson's, over the bins that entered the fit.
        ndf: Bins less parameters.
        p_value: Chance of a chi-square this large, corrected for low counts.
        bins: First bin of the window and the one after its last.
    """

    background: str
    parameters: tuple[float, ...]
    expected: tuple[float, ...]
    chi2: float
    ndf: int
    p_value: float
    bins: tuple[int, int]
    converged: bool


@dataclass(frozen=True, slots=True)
class Regression:
    """Result of :func:`poisson_regression`: coefficients, expected counts, and the log-likelihood."""

    beta: Floats
    expected: Floats
    nll: float
    converged: bool


def design(background: str, edges: Floats) -> Floats:
    """Return the columns of a background family at the bin centres.

    The first one is constant; they are orthonormal up to a factor.

    Raises:
        InvalidAnalysis: The family is unknown, or the masses exceed the collision energy.
    """
    checked_choice("background", background, BACKGROUNDS)
    return _design(background, edges.tobytes())


@lru_cache(maxsize=256)
def _design(name: str, encoded: bytes) -> Floats:
    """Return the columns for edges as bytes; cached, because a fit asks for them often."""
    edges = np.frombuffer(encoded)
    centres = 0.5 * (edges[1:] + edges[:-1])
    if name in ORDERS:
        t = 2.0 * (centres - centres[0]) / max(float(centres[-1] - centres[0]), 1e-12) - 1.0
        columns = np.vander(t, ORDERS[name] + 1, increasing=True)
    else:
        x = centres / SQRT_S_GEV
        if x[-1] >= 1.0:
            raise invalid("edges_gev", f"must be below {SQRT_S_GEV:g} GeV for the {name} background")
        log = np.log(x)
        powers = [np.ones_like(x), log, np.log1p(-x), log**2, log**3]
        columns = np.stack(powers[: {"power_law": 2, "dijet": 4, "dijet5": 5}[name]], axis=1)
    orthonormal, _ = np.linalg.qr(columns)
    orthonormal *= np.sqrt(len(centres)) * np.sign(orthonormal[0, 0] or 1.0)
    orthonormal.flags.writeable = False
    return np.asarray(orthonormal)


def log_likelihood_gap(counts: Floats, expected: Floats) -> float:
    """Return the Poisson negative log-likelihood less its least value (half the deviance)."""
    from scipy.special import xlogy

    return float((expected - counts + xlogy(counts, counts / np.maximum(expected, 1e-300))).sum())


MAX_START_EXCESS: Final = 100.0
"""Most expected events per observed one at the start of a fit."""


def exponential(exponents: Floats) -> Floats:
    """Return the exponential, without overflow."""
    return np.asarray(np.exp(np.minimum(np.maximum(exponents, -600.0), 600.0)))


def background_alone(background: str, edges: Floats, counts: Floats) -> Regression:
    """Fit a background family to all bins."""
    return _background_alone(background, edges.tobytes(), counts.tobytes())


@lru_cache(maxsize=64)
def _background_alone(name: str, edges: bytes, counts: bytes) -> Regression:
    """Fit the family; cached, because every test of a spectrum needs it."""
    fit = poisson_regression(_design(name, edges), np.frombuffer(counts), np.diff(np.frombuffer(edges)))
    fit.beta.flags.writeable = fit.expected.flags.writeable = False
    return fit


def poisson_regression(columns: Floats, counts: Floats, widths: Floats) -> Regression:
    """Fit ``widths x exp(columns @ beta)`` to Poisson counts by damped Newton steps."""
    beta = np.zeros(columns.shape[1])
    beta[0] = np.log(max(counts.sum(), 0.5) / widths.sum()) / columns[0, 0]
    ridge = np.full(len(beta), _RIDGE)
    ridge[0] = 0.0
    weight = np.diag(ridge + 1e-12)
    value, beta, expected = _tried(columns, counts, widths, ridge, _start(columns, counts, widths, beta))
    for _ in range(_STEPS):
        gradient = columns.T @ (expected - counts) + ridge * beta
        hessian = columns.T @ (expected[:, None] * columns) + weight
        step = np.linalg.solve(hessian, gradient)
        if float(gradient @ step) < 1e-9:
            return Regression(beta, expected, log_likelihood_gap(counts, expected), True)
        factor = 1.0
        while factor > 1e-6:
            reached, tried, new = _tried(columns, counts, widths, ridge, beta - factor * step)
            if reached <= value + 1e-12 * abs(value):
                break
            factor *= 0.5
        beta, expected, value = tried, new, reached
    return Regression(beta, expected, log_likelihood_gap(counts, expected), False)


def _tried(
    columns: Floats, counts: Floats, widths: Floats, ridge: Floats, beta: Floats
) -> tuple[float, Floats, Floats]:
    """Return the objective at ``beta``, ``beta``, and the counts expected there."""
    expected = widths * exponential(columns @ beta)
    return log_likelihood_gap(counts, expected) + 0.5 * float(ridge @ beta**2), beta, expected


def _start(columns: Floats, counts: Floats, widths: Floats, flat: Floats) -> Floats:
    """Return starting coefficients for the regression.

    Weighted least squares on the logarithm if most bins hold events, else a flat background.

    If the family does not describe the shape, the logarithm can lead to bins of 1e88 events, from which no
    step
    returns: a start that expects far more events than observed is also replaced by the flat one.
    """
    if np.count_nonzero(counts) < 0.7 * len(counts):
        return flat
    weights = counts + 0.5
    weighted = columns * weights[:, None]
    target = np.log((counts + 0.5) / widths)
    system = columns.T @ weighted + 1e-9 * weights.sum() * np.eye(columns.shape[1])
    warm = np.asarray(np.linalg.solve(system, weighted.T @ target))
    expected = float((widths * exponential(columns @ warm)).sum())
    return warm if expected < MAX_START_EXCESS * counts.sum() else flat


def goodness(counts: Floats, expected: Floats, parameters: int) -> tuple[float, int, float]:
    """Return Pearson's chi-square, its degrees of freedom and its p-value.

    The chi-square of bin counts has variance 2 + 1/expected a bin, not 2; the p-value is that of a gamma
    distribution with the same mean and variance.
    """
    floor = np.maximum(expected, 1e-9)
    chi2 = float(np.sum((counts - floor) ** 2 / floor))
    ndf = max(len(counts) - parameters, 0)
    if ndf == 0:
        return chi2, 0, 1.0
    variance = 2.0 * ndf + float(np.sum(np.minimum(1.0 / floor, 1e6))) * ndf / len(counts)
    scale = variance / (2.0 * ndf)
    return chi2, ndf, chi2_p(chi2 / scale, ndf / scale)


def fit_beside(
    columns: Floats, counts: Floats, widths: Floats, kept: NDArray[np.bool_]
) -> tuple[Regression, float] | None:
    """Fit a background to the bins kept; return the fit and its p-value, or ``None`` if they are too few."""
    if kept.sum() <= columns.shape[1]:
        return None
    fit = poisson_regression(columns[kept], counts[kept], widths[kept])
    return fit, goodness(counts[kept], fit.expected, columns.shape[1])[2]


def choose_background(edges: Floats, counts: Floats, kept: NDArray[np.bool_] | None = None) -> str:
    """Choose the lowest log-polynomial that the next two orders do not improve (AIC).

    Args:
        kept: Which bins enter; by default all.
    """
    chosen = np.ones(len(counts), dtype=bool) if kept is None else kept
    widths, seen = np.diff(edges)[chosen], counts[chosen]
    names = [name for name, order in ORDERS.items() if order < len(seen) - 1] or ["exponential"]
    scores = [
        poisson_regression(design(name, edges)[chosen], seen, widths).nll + ORDERS[name] for name in names
    ]
    best = 0
    while best + 1 < len(scores) and min(scores[best + 1 : best + 3]) < scores[best] - 1.0:
        best += 1
    return names[best]


def fit_background(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    *,
    window_gev: Window | None = None,
    background: str = "auto",
    exclude_gev: Sequence[Window] = (),
) -> BackgroundFit:
    """Fit a smooth background alone.

    Args:
        edges_gev: Bin edges, n + 1 ascending values.
        window_gev: Which bins enter; by default all.
        background: One of ``BACKGROUNDS``, or ``auto`` for :func:`choose_background`.
        exclude_gev: Excluded stretches, such as a blinded signal region; the fit interpolates.

    >>> fit = fit_background(np.linspace(100, 160, 31), 1000 * np.exp(-np.arange(30) / 15))
    >>> fit.background, fit.converged
    ('exponential', True)
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    chosen = checked_window(edges, window_gev)
    edges, seen = edges[chosen.start : chosen.stop + 1], seen[chosen]
    kept = np.ones(len(seen), dtype=bool)
    for stretch in exclude_gev:
        kept[checked_window(edges, stretch, field="exclude_gev", bins=1)] = False
    if kept.sum() < MIN_BINS:
        raise invalid("exclude_gev", f"must leave at least {MIN_BINS} bins")
    if not seen[kept].any():
        raise invalid("counts", "must hold at least one event outside the excluded stretches")
    name = choose_background(edges, seen, kept) if background == "auto" else background
    columns, widths = design(name, edges), np.diff(edges)
    if kept.sum() < columns.shape[1]:
        raise invalid("exclude_gev", f"must leave at least {columns.shape[1]} bins for the {name} background")
    fit = poisson_regression(columns[kept], seen[kept], widths[kept])
    expected = widths * exponential(columns @ fit.beta)
    chi2, ndf, p_value = goodness(seen[kept], expected[kept], columns.shape[1])
    return BackgroundFit(
        name,
        tuple(fit.beta.tolist()),
        tuple(expected.tolist()),
        chi2,
        ndf,
        p_value,
        (chosen.start, chosen.stop),
        fit.converged,
    )
