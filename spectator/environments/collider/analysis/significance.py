"""Significance of an excess, its spurious part, upper limits by the CLs method, and unified intervals.

Both for counts and for shapes. Asymptotic formulas, q~mu and expected limits: G. Cowan, K. Cranmer, E.
Gross, O. Vitells, "Asymptotic formulae for likelihood-based tests of new physics", EPJC 71 (2011) 1554,
arXiv:1007.1727. With a background uncertainty: G. Cowan, "Discovery sensitivity for a counting
experiment with background uncertainty" (2012): the Asimov form of the on/off problem. CLs: A. L. Read,
J. Phys. G 28 (2002) 2693; exact for counts. Unified intervals: G. J. Feldman and R. D. Cousins, PRD 57
(1998) 3873, arXiv:physics/9711021.

CLs limits cover too often by design where a signal is small: a signal to which the data are not sensitive is
never excluded. Unified intervals cover as often as they say, for any signal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectator.environments.collider.analysis.checks import Floats, checked_number, checked_spectrum, invalid
from spectator.environments.collider.analysis.likelihood import Minimum, PeakSearch, YieldProblem, peak_search
from spectator.environments.collider.analysis.shapes import (
    FWHM_OF_SIGMA,
    design,
    exponential,
    fit_beside,
    gauss_bins,
    gauss_templates,
    p_of_z,
    score_test,
    score_z,
)

ALPHA: Final = 0.05
"""Limits hold with the confidence 1 - ALPHA."""


@dataclass(frozen=True, slots=True)
class ProfileSignificance:
    """Significance of an excess at one mass and width.

    Args:
        z_local: sqrt(q0), 0 without an excess.
        q0: Twice the gain in log-likelihood by the signal; 0 without an excess.
    """

    z_local: float
    p_local: float
    q0: float
    signal: float
    signal_error: float
    background: str

    def allowing_for(self, spurious_signal: float) -> ProfileSignificance:
        """Return it with an error S of the yield, in events, from the choice of the background's family.

        S enters as Z -> Z sqrt(V / (V + S^2)) with V the variance of the yield.
        """
        z = math.sqrt(self.q0) * self.signal_error / math.hypot(self.signal_error, spurious_signal)
        return replace(self, z_local=z, p_local=p_of_z(z))


def profile_significance(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "auto",
    natural_width_gev: float = 0.0,
) -> ProfileSignificance:
    """Test for a peak of given mass and width on a fitted background (q0).

    Args:
        background: One of ``BACKGROUNDS``, or ``auto``.
        natural_width_gev: Full width of the resonance itself; above 0 the peak is a Voigt curve.
    """
    search = peak_search(
        edges_gev, counts, mass_gev, resolution_gev,
        background=background, natural_width_gev=natural_width_gev,
    )  # fmt: skip
    return _significance(search, search.problem.fit(start=search.null.beta))


def _significance(search: PeakSearch, fit: Minimum) -> ProfileSignificance:
    signal, error = float(fit.theta[0]), search.problem.error(fit)
    q0 = max(2.0 * (search.null.nll - fit.nll), 0.0) if signal > 0 else 0.0
    return ProfileSignificance(math.sqrt(q0), p_of_z(math.sqrt(q0)), q0, signal, error, search.background)


def upper_limit(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "auto",
    natural_width_gev: float = 0.0,
) -> float:
    """Return the 95 % CLs limit on the events of a peak of given mass and width."""
    search = peak_search(
        edges_gev, counts, mass_gev, resolution_gev,
        background=background, natural_width_gev=natural_width_gev,
    )  # fmt: skip
    return limit_of(search.problem, search.null.expected)


def limit_of(problem: YieldProblem, background: Floats) -> float:
    """Return the 95 % CLs limit on a strength.

    Args:
        background: Events expected without a signal: the Asimov data set.
    """
    test = SignalTest(problem, background)
    return _solve(lambda s: test.p_values(s)[0] - ALPHA, 0.0, test.scale)


def unified_interval(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "auto",
    natural_width_gev: float = 0.0,
) -> tuple[float, float]:
    """Return the 95 % unified interval of the events of a peak of given mass and width.

    It begins at 0 where the data do not ask for a signal, and covers as often as it says where ten events
    or more lie under the peak.
    """
    from scipy.optimize import brentq

    search = peak_search(
        edges_gev, counts, mass_gev, resolution_gev,
        background=background, natural_width_gev=natural_width_gev,
    )  # fmt: skip
    test = SignalTest(search.problem, search.null.expected, search.null.beta)

    def excess(signal: float) -> float:
        return test.p_values(signal)[1] - ALPHA

    low = 0.0 if excess(0.0) >= 0 else brentq(excess, 0.0, test.best, xtol=1e-6 * test.best, rtol=1e-6)
    return float(low), _solve(excess, test.best, test.scale)


class SignalTest:
    """Tests of one data set for signals of any strength, by asymptotic formulas.

    Args:
        background: Events expected without a signal: the Asimov data set.
        start: Coefficients of the background at which the fits begin.
    """

    def __init__(self, problem: YieldProblem, background: Floats, start: Floats | None = None) -> None:
        self._observed = _Statistic(problem, start)
        self._asimov = _Statistic(problem.with_counts(background), start)
        self.best = max(self._observed.best, 0.0)

    @property
    def scale(self) -> float:
        """A signal near the limit, from which a search for it begins."""
        return self.best + self._asimov.sigma

    def p_values(self, signal: float) -> tuple[float, float]:
        """Return the CLs of a signal, and the chance of data that fit it as badly or worse (t~mu)."""
        t, asimov = self._observed.loss(signal), self._asimov.loss(signal)
        root, width = math.sqrt(t), math.sqrt(max(asimov, 1e-12))
        below = p_of_z(root) if t <= width**2 else p_of_z((t + width**2) / (2.0 * width))
        return _cls(t if signal > self._observed.best else 0.0, asimov), p_of_z(root) + below


class _Statistic:
    """Likelihood ratio of one data set, with strengths of 0 or more."""

    def __init__(self, problem: YieldProblem, start: Floats | None) -> None:
        self._problem, self._free, self._null = problem, problem.fit(None, start), problem.fit(0.0, start)
        self.best = float(self._free.theta[0])
        self._least = self._free.nll if self.best > 0 else self._null.nll

    @property
    def sigma(self) -> float:
        """Standard error of the strength."""
        return max(self._problem.error(self._free), 1e-3)

    def loss(self, signal: float) -> float:
        """Return twice the loss of log-likelihood at ``signal``."""
        fit = self._problem.fit(signal, self._null.theta[1:])
        return max(2.0 * (fit.nll - self._least), 0.0)


def _cls(q: float, asimov: float) -> float:
    """Return the CLs of an observed q~mu, given that of the Asimov data set."""
    root, width = math.sqrt(q), math.sqrt(max(asimov, 1e-12))
    if q <= asimov:
        return p_of_z(root) / max(1.0 - p_of_z(width - root), 1e-300)
    tail = p_of_z((q + asimov) / (2.0 * width))
    return tail / max(p_of_z((q - asimov) / (2.0 * width)), 1e-300)


def _solve(excess: Callable[[float], float], low: float, guess: float) -> float:
    """Return where a function that falls from ``low`` on crosses 0, by doubling and Brent's method."""
    from scipy.optimize import brentq

    high = max(guess, low + 1e-6)
    for _ in range(60):
        if excess(high) < 0:
            return float(brentq(excess, low, high, xtol=1e-6 * high, rtol=1e-6))
        low, high = high, 2.0 * high
    raise ArithmeticError("no finite signal is excluded; check the counts and the background")


