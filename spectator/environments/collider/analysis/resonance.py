"""Fit a resonance in a window, with errors that cover.

The likelihood of a faint peak has more than one maximum, and if its width was fitted too narrow, the
curvature understates the error of the mass. So masses and widths are weighted with their likelihood: the
error is the distance from the fitted mass that holds 68 % of the weight, and at least half of the root mean
square distance, which includes far maxima.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Floats,
    Window,
    checked_choice,
    checked_mass,
    checked_number,
    checked_spectrum,
    checked_window,
    invalid,
)
from spectator.environments.collider.analysis.likelihood import covariance, minimise
from spectator.environments.collider.analysis.peaks import MODELS, NOTHING, POOR, FitTask, Trial, describe
from spectator.environments.collider.analysis.shapes import (
    BACKGROUNDS,
    ORDERS,
    design,
    gauss_templates,
    poisson_regression,
    score_test,
    score_z,
)

FAINT: Final = 10.0
"""Significance below which :func:`mass_spread` gives the error."""

NEAR: Final = 6.5
FAR: Final = 6.0
"""Above the significance NEAR only masses within FAR widths are considered: other maxima cannot compete."""

FEW: Final = 400
"""Events in the window below which the likelihood itself is used, not the score's approximation."""

_WIDTHS: Final = 9
_MOST_MASSES: Final = 160
_NEWTON: Final = 6
_FINER: Final = 12


def mass_spread(
    edges: Floats,
    counts: Floats,
    columns: Floats,
    background: Floats,
    mass: float,
    widths: tuple[Floats, Floats],
    reach: float,
) -> float:
    """Return the error of a faint peak's mass.

    That is the distance from ``mass`` that holds 68.27 % of the weight, and at least half of the root mean
    square distance.

    Args:
        widths: Widths to try, and the cost of each by its constraint, in twice the log-likelihood.
        reach: How far from ``mass`` to go.
    """
    sigmas, costs = widths
    low, high = max(float(edges[0]), mass - reach), min(float(edges[-1]), mass + reach)
    step = max(0.4 * float(sigmas.min()), (high - low) / _MOST_MASSES)
    masses = np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)
    templates = gauss_templates(edges, np.tile(masses, len(sigmas)), np.repeat(sigmas, len(masses)))
    if counts.sum() < FEW:
        gain = _likelihood_gain(templates, counts, np.maximum(background, 1e-9))
    else:
        smooth = poisson_regression(columns, counts, np.diff(edges)).expected
        gain = np.maximum(score_z(score_test(templates, smooth, columns), counts, smooth), 0.0) ** 2
    gain = gain.reshape(len(sigmas), len(masses)) - costs[:, None]
    logs = np.log(np.exp(0.5 * (gain - gain.max())).sum(axis=0) + 1e-300)
    fine = np.linspace(masses[0], masses[-1], _FINER * len(masses))
    weights, distances = np.exp(np.interp(fine, masses, logs)), np.abs(fine - mass)
    spread = float(np.sqrt(weights @ distances**2 / weights.sum()))
    return max(_distance_of_share(distances, weights), 0.5 * spread)


def _distance_of_share(distances: Floats, weights: Floats) -> float:
    """Return the distance that holds 68.27 % of the weight."""
    order = np.argsort(distances)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(distances[order][min(int(np.searchsorted(share, 0.6827)), len(share) - 1)])


def _likelihood_gain(templates: Floats, counts: Floats, background: Floats) -> Floats:
    """Return twice the log-likelihood gain of each template at its best yield."""
    seen = counts > 0
    shares, ratio, n = templates.sum(axis=1), templates[:, seen] / background[seen], counts[seen]
    signal = np.full(len(templates), 1.0)
    for _ in range(_NEWTON):
        terms = ratio / (1.0 + signal[:, None] * ratio)
        slope, curvature = terms @ n - shares, (terms * terms) @ n
        signal = np.maximum(signal + slope / np.maximum(curvature, 1e-12), 0.25 * signal)
    gain = 2.0 * (np.log1p(signal[:, None] * ratio) @ n - signal * shares)
    return np.asarray(np.maximum(gain, 0.0))


def widths_to_try(low: float, high: float) -> Floats:
    """Return widths from ``low`` to ``high`` in equal ratios of at most 1.6."""
    return np.geomspace(low, high, min(max(int(np.ceil(np.log(high / low) / 0.4)) + 1, 3), _WIDTHS))


AS_WIDE: Final = 0.85
"""Share of the largest sigma from which a width counts as at its limit."""

