"""The choice of a description for a window: Gauss on an exponential first, richer where that is poor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from spectator.environments.collider.analysis.backgrounds import ORDERS, design, goodness
from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.likelihood import Minimum, minimise
from spectator.environments.collider.analysis.peaks import PeakProblem
from spectator.environments.collider.analysis.scores import gauss_templates, score_test, score_z
from spectator.environments.collider.analysis.starting import Start, starts

POOR: Final = 0.01
"""A chi-square less likely than this asks for a richer description."""

NOTHING: Final = 30.0
"""Chi-square per degree of freedom beyond which a fit describes nothing, so that another is tried; the fit of
the shipped J/psi has 4."""

MOST_PEAKS: Final = 4
SMALLEST_PEAK: Final = 0.03
"""A further peak of fewer events, as a share of the main one, is taken for a flaw of the main one's shape."""

STIFFNESS: Final = 5.0
"""A background may have one coefficient for each so many sigma of the window: one that bends within the width
of a peak would swallow it."""

TYPICAL: Final = 14.0
TYPICAL_ERROR: Final = 0.8
"""Where nothing is known of the width, its logarithm is weakly constrained to that of the window over 14,
within 0.8. Any clear peak overrules it; without it a faint one shrinks to a spike of one bin."""

APART: Final = 1.8
"""Two peaks are at least so many sigma apart."""

_WIDEST: Final = 4.0
"""The largest sigma is the window over this: nothing wider can be told from a background in it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One description, fitted."""

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
    """What a caller asked for, checked."""

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
    """The description to report: simple first, richer where the simple one is poor."""
    places = starts(task.edges, task.counts, _start_sigmas(task), task.mass)
    background = "exponential" if task.background == "auto" else task.background
    model = "gauss" if task.model == "auto" else task.model
    best = min((_fit(task, model, background, [place]) for place in places), key=lambda trial: trial.score)
    best, passed_over = _enriched(task, best)
    if best.ndf and best.chi2 > NOTHING * best.ndf and passed_over:
        other, _ = _enriched(task, min(passed_over, key=lambda trial: trial.score))
        best = min(best, other, key=lambda trial: trial.score)
    return best


def _enriched(task: FitTask, best: Trial) -> tuple[Trial, list[Trial]]:
    """Enrich a description step by step.

    Returns:
        The last description, and those with a further peak that an earlier step passed over: a tail or a
        curved background can take up part of a second peak, after which no further one is found.
    """
    passed_over: list[Trial] = []
    while best.p_value < 0.1:
        options = _richer(task, best) if best.p_value < POOR else _curved(task, best)
        better = [option for option in options if _better(best, option)]
        if not better:
            break
        peaks = best.problem.peaks
        best = min(better, key=lambda trial: trial.score)
        passed_over += [one for one in better if one.problem.peaks > peaks and one is not best]
    return best, passed_over


def _richer(task: FitTask, best: Trial) -> list[Trial]:
    """The next descriptions to try: a tail on either side, a further peak, a more curved background."""
    options = _curved(task, best)
    if task.model == "auto" and best.problem.model == "gauss":
        options.append(_fit(task, "crystal_ball", best.background, _places(best)))
    further = _further_peak(task, best)
    if further is not None:
        options.append(_fit(task, best.problem.model, best.background, [*_places(best), further]))
    return options


def _curved(task: FitTask, best: Trial) -> list[Trial]:
    """The next two orders of the background, as far as they are stiffer than the peak."""
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


def _fit(
    task: FitTask, model: str, background: str, places: list[Start], theta: Floats | None = None
) -> Trial:
    columns = design(background, task.edges)
    resolution = (task.typical[0] / places[0].mass, task.typical[1])
    free = task.resolution_gev is None
    sigmas = task.sigmas if free else (1e-3 * places[0].sigma, 1e3 * places[0].sigma)
    problem = PeakProblem(
        task.edges, task.counts, columns, len(places), model, task.gamma, sigmas, resolution
    )
    if theta is None:
        beta = np.zeros(columns.shape[1])
        target = design("exponential", task.edges) @ places[0].beta
        beta = _projected(columns, target)
        theta = problem.start(
            [place.signal for place in places], [place.mass for place in places], places[0].sigma, beta
        )
    minimum = minimise(problem, theta, problem.free())
    chi2, ndf, p_value = goodness(task.counts, minimum.expected, int(problem.free().sum()))
    return Trial(problem, minimum, background, chi2, ndf, p_value)


def _places(trial: Trial) -> list[Start]:
    """The peaks of a description, as places to begin another."""
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
    """Coefficients with which ``columns`` come closest to ``target``."""
    return np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], dtype=np.float64)


def _better(old: Trial, new: Trial) -> bool:
    """Whether a description pays, and has not split one peak into two."""
    return new.minimum.converged and new.score < old.score - 1.0 and _apart(new)


def _apart(trial: Trial) -> bool:
    peaks, theta = trial.problem.peaks, trial.minimum.theta
    masses = np.sort(theta[peaks : 2 * peaks])
    return bool((np.diff(masses) > APART * masses[1:] * math.exp(theta[trial.problem.width])).all())


def _further_peak(task: FitTask, best: Trial) -> Start | None:
    """Where the description so far falls short by a peak of the width that it has."""
    if best.problem.peaks >= MOST_PEAKS:
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
    if z[top] < 5.0 or events < SMALLEST_PEAK * known[0].signal:
        return None
    return Start(float(centres[top]), float(sigmas[top]), events, float(z[top]), known[0].beta)