def counting_limit(observed: float, background: float, background_error: float = 0.0) -> float:
    """Return the exact 95 % CLs limit on the expected signal of a counting experiment.

    Args:
        observed: Events, a whole number.
        background: Expected background, 0 or more.
        background_error: Its standard error: the Poisson chances are averaged over a gamma distribution.

    >>> round(counting_limit(0, 3.0), 2), round(counting_limit(0, 800.0), 2)
    (3.0, 3.0)
    """
    n, b = _whole("observed", observed), checked_number("background", background, least=0.0)
    points, weights = _background_points(b, checked_number("background_error", background_error, least=0.0))

    def chance(signal: float) -> float:
        logs = _log_poisson_below(n, points + signal)
        return float(logs.max() + math.log(weights @ np.exp(logs - logs.max())))

    least = chance(0.0) + math.log(ALPHA)
    return _solve(lambda s: chance(s) - least, 0.0, n + 3.0)


MOST_EVENTS: Final = 10_000
"""Most events of a counting interval."""


def counting_interval(observed: float, background: float) -> tuple[float, float]:
    """Return the exact 95 % unified interval of the expected signal of a counting experiment.

    It covers 95 % or more: counts are whole numbers, so that few of them cannot cover 95 % exactly.

    Args:
        observed: Events, a whole number.
        background: Expected background, 0 or more.

    >>> [round(end, 2) for end in counting_interval(3, 0.0)]
    [0.82, 8.25]
    """
    n = _whole("observed", observed, MOST_EVENTS)
    b = checked_number("background", background, least=0.0, most=MOST_EVENTS)
    reach = 4.0 * math.sqrt(max(n, b)) + 10.0
    grid = np.linspace(max(0.0, n - b - reach), max(0.0, n - b) + reach, 1000)
    inside = np.flatnonzero(_accepted(grid, n, b))
    first, last = int(inside[0]), int(inside[-1])
    low = _edge(grid[first - 1], grid[first], n, b) if first else float(grid[0])
    return low, _edge(grid[last + 1], grid[last], n, b)


