"""The fit of a resonance in a window: mass, width and yield, with errors that cover, from its own start."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.backgrounds import (
    BACKGROUNDS,
    ORDERS,
    design,
    goodness,
    poisson_regression,
)
from spectator.environments.collider.analysis.checks import (
    Floats,
    Window,
    checked_choice,
    checked_mass,
    checked_number,
    checked_spectrum,
    checked_window,
    refuse,
)
from spectator.environments.collider.analysis.interval import FAINT, FAR, NEAR, mass_spread, widths_to_try
from spectator.environments.collider.analysis.likelihood import Minimum, covariance, minimise
from spectator.environments.collider.analysis.peaks import MODELS, PeakProblem
from spectator.environments.collider.analysis.scores import gauss_templates, score_test, score_z
from spectator.environments.collider.analysis.starting import Start, starts

POOR: Final = 0.01
"""A chi-square less likely than this asks for a richer description."""

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

AS_WIDE: Final = 0.85
"""A sigma of so much of the largest one counts as pressed against it."""


@dataclass(frozen=True, slots=True)
class ResonanceFit:
    """A resonance in a window.

    Args:
        mass_gev: Its mass.
        mass_error_gev: Standard error; where the description is poor it is scaled by sqrt(chi2 / ndf), as the
            Particle Data Group does.
        width_gev: Gaussian width sigma: the resolution, without the natural width of ``voigt``.
        signal: Events of the peak, those outside the window too.
        z_local: Significance at this mass: sqrt(q0), 0 without an excess.
        chi2: Pearson's over the bins of the window.
        ndf: Bins less free parameters.
        converged: Whether the likelihood's minimum was found.
        signal_error: Standard error of the yield.
        width_error_gev: Standard error of the width; 0 where it was given.
        p_value: Chance of a chi-square this large.
        model: Shape of the peak.
        background: Family of the background.
        window_gev: Edges of the bins that were used.
        width_at_limit: Whether the width is about as large as the window allows.
        z_over_smooth: Significance of this description over the best smooth background alone, up to a
            quartic, however much that bends. A narrow peak keeps it; a shoulder or a turn-on loses it.
        other_peaks_gev: Masses of further peaks in the window, which the fit describes too.
        expected: Events of the fitted description in each bin.
        expected_background: The same of everything but this peak.
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
    other_peaks_gev: tuple[float, ...]
    expected: tuple[float, ...]
    expected_background: tuple[float, ...]
    bins: tuple[int, int]

    @property
    def background_like(self) -> bool:
        """Whether a bend of the background explains it: the local background shape test.

        So it is where the width is as large as the window allows, or where a smooth background alone takes
        more than half of the significance, of which ten standard deviations are asked for at most.
        """
        return self.width_at_limit or self.z_over_smooth < 0.5 * min(self.z_local, 10.0)


