"""Fit peaks of one relative width on a smooth background.

The search for a description begins with a Gauss curve on an exponential, and tries richer ones if that fits
badly. Starts are the masses and widths at which a matched filter responds most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.likelihood import Minimum, minimise
from spectator.environments.collider.analysis.shapes import (
    ORDERS,
    crystal_ball_bins,
    design,
    gauss_bins,
    gauss_slopes,
    gauss_templates,
    goodness,
    poisson_regression,
    score_test,
    score_z,
    voigt_bins,
)

MODELS: Final = ("gauss", "voigt", "crystal_ball")
"""Shapes of peaks."""

_TAIL_CENTRE: Final = (math.log(1.5), math.log(2.0), math.log(1.5), math.log(2.0))
_TAIL_ERROR: Final = (0.5, 1.0, 0.5, 1.0)
"""Weak constraints on the logarithms of where the tails begin and of their powers less one: if the data do
not determine the tails, they stay near those of dimuon peaks."""


@dataclass(slots=True)
class PeakProblem:
    """Peaks and a background, as a :class:`LikelihoodProblem`.

    The parameters are, in this order: a yield for each peak, a mass for each peak, the logarithm of
    sigma / m that all share, four tail parameters for ``crystal_ball``, the background's coefficients.

    Args:
        model: One of ``MODELS``.
        gamma: Natural full width of the peaks, for ``voigt``.
        widths_gev: Least and largest sigma that is allowed.
        resolution: sigma / m and the relative error of its constraint; ``None`` for no constraint.
    """

    edges: Floats
    counts: Floats
    columns: Floats
    peaks: int
    model: str
    gamma: float
    widths_gev: tuple[float, float]
    resolution: tuple[float, float] | None = None
    lower: Floats = field(init=False)
    upper: Floats = field(init=False)
    centre: Floats = field(init=False)
    weight: Floats = field(init=False)
    bins: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.bins = np.diff(self.edges)
        size = self.first_background + self.columns.shape[1]
        self.lower, self.upper = np.full(size, -np.inf), np.full(size, np.inf)
        self.centre, self.weight = np.zeros(size), np.zeros(size)
        self.lower[: self.peaks] = 0.0
        self.lower[self.peaks : self.width] = self.edges[0]
        self.upper[self.peaks : self.width] = self.edges[-1]
        middle = 0.5 * (self.edges[0] + self.edges[-1])
        self.lower[self.width] = math.log(self.widths_gev[0] / middle)
        self.upper[self.width] = math.log(self.widths_gev[1] / middle)
        if self.resolution is not None and self.resolution[1] > 0:
            self.centre[self.width] = math.log(self.resolution[0])
            self.weight[self.width] = self.resolution[1] ** -2
        tails = slice(self.width + 1, self.first_background)
        if self.model == "crystal_ball":
            self.centre[tails] = _TAIL_CENTRE
            self.weight[tails] = np.array(_TAIL_ERROR) ** -2.0
            self.lower[tails], self.upper[tails] = self.centre[tails] - 3.0, self.centre[tails] + 3.0
        self.lower[self.first_background :] = -700.0
        self.upper[self.first_background :] = 700.0

    @property
    def width(self) -> int:
        """Index of ln(sigma / m)."""
        return 2 * self.peaks

    @property
    def first_background(self) -> int:
        """Index of the background's first coefficient."""
        return self.width + (5 if self.model == "crystal_ball" else 1)

    def background(self, theta: Floats) -> Floats:
        """Return the expected background events of each bin."""
        beta = theta[self.first_background :]
        return np.asarray(self.bins * np.exp(np.clip(self.columns @ beta, -600, 600)))

    def shares(self, theta: Floats, peak: int) -> Floats:
        """Return the share of one peak's events in each bin."""
        mass = float(theta[self.peaks + peak])
        sigma = mass * math.exp(min(float(theta[self.width]), 5.0))
        if self.model == "gauss":
            return gauss_bins(self.edges, mass, sigma)
        if self.model == "voigt":
            return voigt_bins(self.edges, mass, sigma, self.gamma)
        start, power, upper, upper_power = np.exp(theta[self.width + 1 : self.first_background])
        return crystal_ball_bins(self.edges, mass, sigma, (start, 1 + power, upper, 1 + upper_power))

    def _all_shares(self, thetas: Floats, peak: int) -> Floats:
        """Return the shares of a peak for each row of parameters."""
        if self.model != "crystal_ball":
            return np.array([self.shares(theta, peak) for theta in thetas])
        masses = thetas[:, self.peaks + peak]
        sigmas = masses * [math.exp(min(width, 5.0)) for width in thetas[:, self.width].tolist()]
        tails = np.array([np.exp(theta[self.width + 1 : self.first_background]) for theta in thetas])
        start, power, upper, upper_power = tails.T[:, :, None]
        around = (start, 1 + power, upper, 1 + upper_power)
        return crystal_ball_bins(self.edges, masses[:, None], sigmas[:, None], around)

    def expected(self, theta: Floats) -> Floats:
        """Return the expected events of each bin."""
        total = self.background(theta)
        for peak in range(self.peaks):
            if theta[peak]:
                total += theta[peak] * self.shares(theta, peak)
        return np.maximum(total, 0.0) if (total <= 0).any() else total

    def derivatives(self, theta: Floats) -> Floats:
        """Return the derivative of each bin by each parameter."""
        rows = np.zeros((len(self.counts), len(theta)))
        rows[:, self.first_background :] = self.background(theta)[:, None] * self.columns
        for peak in range(self.peaks):
            slopes = self._gauss_slopes if self.model == "gauss" else self._central_slopes
            slopes(theta, peak, rows)
        return rows

    def _gauss_slopes(self, theta: Floats, peak: int, rows: Floats) -> None:
        mass = float(theta[self.peaks + peak])
        ratio = math.exp(min(float(theta[self.width]), 5.0))
        shares, by_mass, by_sigma = gauss_slopes(self.edges, mass, mass * ratio)
        rows[:, peak] = shares
        rows[:, self.peaks + peak] = theta[peak] * (by_mass + ratio * by_sigma)
        rows[:, self.width] += theta[peak] * mass * ratio * by_sigma

    def _central_slopes(self, theta: Floats, peak: int, rows: Floats) -> None:
        if not theta[peak]:
            rows[:, peak] = self.shares(theta, peak)
            return
        sigma = theta[self.peaks + peak] * math.exp(theta[self.width])
        chosen = [self.peaks + peak, *range(self.width, self.first_background)]
        sizes, steps = np.full(len(chosen), 1e-4), np.zeros((len(chosen), len(theta)))
        sizes[0] *= sigma
        steps[np.arange(len(chosen)), chosen] = sizes
        shares = self._all_shares(np.concatenate([theta[None], theta + steps, theta - steps]), peak)
        rows[:, peak], (above, below) = shares[0], np.split(shares[1:], 2)
        rows[:, chosen] += (theta[peak] * (above - below) / (2.0 * sizes)[:, None]).T

    def start(self, yields: Sequence[float], masses: Sequence[float], sigma: float, beta: Floats) -> Floats:
        """Return a vector of parameters; ``sigma`` is that of the first peak."""
        tails = _TAIL_CENTRE if self.model == "crystal_ball" else ()
        return np.array([*yields, *masses, math.log(sigma / masses[0]), *tails, *beta])

    def free(self) -> NDArray[np.bool_]:
        """Return which parameters are free: all except a width that is known exactly."""
        free = np.ones(len(self.lower), dtype=bool)
        if self.resolution is not None and self.resolution[1] == 0:
            free[self.width] = False
        return free