def _accepted(signals: Floats, n: float, b: float) -> NDArray[np.bool_]:
    """Return for which signals ``n`` is among the counts that are ranked first and hold 95 %.

    Counts are ranked by their chance over that with the signal that fits them best.
    """
    from scipy.special import gammaln, xlogy

    means = signals[:, None] + b
    reach = 10.0 * math.sqrt(float(means.max())) + 20.0
    counts = np.arange(
        max(0.0, math.floor(float(means.min()) - reach)), math.ceil(float(means.max()) + reach)
    )
    counts = np.union1d(counts, [n])
    best = np.maximum(counts, b)
    ranks = xlogy(counts, means) - means - (xlogy(counts, best) - best)
    chances = np.exp(xlogy(counts, means) - means - gammaln(counts + 1.0))
    own = ranks[:, np.flatnonzero(counts == n)]
    return np.asarray((chances * (ranks <= own + 1e-9)).sum(axis=1) >= ALPHA)


def _edge(outside: float, inside: float, n: float, b: float) -> float:
    """Return where the signals begin that ``n`` events accept, by bisection."""
    while abs(inside - outside) > 1e-6 * max(inside, 1.0):
        middle = 0.5 * (inside + outside)
        if _accepted(np.array([middle]), n, b)[0]:
            inside = middle
        else:
            outside = middle
    return float(inside)


def _whole(name: str, value: float, most: float = math.inf) -> float:
    number = checked_number(name, value, least=0.0, most=most)
    if number != int(number):
        raise invalid(name, "must be a whole number of events")
    return number