SHAPE_ERROR: Final = 2e-4
"""Relative error of a mass from a shape that does not describe the data. With millions of events the
statistical error is meaningless: the shipped J/psi and Z move by 1e-4 to 5e-4 between shapes and windows."""

WIDEST: Final = 0.12
"""Largest relative width of a peak of unknown width: an assumption. Pairs of jets, the widest peaks in common
use, have about 0.1; the trigger's shoulder in the shipped spectrum has 0.14."""

WIDE: Final = 0.06
"""Relative width from which a peak may be a trigger's turn-on instead."""

EDGE_WIDTHS: Final = 2.0
"""Least distance of a resonance from the ends of its window, in its widths: without a background on both
sides a peak cannot be distinguished from a slope."""

SLOPE_WIDTHS: Final = 4.0
"""The same of one that makes no maximum: in the tail of a larger peak, of which the window holds no more."""

UNCERTAIN: Final = 5.0
"""Yield, in its errors, below which a peak of a poor fit is uncertain. The significance there compares two
descriptions of which neither holds; the error allows for that and for other shapes."""


@dataclass(frozen=True, slots=True)
class ResonanceFit:
    """A resonance in a window.

    Args:
        mass_error_gev: Standard error, statistical and of the model together.
        mass_model_error_gev: The part of the model, 0 for a good description. For a poor one the statistical
            error is scaled by sqrt(chi2 / ndf), as the Particle Data Group does, and 2e-4 of the mass are
            added in quadrature.
        width_gev: Gaussian width sigma: the resolution, without the natural width of ``voigt``.
        signal: Events of the peak, including those outside the window.
        z_local: Significance at this mass: sqrt(q0), 0 without an excess.
        chi2: Pearson's over the bins of the window.
        ndf: Bins less free parameters.
        converged: Whether the likelihood's minimum was found.
        width_error_gev: Standard error of the width; 0 if it was given.
        p_value: Chance of a chi-square this large.
        window_gev: Edges of the bins that were used.
        width_at_limit: Whether the width is about as large as the window allows, or `WIDEST` of the mass,
            and was not given.
        z_over_smooth: Significance of this description over the best smooth background alone, up to a
            quartic, however much that bends. It is large for a narrow peak, small for a shoulder or a
            turn-on.
        monotonic: Whether the fitted description only rises or only falls within one width of the peak.
        expected: Events of the fitted description in each bin.
        expected_background: The same without this peak.
        bins: First bin of the window and the one after its last.
    """

    mass_gev: float
    mass_error_gev: float
    width_gev: float
    signal: float
    z_local: float
    chi2: float
    ndf: int
    converged: bool
    signal_error: float
    width_error_gev: float
    p_value: float
    model: str
    background: str
    window_gev: tuple[float, float]
    width_at_limit: bool
    z_over_smooth: float
    monotonic: bool
    expected: tuple[float, ...]
    expected_background: tuple[float, ...]
    bins: tuple[int, int]
    mass_model_error_gev: float

    @property
    def at_edge(self) -> bool:
        """Whether it stands within `EDGE_WIDTHS` of its widths of an end of the window, or outside.

        One without a maximum does within `SLOPE_WIDTHS`.
        """
        low, high = self.window_gev
        widths = SLOPE_WIDTHS if self.monotonic else EDGE_WIDTHS
        return min(self.mass_gev - low, high - self.mass_gev) < widths * self.width_gev

    @property
    def background_like(self) -> bool:
        """Whether a bend of the background explains it: the local background shape test.

        So it is at an end of the window, where the width is as large as the window allows, and where a smooth
        background alone takes more than half of the significance, of which ten standard deviations are asked
        for at most; of a `WIDE` peak 40, or all where the fit is poor. A fit that does not describe the data
        at all shows no peak either, nor a poor one in which the yield is `UNCERTAIN` and the peak is `WIDE`
        or makes no maximum.
        """
        wide = self.width_gev > WIDE * self.mass_gev
        poor = self.p_value < POOR
        described = self.chi2 < NOTHING * max(self.ndf, 1)
        vague = poor and self.signal < UNCERTAIN * self.signal_error and (wide or self.monotonic)
        most = (math.inf if poor else 40.0) if wide else 10.0
        smooth = self.z_over_smooth < 0.5 * min(self.z_local, most)
        return self.at_edge or self.width_at_limit or smooth or vague or not described