_MASSES: Final = 48
_WIDTHS: Final = 5
_MOST: Final = 3
_CLEAR: Final = 8.0
_WORTH: Final = 0.7


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a fit.

    Args:
        mass: In GeV.
        sigma: In GeV.
    """

    mass: float
    sigma: float
    signal: float
    z: float
    beta: Floats


def starts(edges: Floats, counts: Floats, sigmas: tuple[float, float], mass: float | None) -> list[Start]:
    """Return the most promising starts, best first, at least two widths apart.

    A clear best one is returned alone.

    Args:
        sigmas: Least and largest width to try.
        mass: Where to look; by default everywhere.
    """
    columns, bins = design("exponential", edges), np.diff(edges)
    smooth = poisson_regression(columns, counts, bins)
    masses = _grid(edges) if mass is None else np.array([mass])
    widths = np.unique(
        np.geomspace(max(sigmas[0], 0.4 * float(bins.min())), sigmas[1], _WIDTHS).clip(*sigmas)
    )
    all_masses, all_widths = np.tile(masses, len(widths)), np.repeat(widths, len(masses))
    templates = gauss_templates(edges, all_masses, all_widths)
    test = score_test(templates, smooth.expected, columns)
    z = score_z(test, counts, smooth.expected)
    z[templates.sum(axis=1) < 0.3] = -np.inf
    found: list[Start] = []
    most, top = _MOST if z.max() < _CLEAR else 1, float(z.max())
    for index in np.argsort(-z):
        if len(found) == most or (found and z[index] < _WORTH * top):
            break
        at, sigma = float(all_masses[index]), float(all_widths[index])
        if all(abs(at - other.mass) > 2.0 * max(sigma, other.sigma) for other in found):
            found.append(_refined(edges, counts, columns, at, sigma, float(z[index])))
    return found


def _grid(edges: Floats) -> Floats:
    centres = 0.5 * (edges[1:] + edges[:-1])
    if len(centres) <= _MASSES:
        return centres
    return np.interp(np.linspace(0, len(centres) - 1, _MASSES), np.arange(len(centres)), centres)


def _refined(edges: Floats, counts: Floats, columns: Floats, mass: float, sigma: float, z: float) -> Start:
    """Return a start with its yield over a background fitted to both sides, if possible."""
    bins = np.diff(edges)
    centres = 0.5 * (edges[1:] + edges[:-1])
    near = np.abs(centres - mass) < 2.5 * sigma
    away = ~near
    if away.sum() < 3 or not counts[away].any():
        near, away = np.zeros_like(near), np.ones_like(near)
    fit = poisson_regression(columns[away], counts[away], bins[away])
    smooth = bins * np.exp(np.clip(columns @ fit.beta, -600, 600))
    over = float((counts - smooth)[near].sum()) if near.any() else 0.0
    return Start(mass, sigma, max(over, np.sqrt(counts.sum()), 1.0), z, fit.beta)


POOR: Final = 0.01
"""p-value below which a richer description is tried."""

NOTHING: Final = 30.0
"""Chi-square per degree of freedom above which a fit does not describe the data and another is tried; the fit
of the shipped J/psi has 4."""

MAX_PEAKS: Final = 4
MIN_PEAK: Final = 0.03
"""Least events of a further peak, as a share of the main one; a smaller one is a flaw of the main one's
shape."""

STIFFNESS: Final = 5.0
"""Least sigmas of the window per background coefficient: a background that bends within the width of a peak
would absorb it."""

TYPICAL: Final = 14.0
TYPICAL_ERROR: Final = 0.8
"""If the width is unknown, its logarithm is weakly constrained to that of the window over 14, within 0.8. Any
clear peak overrules it; without it a faint one shrinks to a spike of one bin."""

APART: Final = 1.8
"""Least distance of two peaks, in sigma."""

_WIDEST: Final = 4.0
"""The largest sigma is the window over this: a wider peak looks like background."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One fitted description."""

    problem: PeakProblem
    minimum: Minimum
    background: str
    chi2: float
    ndf: int
    p_value: float

    @property
    def score(self) -> float:
        """Akaike's criterion, halved: smaller is better."""
        return self.minimum.nll + int(self.problem.free().sum())


