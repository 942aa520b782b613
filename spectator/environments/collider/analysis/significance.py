"""Significance of an excess, its spurious part, and upper limits by the CLs method.

Both for counts and for shapes. Asymptotic formulas, q~mu and expected limits: G. Cowan, K. Cranmer, E.
Gross, O. Vitells, "Asymptotic formulae for likelihood-based tests of new physics", EPJC 71 (2011) 1554,
arXiv:1007.1727. With a background uncertainty: G. Cowan, "Discovery sensitivity for a counting
experiment with background uncertainty" (2012): the Asimov form of the on/off problem. CLs: A. L. Read,
J. Phys. G 28 (2002) 2693; exact for counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, checked_number, invalid
from spectator.environments.collider.analysis.likelihood import YieldProblem, peak_search
from spectator.environments.collider.analysis.shapes import chi2_p, p_of_z

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


def combined_p(z: Sequence[float]) -> float:
    """Return the chance that channels without a signal show excesses as large as ``z``.

    The statistic is the sum of squares, with deficits as 0. Half of the channels fluctuate down, so it is a
    mixture of chi-squares with binomial weights.

    >>> round(combined_p([3.0]) / p_of_z(3.0), 6)
    1.0
    """
    total, number = sum(max(one, 0.0) ** 2 for one in z), len(z)
    return math.fsum(
        math.comb(number, degrees) / 2**number * chi2_p(total, degrees) for degrees in range(1, number + 1)
    )


def profile_significance(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "auto",
    spurious_signal: float = 0.0,
) -> ProfileSignificance:
    """Test for a peak of given mass and width on a fitted background (q0).

    Args:
        background: One of ``BACKGROUNDS``, or ``auto``.
        spurious_signal: Error of the yield, in events, from the choice of the background's family; it enters
            as Z -> Z sqrt(V / (V + S^2)) with V the variance of the yield.
    """
    checked_number("spurious_signal", spurious_signal, least=0.0)
    search = peak_search(edges_gev, counts, mass_gev, resolution_gev, background=background)
    fit = search.problem.fit(start=search.null.beta)
    signal, error = float(fit.theta[0]), search.problem.error(fit)
    q0 = max(2.0 * (search.null.nll - fit.nll), 0.0) if signal > 0 else 0.0
    z = math.sqrt(q0) * error / math.hypot(error, spurious_signal) if error > 0 else 0.0
    return ProfileSignificance(z, p_of_z(z), q0, signal, error, search.background)


def upper_limit(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "auto",
) -> float:
    """Return the 95 % CLs limit on the events of a peak of given mass and Gaussian width."""
    search = peak_search(edges_gev, counts, mass_gev, resolution_gev, background=background)
    return limit_of(search.problem, search.null.expected)


def limit_of(problem: YieldProblem, background: Floats) -> float:
    """Return the 95 % CLs limit on a strength.

    Args:
        background: Events expected without a signal: the Asimov data set.
    """
    observed, asimov = _Statistic(problem), _Statistic(problem.with_counts(background))
    return _solve(lambda s: _cls(observed.q(s), asimov.q(s)) - ALPHA, max(observed.best, 0.0) + asimov.sigma)


class _Statistic:
    """q~mu of one data set."""

    def __init__(self, problem: YieldProblem) -> None:
        self._problem = problem
        free = problem.fit()
        self.best, self.sigma = float(free.theta[0]), max(problem.error(free), 1e-3)
        self._null = problem.fit(0.0)
        self._least = free.nll if self.best > 0 else self._null.nll
        self._start = self._null.theta[1:]

    def q(self, signal: float) -> float:
        """Return twice the loss of log-likelihood at ``signal``; 0 below the best fit."""
        if signal <= self.best:
            return 0.0
        fit = self._problem.fit(signal, self._start)
        return max(2.0 * (fit.nll - self._least), 0.0)


def _cls(q: float, asimov: float) -> float:
    """Return the CLs of an observed q~mu, given that of the Asimov data set."""
    root, width = math.sqrt(q), math.sqrt(max(asimov, 1e-12))
    if q <= asimov:
        return p_of_z(root) / max(1.0 - p_of_z(width - root), 1e-300)
    tail = p_of_z((q + asimov) / (2.0 * width))
    return tail / max(p_of_z((q - asimov) / (2.0 * width)), 1e-300)


def _solve(excess: Callable[[float], float], guess: float) -> float:
    """Return where a falling function crosses 0, by doubling and Brent's method."""
    from scipy.optimize import brentq

    low, high = 0.0, max(guess, 1e-6)
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
    n = checked_number("observed", observed, least=0.0)
    if n != int(n):
        raise invalid("observed", "must be a whole number of events")
    b = checked_number("background", background, least=0.0)
    points, weights = _background_points(b, checked_number("background_error", background_error, least=0.0))
    from scipy.special import logsumexp

    def chance(signal: float) -> float:
        return float(logsumexp(_log_poisson_below(n, points + signal), b=weights))

    least = chance(0.0) + math.log(ALPHA)
    return _solve(lambda s: chance(s) - least, n + 3.0)


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


ALTERNATIVES: Final = ("exponential", "power_law", "quadratic", "cubic")
"""Background families tried for a spurious signal."""


@dataclass(frozen=True, slots=True)
class SpuriousSignal:
    """Spurious signal: what the choice of the background's family adds to the yield.

    Args:
        signal: Largest difference in yield, in events, between the nominal family and one that fits.
        relative_to_error: The same over the statistical error of the yield.
        by_background: Yield by family, of those that fit.
    """

    signal: float
    relative_to_error: float
    by_background: Mapping[str, float]


UNDER_PEAK: Final = 0.01
"""Bins with at least this share of a peak's highest bin lie under it."""


def spurious_signal(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "exponential",
) -> SpuriousSignal:
    """Measure how far the yield moves with another background that also fits.

    Args:
        background: The nominal family. One of ``ALTERNATIVES`` that fits worse, by more than four in twice
            the log-likelihood, is ignored.

    Raises:
        InvalidAnalysis: An argument breaks its rule, or there is no event under the peak.
    """
    yields: dict[str, float] = {}
    nominal_nll, error = math.inf, math.inf
    for name in dict.fromkeys((background, *ALTERNATIVES)):
        search = peak_search(
            edges_gev,
            counts,
            mass_gev,
            resolution_gev,
            background=name,
        )
        fit = search.problem.fit(start=search.null.beta)
        if name == background:
            nominal_nll, error = fit.nll, search.problem.error(fit)
            template = search.problem.template
            if not search.problem.counts[template >= UNDER_PEAK * template.max()].any():
                raise invalid(
                    "counts", "must hold events under the peak: without them its yield has no error"
                )
        elif fit.nll > nominal_nll + 2.0:
            continue
        yields[name] = float(fit.theta[0])
    most = max(abs(value - yields[background]) for value in yields.values())
    return SpuriousSignal(most, most / error, yields)