def fit_resonance(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    window_gev: Window | None = None,
    *,
    model: str = "auto",
    background: str = "auto",
    natural_width_gev: float | None = None,
    resolution_gev: float | None = None,
    resolution_error_gev: float | None = None,
    mass_gev: float | None = None,
) -> ResonanceFit:
    """Find and fit the most significant peak of a window, by maximum Poisson likelihood.

    With ``auto``, the fit begins with a Gauss curve on an exponential. If their chi-square is poor, it tries
    more curved backgrounds, tails, and further peaks of the same relative width, and keeps what Akaike's
    criterion prefers.

    Args:
        edges_gev: Bin edges, n + 1 ascending values in GeV.
        window_gev: Lower and upper mass; bins whose centre is inside are used. By default all.
        model: ``gauss``, ``voigt``, ``crystal_ball`` (a tail on either side), or ``auto``.
        background: One of ``BACKGROUNDS``, or ``auto``.
        natural_width_gev: Full width of the resonance itself; implies ``voigt``.
        resolution_gev: The Gaussian width, if known.
        resolution_error_gev: Its error, which constrains the width; by default the width is fixed.
        mass_gev: Where to begin; by default the fit searches.

    >>> edges = np.linspace(100.0, 150.0, 51)
    >>> from spectator.environments.collider.analysis.shapes import gauss_bins
    >>> counts = 1000 * np.exp(-np.arange(50) / 30) + 2000 * gauss_bins(edges, 125.0, 1.6)
    >>> fit = fit_resonance(edges, counts, (105.0, 145.0))
    >>> round(fit.mass_gev, 1), round(fit.width_gev, 1), round(fit.signal, -1), fit.converged
    (125.0, 1.6, 2000.0, True)
    """
    task, chosen = _task(
        edges_gev, counts, window_gev, background, mass_gev,
        model, natural_width_gev, resolution_gev, resolution_error_gev,
    )  # fmt: skip
    best = describe(task)
    return _report(task, best, chosen, _main_peak(best))


def fit_resonances(
    edges_gev: ArrayLike, counts: ArrayLike, window_gev: Window | None = None, mass_gev: float | None = None
) -> tuple[ResonanceFit, ...]:
    """Fit the peaks of a window together and report each, ordered by mass.

    Args:
        edges_gev: Bin edges, n + 1 ascending values in GeV.
        window_gev: Lower and upper mass; by default all bins.
    """
    task, chosen = _task(edges_gev, counts, window_gev, "auto", mass_gev)
    best = describe(task)
    reports = [_report(task, best, chosen, peak) for peak in range(best.problem.peaks)]
    return tuple(sorted(reports, key=lambda report: report.mass_gev))


def _task(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    window_gev: Window | None,
    background: str,
    mass: float | None,
    model: str = "auto",
    gamma: float | None = None,
    resolution: float | None = None,
    resolution_error: float | None = None,
) -> tuple[FitTask, slice]:
    all_edges, seen = checked_spectrum(edges_gev, counts)
    chosen = checked_window(all_edges, window_gev, bins=5)
    edges, seen = all_edges[chosen.start : chosen.stop + 1], seen[chosen]
    checked_choice("model", model, ("auto", *MODELS))
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    if not seen.any():
        raise invalid("counts", "must hold at least one event in the window")
    if gamma is not None:
        checked_number("natural_width_gev", gamma, least=0.0)
        if model not in ("auto", "voigt"):
            raise invalid("model", f"must be voigt if natural_width_gev is given, not {model}")
        model = "voigt"
    elif model == "voigt":
        raise invalid("natural_width_gev", "must be given for the voigt model")
    if resolution is not None:
        checked_number("resolution_gev", resolution, above=0.0, most=float(edges[-1] - edges[0]))
    if resolution_error is not None:
        checked_number("resolution_error_gev", resolution_error, least=0.0)
        if resolution is None:
            raise invalid("resolution_gev", "must be given if resolution_error_gev is")
    if mass is not None:
        mass = checked_mass("mass_gev", mass, edges)
    task = FitTask(edges, seen, model, background, gamma or 0.0, resolution, resolution_error or 0.0, mass)
    return task, chosen