@dataclass(frozen=True, slots=True)
class FitTask:
    """Checked arguments of a fit."""

    edges: Floats
    counts: Floats
    model: str
    background: str
    gamma: float
    resolution_gev: float | None
    resolution_error_gev: float
    mass: float | None

    @property
    def typical(self) -> tuple[float, float]:
        """Centre and error, on a logarithmic scale, of the constraint on the width."""
        if self.resolution_gev is not None:
            return self.resolution_gev, self.resolution_error_gev / self.resolution_gev
        return float(self.edges[-1] - self.edges[0]) / TYPICAL, TYPICAL_ERROR

    @property
    def sigmas(self) -> tuple[float, float]:
        """Least and largest width that a fit may take."""
        bins = np.diff(self.edges)
        least = 0.3 * float(bins.min())
        return least, max(float(self.edges[-1] - self.edges[0]) / _WIDEST, 2.0 * least)


def describe(task: FitTask) -> Trial:
    """Return the best description: simple first, richer if the simple one fits badly."""
    places = starts(task.edges, task.counts, _start_sigmas(task), task.mass)
    background = "exponential" if task.background == "auto" else task.background
    model = "gauss" if task.model == "auto" else task.model
    best = min((_fit(task, model, background, [place]) for place in places), key=lambda trial: trial.score)
    best, rejected = _enriched(task, best)
    if best.ndf and best.chi2 > NOTHING * best.ndf and rejected:
        other, _ = _enriched(task, min(rejected, key=lambda trial: trial.score))
        best = min(best, other, key=lambda trial: trial.score)
    return best


def _enriched(task: FitTask, best: Trial) -> tuple[Trial, list[Trial]]:
    """Enrich a description step by step.

    Returns:
        The last description, and those with a further peak that an earlier step rejected: a tail or a curved
        background can absorb part of a second peak, so that none is found later.
    """
    rejected: list[Trial] = []
    while best.p_value < 0.1:
        options = _richer(task, best) if best.p_value < POOR else _curved(task, best)
        better = [option for option in options if _better(best, option)]
        if not better:
            break
        peaks = best.problem.peaks
        best = min(better, key=lambda trial: trial.score)
        rejected += [one for one in better if one.problem.peaks > peaks and one is not best]
    return best, rejected