def _background_points(b: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    if error == 0 or b == 0:
        return np.array([b]), np.array([1.0])
    from scipy.special import gammaincinv

    shape = (b / error) ** 2
    shares = (np.arange(200) + 0.5) / 200
    return gammaincinv(shape, shares) * b / shape, np.full(200, 1.0 / 200)


_MOST_TERMS: Final = 20_000
"""Most terms of a Poisson sum far below the mean; each is smaller than the one before."""


def _log_poisson_below(n: float, mean: np.ndarray) -> np.ndarray:
    """Return the logarithm of the chance of ``n`` events or fewer.

    A chance too small for a float is summed from the last term down: P(n) (1 + n/m + n (n - 1)/m^2 + ...).
    """
    from scipy.special import gammaincc, gammaln, xlogy

    chance = gammaincc(n + 1.0, mean)
    log, tiny = np.log(np.maximum(chance, 1e-300)), chance < 1e-290
    if tiny.any():
        far = mean[tiny, None]
        terms = np.cumprod((n - np.arange(min(int(n), _MOST_TERMS))) / far, axis=1)
        log[tiny] = (xlogy(n, far[:, 0]) - far[:, 0] - gammaln(n + 1.0)) + np.log1p(terms.sum(axis=1))
    return np.asarray(log)


POOR_FIT: Final = 0.01
"""p-value below which a background does not describe the data beside a peak."""

BESIDE: Final = 4.0
HIDDEN: Final = 0.125
"""Distance from a peak from which on only the background is there: in widths of the peak, and at most this
share of the spectrum, of which the rest must show whether a background fits."""

LEAST_BESIDE: Final = 0.6
"""Least share of the bins beside all peaks."""

FURTHER_PEAKS: Final = 2
CLEAR_PEAK: Final = 5.0
"""Further peaks that may stand beside one, and their least significance; the background is fitted beside them
too."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """How well a background describes the data beside a peak.

    Args:
        p_value: Chance of a chi-square this large, beside the peak.
        signal: Yield, in events, of a false peak as significant as the largest deviation from the background
            beside the peak; 0 where the background fits.
    """

    p_value: float
    signal: float

    @property
    def fits(self) -> bool:
        """Whether the background describes the data."""
        return self.p_value >= POOR_FIT


def background_misfit(
    edges_gev: ArrayLike, counts: ArrayLike, mass_gev: float, resolution_gev: float, *, background: str
) -> Misfit:
    """Fit a background beside a peak, and measure the false peaks that it makes there if it does not fit.

    Deviations count in both directions: a background that bends too little leaves hills and valleys.

    Args:
        background: One of ``BACKGROUNDS``.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    columns, bins, centres = design(background, edges), np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    ratio = min(BESIDE * resolution_gev / mass_gev, HIDDEN * math.log(centres[-1] / centres[0]))
    away = np.abs(centres / mass_gev - 1.0) > ratio
    for further in range(FURTHER_PEAKS + 1):
        found = fit_beside(columns, seen, bins, away)
        if found is None:
            return Misfit(1.0, 0.0)
        fit, p_value = found
        if p_value >= POOR_FIT:
            return Misfit(p_value, 0.0)
        templates = gauss_templates(edges, centres, centres * resolution_gev / mass_gev)
        test = score_test(templates[np.ix_(away, away)], fit.expected, columns[away])
        deviations = score_z(test, seen[away], fit.expected)
        peak = np.flatnonzero(away)[np.argmax(deviations)]
        left = away & (np.abs(centres / centres[peak] - 1.0) > ratio)
        if further == FURTHER_PEAKS or deviations.max() < CLEAR_PEAK or left.mean() < LEAST_BESIDE:
            break
        away = left
    smooth = bins * exponential(columns @ fit.beta)
    here = score_test(gauss_bins(edges, mass_gev, resolution_gev)[None, :], smooth, columns)
    return Misfit(p_value, float(np.abs(deviations).max() * here.errors[0]))


BENDING: Final = ("quartic", "dijet5")
"""Families that bend within a broad peak. They count where the data ask for them, by Akaike's criterion, or
where they describe without a peak what the nominal one describes with it only."""

ALTERNATIVES: Final = ("exponential", "power_law", "quadratic", "cubic", *BENDING)
"""Background families tried for a spurious signal."""

AS_WELL: Final = 2.0
"""Log-likelihood by which a family may be worse and still count."""


@dataclass(frozen=True, slots=True)
class SpuriousSignal:
    """Spurious signal: what the choice of the background's family adds to the yield.

    Args:
        signal: Largest difference in yield, in events, between the nominal family and one that fits.
        by_background: Yield by family, of those that fit.
        fits: Whether the nominal family describes the data beside the peak.
        nominal: The significance with the nominal family alone.
    """

    signal: float
    by_background: Mapping[str, float]
    fits: bool
    nominal: ProfileSignificance


UNDER_PEAK: Final = 0.01
"""Bins with at least this share of a peak's highest bin lie under it."""


def spurious_signal(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "exponential",
    natural_width_gev: float = 0.0,
) -> SpuriousSignal:
    """Measure how far the yield moves with another background that also fits.

    Args:
        background: The nominal family. One of ``ALTERNATIVES`` that fits worse by more than ``AS_WELL`` is
            ignored. If the nominal one does not describe the data beside the peak, the signal is at least
            that of :func:`background_misfit`, and so large that the significance is at most the yield over
            its error: a likelihood ratio of two poor descriptions means nothing.

    Raises:
        InvalidAnalysis: An argument breaks its rule, or there is no event under the peak.
    """
    search = peak_search(
        edges_gev, counts, mass_gev, resolution_gev,
        background=background, natural_width_gev=natural_width_gev,
    )  # fmt: skip
    problem, first = search.problem, search.problem.fit(start=search.null.beta)
    nominal = _significance(search, first)
    if not problem.counts[problem.template >= UNDER_PEAK * problem.template.max()].any():
        raise invalid("counts", "must hold events under the peak: without them its yield has no error")
    yields = {background: nominal.signal}
    for name in ALTERNATIVES:
        if name == background:
            continue
        other = search.on(name)
        fit = other.problem.fit(start=other.null.beta)
        asked = fit.nll + len(fit.theta) < first.nll + len(first.theta)
        explains = other.null.nll <= first.nll + AS_WELL < search.null.nll
        if name in BENDING and not (asked or explains):
            continue
        if fit.nll <= first.nll + AS_WELL:
            yields[name] = float(fit.theta[0])
    width = math.hypot(resolution_gev, natural_width_gev / FWHM_OF_SIGMA)
    misfit = background_misfit(edges_gev, counts, mass_gev, width, background=background)
    most = max(misfit.signal, *(abs(value - yields[background]) for value in yields.values()))
    if not misfit.fits and nominal.q0 > 0:
        error = nominal.signal_error
        inflated = max(nominal.q0 * (error / nominal.signal) ** 2, 1.0)
        most = math.sqrt(inflated * (error**2 + most**2) - error**2)
    return SpuriousSignal(most, yields, misfit.fits, nominal)