def _report(task: FitTask, best: Trial, chosen: slice, main: int) -> ResonanceFit:
    problem, minimum = best.problem, best.minimum
    theta = minimum.theta
    errors = _errors(best, main)
    mass = float(theta[problem.peaks + main])
    sigma = mass * math.exp(theta[problem.width])
    poor = math.sqrt(best.chi2 / best.ndf) if best.ndf and best.p_value < POOR else 1.0
    poor = max(poor, 1.0)
    share = theta[main] * problem.shares(theta, main)
    widest = min(AS_WIDE * task.sigmas[1], WIDEST * mass)
    z_local = _z_local(task, best, main)
    statistical = _mass_error(task, best, float(errors[problem.peaks + main]), sigma, z_local)
    model = 0.0
    if best.p_value < POOR:
        model = math.hypot(statistical * math.sqrt(poor * poor - 1.0), SHAPE_ERROR * mass)
    mass_error = math.hypot(statistical, model)
    return ResonanceFit(
        mass_gev=mass,
        mass_error_gev=min(mass_error, float(task.edges[-1] - task.edges[0])),
        mass_model_error_gev=model,
        width_gev=sigma,
        signal=float(theta[main]),
        z_local=z_local,
        chi2=best.chi2,
        ndf=best.ndf,
        converged=minimum.converged,
        signal_error=float(errors[main] * poor),
        width_error_gev=float(errors[problem.width] * sigma * poor),
        p_value=best.p_value,
        model=problem.model,
        background=best.background,
        window_gev=(float(task.edges[0]), float(task.edges[-1])),
        width_at_limit=task.resolution_gev is None and sigma >= widest,
        z_over_smooth=_z_over_smooth(task, best),
        monotonic=_is_monotonic(task.edges, minimum.expected, mass, sigma),
        expected=tuple(minimum.expected.tolist()),
        expected_background=tuple((minimum.expected - share).tolist()),
        bins=(chosen.start, chosen.stop),
    )


def _is_monotonic(edges: Floats, expected: Floats, mass: float, sigma: float) -> bool:
    near = np.flatnonzero((edges[1:] > mass - sigma) & (edges[:-1] < mass + sigma))
    steps = np.diff((expected / np.diff(edges))[near])
    return bool((steps >= 0).all() or (steps <= 0).all())


def _main_peak(best: Trial) -> int:
    """Return the peak that the fit began with, or the largest one if that vanished."""
    yields = best.minimum.theta[: best.problem.peaks]
    return 0 if yields[0] > 0 else int(np.argmax(yields))


def _errors(best: Trial, main: int) -> Floats:
    """Return all standard errors; if the peak vanished, those of the yields alone."""
    free, minimum = best.problem.free(), best.minimum
    if minimum.theta[main] <= 0:
        free[best.problem.peaks : best.problem.first_background] = False
        minimum = replace(minimum, at_limit=np.zeros_like(minimum.at_limit))
    return np.asarray(np.sqrt(np.diag(covariance(best.problem, minimum, free))))


def _z_over_smooth(task: FitTask, best: Trial) -> float:
    most = [name for name, order in ORDERS.items() if order < len(task.counts) - 1][-1]
    alone = poisson_regression(design(most, task.edges), task.counts, np.diff(task.edges)).nll
    return math.sqrt(max(2.0 * (alone - best.minimum.nll), 0.0))


def _mass_error(task: FitTask, best: Trial, error: float, sigma: float, z: float) -> float:
    """Return the error of the mass, from the curvature of the likelihood.

    At least what a bin allows if the whole peak is in one; for a faint peak at least :func:`mass_spread`.
    """
    bins = float(np.diff(task.edges).mean())
    if error <= 0:
        return float(task.edges[-1] - task.edges[0]) / math.sqrt(12.0)
    if sigma < 0.5 * bins:
        error = max(error, bins / math.sqrt(12.0))
    if z < FAINT and best.problem.peaks == 1:
        theta = best.minimum.theta
        around = (best.problem.background(theta), float(theta[1]), _tried_widths(task))
        reach = FAR * sigma if z > NEAR else math.inf
        error = max(error, mass_spread(task.edges, task.counts, best.problem.columns, *around, reach))
    return error


def _tried_widths(task: FitTask) -> tuple[Floats, Floats]:
    """Return widths for :func:`mass_spread`, and the cost of each."""
    centre, error = task.typical
    if error == 0:
        return np.array([centre]), np.zeros(1)
    least, most = task.sigmas
    low = max(centre * math.exp(-2.0 * error), least)
    sigmas = widths_to_try(low, max(min(centre * math.exp(2.0 * error), most), 1.01 * low))
    return sigmas, (np.log(sigmas / centre) / error) ** 2


def _z_local(task: FitTask, best: Trial, main: int) -> float:
    """Return sqrt(q0) at the fitted mass and width.

    Background and other yields are fitted again without the peak.
    """
    theta = best.minimum.theta.copy()
    if theta[main] <= 0:
        return 0.0
    problem = best.problem
    if problem.peaks == 1:
        fit = poisson_regression(problem.columns, task.counts, np.diff(task.edges))
        without = fit.nll
    else:
        free = problem.free()
        free[problem.peaks : problem.first_background] = False
        free[main] = False
        theta[main] = 0.0
        without = minimise(problem, theta, free).nll
    return math.sqrt(max(2.0 * (without - best.minimum.nll), 0.0))