def _richer(task: FitTask, best: Trial) -> list[Trial]:
    """Fit the next descriptions: tails, a further peak, a more curved background."""
    options = _curved(task, best)
    if task.model == "auto" and best.problem.model == "gauss":
        options.append(_fit(task, "crystal_ball", best.background, _places(best)))
    further = _further_peak(task, best)
    if further is not None:
        options.append(_fit(task, best.problem.model, best.background, [*_places(best), further]))
    return options


def _curved(task: FitTask, best: Trial) -> list[Trial]:
    """Fit the next two background orders that are stiffer than the peak."""
    if task.background != "auto":
        return []
    sigma, span = _places(best)[0].sigma, float(task.edges[-1] - task.edges[0])
    stiff = min(span / (STIFFNESS * sigma), len(task.counts) - 4.0)
    names = [name for name, order in ORDERS.items() if order <= stiff and order > ORDERS[best.background]]
    return [_fit(task, best.problem.model, name, _places(best)) for name in names[:2]]


def _start_sigmas(task: FitTask) -> tuple[float, float]:
    if task.resolution_gev is None:
        return task.sigmas
    return task.resolution_gev, task.resolution_gev


def _fit(task: FitTask, model: str, background: str, places: list[Start]) -> Trial:
    columns = design(background, task.edges)
    resolution = (task.typical[0] / places[0].mass, task.typical[1])
    free = task.resolution_gev is None
    sigmas = task.sigmas if free else (1e-3 * places[0].sigma, 1e3 * places[0].sigma)
    problem = PeakProblem(
        task.edges, task.counts, columns, len(places), model, task.gamma, sigmas, resolution
    )
    beta = _projected(columns, design("exponential", task.edges) @ places[0].beta)
    theta = problem.start(
        [place.signal for place in places], [place.mass for place in places], places[0].sigma, beta
    )
    minimum = minimise(problem, theta, problem.free())
    chi2, ndf, p_value = goodness(task.counts, minimum.expected, int(problem.free().sum()))
    return Trial(problem, minimum, background, chi2, ndf, p_value)


def _places(trial: Trial) -> list[Start]:
    """Return the peaks of a description as starts for another one."""
    problem, theta = trial.problem, trial.minimum.theta
    ratio = math.exp(theta[problem.width])
    beta = _projected(
        design("exponential", problem.edges), problem.columns @ theta[problem.first_background :]
    )
    return [
        Start(
            float(theta[problem.peaks + peak]),
            float(theta[problem.peaks + peak]) * ratio,
            float(theta[peak]),
            0.0,
            beta,
        )
        for peak in range(problem.peaks)
    ]


def _projected(columns: Floats, target: Floats) -> Floats:
    """Return the coefficients with which ``columns`` come closest to ``target``."""
    return np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], dtype=np.float64)


def _better(old: Trial, new: Trial) -> bool:
    """Return whether a richer description pays and does not split one peak in two."""
    return new.minimum.converged and new.score < old.score - 1.0 and _apart(new)


def _apart(trial: Trial) -> bool:
    peaks, theta = trial.problem.peaks, trial.minimum.theta
    masses = np.sort(theta[peaks : 2 * peaks])
    return bool((np.diff(masses) > APART * masses[1:] * math.exp(theta[trial.problem.width])).all())


def _further_peak(task: FitTask, best: Trial) -> Start | None:
    """Return where a further peak of the same relative width is missing, if anywhere."""
    if best.problem.peaks >= MAX_PEAKS:
        return None
    known = _places(best)
    centres = 0.5 * (task.edges[1:] + task.edges[:-1])
    sigmas = centres * known[0].sigma / known[0].mass
    templates = gauss_templates(task.edges, centres, sigmas)
    rows = best.problem.derivatives(best.minimum.theta) / best.minimum.expected[:, None]
    test = score_test(templates, best.minimum.expected, rows)
    z = score_z(test, task.counts, best.minimum.expected)
    for place in known:
        z[np.abs(centres - place.mass) < 2.5 * sigmas] = -np.inf
    top = int(np.argmax(z))
    events = float(z[top] * test.errors[top])
    if z[top] < 5.0 or events < MIN_PEAK * known[0].signal:
        return None
    return Start(float(centres[top]), float(sigmas[top]), events, float(z[top]), known[0].beta)