@dataclass(frozen=True, slots=True)
class _Trial:
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
class _Task:
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
        bins = np.diff(self.edges)
        least = 0.3 * float(bins.min())
        return least, max(float(self.edges[-1] - self.edges[0]) / _WIDEST, 2.0 * least)


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

    Left to itself the fit begins with a Gauss curve on an exponential; where their chi-square is poor
    it tries more curved backgrounds, tails, and further peaks of the same relative width, and keeps what
    Akaike's criterion prefers.

    Args:
        edges_gev: Bin edges, n + 1 ascending values in GeV.
        counts: Events, n values.
        window_gev: Lower and upper mass; bins whose centre is inside are used. All without it.
        model: ``gauss``, ``voigt``, ``crystal_ball`` (a tail on either side), or ``auto``.
        background: One of ``BACKGROUNDS``, or ``auto``.
        natural_width_gev: Full width of the resonance itself; asks for ``voigt``.
        resolution_gev: The Gaussian width, where it is known.
        resolution_error_gev: Its error: the width is constrained; without it, fixed.
        mass_gev: Where to begin; the fit finds its own place without it.

    Raises:
        InvalidAnalysis: An argument breaks its rule.

    >>> edges = np.linspace(100.0, 150.0, 51)
    >>> from spectator.environments.collider.analysis.shapes import gauss_bins
    >>> counts = 1000 * np.exp(-np.arange(50) / 30) + 2000 * gauss_bins(edges, 125.0, 1.6)
    >>> fit = fit_resonance(edges, counts, (105.0, 145.0))
    >>> round(fit.mass_gev, 1), round(fit.width_gev, 1), round(fit.signal, -1), fit.converged
    (125.0, 1.6, 2000.0, True)
    """
    task, chosen = _task_of(
        edges_gev,
        counts,
        window_gev,
        (model, background, natural_width_gev, resolution_gev, resolution_error_gev, mass_gev),
    )
    best = _describe(task)
    return _report(task, best, chosen, _main_peak(best))


def fit_resonances(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    window_gev: Window | None = None,
    *,
    background: str = "auto",
    mass_gev: float | None = None,
) -> tuple[ResonanceFit, ...]:
    """Fit the peaks of a window together, as :func:`fit_resonance` does, and report each, by mass.

    Args:
        edges_gev: Bin edges, n + 1 ascending values in GeV.
        counts: Events, n values.
        window_gev: Lower and upper mass; all bins without it.
        background: One of ``BACKGROUNDS``, or ``auto``.
        mass_gev: Where to begin.

    Raises:
        InvalidAnalysis: An argument breaks its rule.
    """
    task, chosen = _task_of(edges_gev, counts, window_gev, ("auto", background, None, None, None, mass_gev))
    best = _describe(task)
    reports = [_report(task, best, chosen, peak) for peak in range(best.problem.peaks)]
    return tuple(sorted(reports, key=lambda report: report.mass_gev))


def _task_of(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    window_gev: Window | None,
    asked: tuple[str, str, float | None, float | None, float | None, float | None],
) -> tuple[_Task, slice]:
    edges, seen = checked_spectrum(edges_gev, counts)
    chosen = checked_window(edges, window_gev, bins=5)
    return _checked_task(edges[chosen.start : chosen.stop + 1], seen[chosen], asked), chosen


def _checked_task(
    edges: Floats,
    counts: Floats,
    asked: tuple[str, str, float | None, float | None, float | None, float | None],
) -> _Task:
    model, background, gamma, resolution, resolution_error, mass = asked
    checked_choice("model", model, ("auto", *MODELS))
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    if not counts.any():
        raise refuse("counts", "hold at least one event in the window")
    if gamma is not None:
        checked_number("natural_width_gev", gamma, least=0.0)
        if model not in ("auto", "voigt"):
            raise refuse("model", f"is voigt where natural_width_gev is given, not {model}")
        model = "voigt"
    elif model == "voigt":
        raise refuse("natural_width_gev", "is given for the voigt model")
    if resolution is not None:
        checked_number("resolution_gev", resolution, above=0.0, most=float(edges[-1] - edges[0]))
    if resolution_error is not None:
        checked_number("resolution_error_gev", resolution_error, least=0.0)
        if resolution is None:
            raise refuse("resolution_gev", "is given where resolution_error_gev is")
    if mass is not None:
        mass = checked_mass("mass_gev", mass, edges)
    return _Task(edges, counts, model, background, gamma or 0.0, resolution, resolution_error or 0.0, mass)


def _describe(task: _Task) -> _Trial:
    """The description to report: simple first, richer where the simple one is poor."""
    places = starts(task.edges, task.counts, _start_sigmas(task), task.mass)
    background = "exponential" if task.background == "auto" else task.background
    model = "gauss" if task.model == "auto" else task.model
    best = min((_fit(task, model, background, [place]) for place in places), key=lambda trial: trial.score)
    while best.p_value < 0.1:
        options = _richer(task, best) if best.p_value < POOR else _curved(task, best)
        better = [option for option in options if _better(best, option)]
        if not better:
            break
        best = min(better, key=lambda trial: trial.score)
    return best


def _richer(task: _Task, best: _Trial) -> list[_Trial]:
    """The next descriptions to try: a tail on either side, a further peak, a more curved background."""
    options = _curved(task, best)
    if task.model == "auto" and best.problem.model == "gauss":
        options.append(_fit(task, "crystal_ball", best.background, _places(best)))
    further = _further_peak(task, best)
    if further is not None:
        options.append(_fit(task, best.problem.model, best.background, [*_places(best), further]))
    return options


def _curved(task: _Task, best: _Trial) -> list[_Trial]:
    """The next two orders of the background, as far as they are stiffer than the peak."""
    if task.background != "auto":
        return []
    sigma, span = _places(best)[0].sigma, float(task.edges[-1] - task.edges[0])
    stiff = min(span / (STIFFNESS * sigma), len(task.counts) - 4.0)
    names = [name for name, order in ORDERS.items() if order <= stiff and order > ORDERS[best.background]]
    return [_fit(task, best.problem.model, name, _places(best)) for name in names[:2]]


def _start_sigmas(task: _Task) -> tuple[float, float]:
    if task.resolution_gev is None:
        return task.sigmas
    return task.resolution_gev, task.resolution_gev


def _fit(
    task: _Task, model: str, background: str, places: list[Start], theta: Floats | None = None
) -> _Trial:
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
    return _Trial(problem, minimum, background, chi2, ndf, p_value)


def _places(trial: _Trial) -> list[Start]:
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


def _better(old: _Trial, new: _Trial) -> bool:
    """Whether a description pays, and has not split one peak into two."""
    return new.minimum.converged and new.score < old.score - 1.0 and _apart(new)


def _apart(trial: _Trial) -> bool:
    peaks, theta = trial.problem.peaks, trial.minimum.theta
    masses = np.sort(theta[peaks : 2 * peaks])
    return bool((np.diff(masses) > APART * masses[1:] * math.exp(theta[trial.problem.width])).all())


def _further_peak(task: _Task, best: _Trial) -> Start | None:
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


def _report(task: _Task, best: _Trial, chosen: slice, main: int) -> ResonanceFit:
    problem, minimum = best.problem, best.minimum
    theta = minimum.theta
    errors = _errors(best, main)
    mass = float(theta[problem.peaks + main])
    sigma = mass * math.exp(theta[problem.width])
    poor = math.sqrt(best.chi2 / best.ndf) if best.ndf and best.p_value < POOR else 1.0
    poor = max(poor, 1.0)
    share = theta[main] * problem.shares(theta, main)
    as_wide = task.resolution_gev is None and sigma >= AS_WIDE * task.sigmas[1]
    z_local = _z_local(task, best, main)
    mass_error = _mass_error(task, best, float(errors[problem.peaks + main]), sigma, z_local) * poor
    return ResonanceFit(
        mass_gev=mass,
        mass_error_gev=min(mass_error, float(task.edges[-1] - task.edges[0])),
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
        width_at_limit=as_wide,
        z_over_smooth=_z_over_smooth(task, best),
        other_peaks_gev=tuple(
            float(theta[problem.peaks + peak]) for peak in range(problem.peaks) if peak != main
        ),
        expected=tuple(minimum.expected.tolist()),
        expected_background=tuple((minimum.expected - share).tolist()),
        bins=(chosen.start, chosen.stop),
    )


def _main_peak(best: _Trial) -> int:
    """The peak that the fit began with, or where that vanished, the largest one."""
    yields = best.minimum.theta[: best.problem.peaks]
    return 0 if yields[0] > 0 else int(np.argmax(yields))


def _errors(best: _Trial, main: int) -> Floats:
    """Standard errors of all parameters; of the yields alone where the peak has vanished."""
    free, minimum = best.problem.free(), best.minimum
    if minimum.theta[main] <= 0:
        free[best.problem.peaks : best.problem.first_background] = False
        minimum = replace(minimum, at_limit=np.zeros_like(minimum.at_limit))
    return np.asarray(np.sqrt(np.diag(covariance(best.problem, minimum, free))))


def _z_over_smooth(task: _Task, best: _Trial) -> float:
    most = [name for name, order in ORDERS.items() if order < len(task.counts) - 1][-1]
    alone = poisson_regression(design(most, task.edges), task.counts, np.diff(task.edges)).nll
    return math.sqrt(max(2.0 * (alone - best.minimum.nll), 0.0))


def _mass_error(task: _Task, best: _Trial, error: float, sigma: float, z: float) -> float:
    """From the curvature; not below what a bin allows where the whole peak lies in one, and for a faint peak
    not below the spread of masses that its likelihood leaves open."""
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


def _tried_widths(task: _Task) -> tuple[Floats, Floats]:
    """Widths for :func:`mass_spread`, and what each costs."""
    centre, error = task.typical
    if error == 0:
        return np.array([centre]), np.zeros(1)
    least, most = task.sigmas
    low = max(centre * math.exp(-2.0 * error), least)
    sigmas = widths_to_try(low, max(min(centre * math.exp(2.0 * error), most), 1.01 * low))
    return sigmas, (np.log(sigmas / centre) / error) ** 2


def _z_local(task: _Task, best: _Trial, main: int) -> float:
    """sqrt(q0) at the fitted mass and width: background and other yields are fitted without the peak."""
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
