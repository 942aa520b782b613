"""Maximum-likelihood fits to Poisson counts, of a signal's yield and of templates.

Fisher scoring with Levenberg-Marquardt damping, within limits. A problem gives the expected counts and
their derivatives; Gaussian constraints are part of the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectator.environments.collider.analysis.checks import (
    Floats,
    checked_choice,
    checked_mass,
    checked_number,
    checked_spectrum,
    checked_window,
    invalid,
)
from spectator.environments.collider.analysis.shapes import (
    BACKGROUNDS,
    Regression,
    background_alone,
    choose_background,
    design,
    exponential,
    log_likelihood_gap,
    voigt_bins,
)

_STEPS: Final = 200
_ENOUGH: Final = 1e-5
"""Estimated distance to the minimum, in log-likelihood, at which the search ends."""


class LikelihoodProblem(Protocol):
    """Expected counts as a function of parameters."""

    counts: Floats
    lower: Floats
    upper: Floats
    centre: Floats
    """Centres of the Gaussian constraints; ignored if ``weight`` is 0."""

    weight: Floats
    """Inverse variance of the Gaussian constraint on each parameter; 0 for none."""

    def expected(self, theta: Floats) -> Floats:
        """Return the expected counts of each bin."""

    def derivatives(self, theta: Floats) -> Floats:
        """Return the derivative of each bin (rows) by each parameter (columns)."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """Result of a minimisation.

    Args:
        nll: Negative log-likelihood less that of a perfect description, with constraints.
        converged: Whether the estimated distance to the minimum is negligible.
        at_limit: Which parameters lie at a limit.
    """

    theta: Floats
    expected: Floats
    nll: float
    converged: bool
    at_limit: NDArray[np.bool_]


def objective(problem: LikelihoodProblem, theta: Floats, expected: Floats) -> float:
    """Return the negative log-likelihood with constraints.

    Infinite if a bin expects no events.
    """
    if not (expected.min() > 0 and expected.max() < np.inf):
        return float("inf")
    pulls = 0.5 * float((problem.weight * (theta - problem.centre) ** 2).sum())
    return log_likelihood_gap(problem.counts, expected) + pulls


def gradient_of(problem: LikelihoodProblem, theta: Floats, expected: Floats) -> Floats:
    """Return the first derivatives of the objective."""
    slope = (1.0 - problem.counts / expected) @ problem.derivatives(theta)
    return np.asarray(slope + problem.weight * (theta - problem.centre))


def gradient_and_information(
    problem: LikelihoodProblem, theta: Floats, expected: Floats
) -> tuple[Floats, Floats]:
    """Return the first derivatives and the expected second derivatives."""
    rows = problem.derivatives(theta)
    gradient = rows.T @ (1.0 - problem.counts / expected) + problem.weight * (theta - problem.centre)
    information = rows.T @ (rows / expected[:, None])
    _diagonal(information)[:] += problem.weight
    return gradient, information


def minimise(problem: LikelihoodProblem, start: Floats, free: NDArray[np.bool_]) -> Minimum:
    """Minimise from ``start``; parameters that are not ``free`` keep their values.

    A parameter is fixed at its limit while its gradient points outwards.
    """
    theta = np.clip(start, problem.lower, problem.upper)
    expected = problem.expected(theta)
    value = objective(problem, theta, expected)
    if not np.isfinite(value):
        return Minimum(theta, expected, value, False, _at_limit(problem, theta))
    damping, converged = 1e-3, False
    for _ in range(_STEPS):
        gradient, information = gradient_and_information(problem, theta, expected)
        moving = free & ~_pressed(problem, theta, gradient)
        if not moving.any() or _distance(gradient, information, moving) < _ENOUGH:
            converged = True
            break
        while damping < 1e12:
            tried = _step(problem, theta, gradient, information, moving, damping)
            new = problem.expected(tried)
            reached = objective(problem, tried, new)
            if reached < value:
                break
            damping = max(4.0 * damping, 1e-4)
        else:
            converged = _distance(gradient, information, moving) < 1e-2
            break
        moved = tried - theta
        predicted = -float(gradient @ moved) - 0.5 * float(moved @ information @ moved)
        damping = _next_damping(damping, (value - reached) / max(predicted, 1e-300))
        theta, expected, value = tried, new, reached
    found = Minimum(theta, expected, value, converged, _at_limit(problem, theta))
    return found if converged else _migrad(problem, found, free)


def _migrad(problem: LikelihoodProblem, found: Minimum, free: NDArray[np.bool_]) -> Minimum:
    """Continue with MIGRAD of iminuit; return the better of the two results."""
    from iminuit import Minuit

    def cost(theta: Floats) -> float:
        value = objective(problem, theta, problem.expected(theta))
        return value if np.isfinite(value) else 1e30

    def slope(theta: Floats) -> Floats:
        return gradient_of(problem, theta, np.maximum(problem.expected(theta), 1e-12))

    minuit = Minuit(cost, found.theta, grad=slope)
    minuit.errordef = Minuit.LIKELIHOOD
    minuit.fixed = (~free).tolist()
    minuit.limits = list(zip(problem.lower, problem.upper, strict=True))
    with np.errstate(all="ignore"):  # MIGRAD evaluates points that overflow
        minuit.migrad()
    if not np.isfinite(np.array(minuit.values)).all():
        return found
    theta = np.clip(np.array(minuit.values), problem.lower, problem.upper)
    expected = problem.expected(theta)
    value = objective(problem, theta, expected)
    if not minuit.valid or value > found.nll + 1e-6:
        return found
    return Minimum(theta, expected, value, True, _at_limit(problem, theta))


def _next_damping(damping: float, gain: float) -> float:
    """Return the damping for the next step.

    ``gain`` is the actual over the predicted decrease. The expected second derivatives may be half of the
    real ones; undamped steps would then oscillate.
    """
    if gain < 0.5:
        return max(4.0 * damping, 0.2)
    return max(0.1 * damping, 1e-9) if gain > 0.8 else damping


def _at_limit(problem: LikelihoodProblem, theta: Floats) -> NDArray[np.bool_]:
    return (theta <= problem.lower) | (theta >= problem.upper)


def _pressed(problem: LikelihoodProblem, theta: Floats, gradient: Floats) -> NDArray[np.bool_]:
    return ((theta <= problem.lower) & (gradient > 0)) | ((theta >= problem.upper) & (gradient < 0))


def _diagonal(matrix: Floats) -> Floats:
    """Return a view of the diagonal that can be written to."""
    return np.asarray(np.einsum("ii->i", matrix))


def _block(matrix: Floats, moving: NDArray[np.bool_]) -> Floats:
    """Return a copy of the rows and columns of the parameters that move."""
    return matrix.copy() if moving.all() else np.asarray(matrix[np.ix_(moving, moving)])


def _distance(gradient: Floats, information: Floats, moving: NDArray[np.bool_]) -> float:
    return 0.5 * float(gradient[moving] @ _solve(_block(information, moving), gradient[moving]))


def _step(
    problem: LikelihoodProblem,
    theta: Floats,
    gradient: Floats,
    information: Floats,
    moving: NDArray[np.bool_],
    damping: float,
) -> Floats:
    damped = _block(information, moving)
    _diagonal(damped)[:] += damping * (_diagonal(damped) + 1e-12)
    tried = theta.copy()
    tried[moving] -= _solve(damped, gradient[moving])
    return np.minimum(np.maximum(tried, problem.lower), problem.upper)


def _solve(matrix: Floats, vector: Floats) -> Floats:
    """Solve after scaling to a unit diagonal, slightly regularised for singular matrices."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), 1e-30))
    unit = matrix * scale[:, None] * scale[None, :]
    _diagonal(unit)[:] += 1e-12
    try:
        return np.asarray(scale * np.linalg.solve(unit, scale * vector))
    except np.linalg.LinAlgError:
        return np.asarray(scale * np.linalg.lstsq(unit, scale * vector, rcond=1e-10)[0])


def covariance(problem: LikelihoodProblem, minimum: Minimum, free: NDArray[np.bool_]) -> Floats:
    """Return the covariance of all parameters; fixed ones have none.

    It comes from the observed second derivatives, or from the expected ones if the observed ones are not
    positive definite.
    """
    moving = free & ~minimum.at_limit
    full = np.zeros((len(minimum.theta), len(minimum.theta)))
    if not moving.any():
        return full
    _, information = gradient_and_information(problem, minimum.theta, minimum.expected)
    inverse = _inverse(_observed(problem, minimum.theta, information, moving))
    if inverse is None:
        inverse = _inverse(information[np.ix_(moving, moving)])
    if inverse is not None:
        full[np.ix_(moving, moving)] = inverse
    return full


def _observed(
    problem: LikelihoodProblem, theta: Floats, information: Floats, moving: NDArray[np.bool_]
) -> Floats:
    """Return the second derivatives, by central differences of the first ones."""
    chosen = np.flatnonzero(moving)
    rows = []
    for index in chosen:
        step = np.zeros_like(theta)
        step[index] = 0.05 / np.sqrt(max(information[index, index], 1e-30))
        sides = []
        for at in (theta + step, theta - step):
            expected = np.maximum(problem.expected(at), 1e-12)
            sides.append(gradient_of(problem, at, expected)[chosen])
        rows.append((sides[0] - sides[1]) / (2.0 * step[index]))
    hessian = np.array(rows)
    return np.asarray(0.5 * (hessian + hessian.T))


def _inverse(matrix: Floats) -> Floats | None:
    """Return the inverse of a positive definite matrix; ``None`` for any other."""
    diagonal = np.diag(matrix)
    if not np.isfinite(matrix).all() or (diagonal <= 0).any():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale[None, :]
    if np.linalg.eigvalsh(unit)[0] < 1e-10:
        return None
    return np.asarray(np.linalg.inv(unit) * scale[:, None] * scale[None, :])


EMPTY_SHARE: Final = 0.01
"""Share of a bin's background below which a negative signal is as large as it can be."""


@dataclass(slots=True)
class YieldProblem:
    """``strength x template + nominal x exp(columns @ beta)``, as a :class:`LikelihoodProblem`.

    Args:
        template: Events of the signal at strength 1.
        nominal: What the exponential multiplies: bin widths, or a predicted background.
        constraint: Inverse variance of the Gaussian constraint on each coefficient; by default none.
    """

    counts: Floats
    template: Floats
    columns: Floats
    nominal: Floats
    constraint: Floats | None = None
    lower: Floats = field(init=False)
    upper: Floats = field(init=False)
    centre: Floats = field(init=False)
    weight: Floats = field(init=False)

    def __post_init__(self) -> None:
        size = 1 + self.columns.shape[1]
        self.lower, self.upper = np.full(size, -np.inf), np.full(size, np.inf)
        self.lower[1:], self.upper[1:] = -700.0, 700.0
        self.centre, self.weight = np.zeros(size), np.zeros(size)
        if self.constraint is not None:
            self.weight[1:] = self.constraint

    def background(self, theta: Floats) -> Floats:
        """Return the expected background events of each bin."""
        return np.asarray(self.nominal * exponential(self.columns @ theta[1:]))

    def expected(self, theta: Floats) -> Floats:
        """Return the expected events of each bin."""
        return np.asarray(theta[0] * self.template + self.background(theta))

    def derivatives(self, theta: Floats) -> Floats:
        """Return the derivative of each bin by strength and coefficients."""
        rows = np.empty((len(self.counts), len(theta)))
        rows[:, 0] = self.template
        rows[:, 1:] = self.background(theta)[:, None] * self.columns
        return rows

    def fit(self, strength: float | None = None, start: Floats | None = None) -> Minimum:
        """Return the best fit, or the best one with a given strength."""
        theta = np.zeros(1 + self.columns.shape[1])
        if start is not None:
            theta[-len(start) :] = start
        free = np.ones(len(theta), dtype=bool)
        if strength is not None:
            theta[0], free[0] = strength, False
        return minimise(self, theta, free)

    def with_counts(self, counts: Floats) -> YieldProblem:
        """Return the same problem for other counts, such as an Asimov data set."""
        return YieldProblem(counts, self.template, self.columns, self.nominal, self.constraint)

    def error(self, fit: Minimum) -> float:
        """Return the standard error of the strength.

        Where the strength is as low as the empty bins allow, or so few events are there that they leave the
        background open, it is the distance to the strength above at which twice the negative log-likelihood
        is larger by one.
        """
        if (fit.expected < EMPTY_SHARE * self.background(fit.theta)).any():
            return self._error_above(fit)
        free: NDArray[np.bool_] = np.ones(len(fit.theta), dtype=bool)
        variance = float(covariance(self, fit, free)[0, 0])
        return float(np.sqrt(variance)) if variance > 0 else self._error_above(fit)

    def _error_above(self, fit: Minimum) -> float:
        from scipy.optimize import brentq

        def gain(distance: float) -> float:
            return 2.0 * (self.fit(float(fit.theta[0]) + distance, fit.theta[1:]).nll - fit.nll) - 1.0

        step = 1.0 / max(float(self.template.sum()), 1e-12)
        while gain(step) < 0.0:
            step *= 2.0
        return float(brentq(gain, 0.0, step, rtol=1e-6))


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """A peak of given mass and width in a window, ready to test.

    Args:
        problem: Its likelihood; the strength counts events, those outside the window too.
    """

    problem: YieldProblem
    null: Regression
    background: str
    edges: Floats

    def on(self, background: str) -> PeakSearch:
        """Return the same search on another background."""
        return _peak_search(self.edges, self.problem.counts, self.problem.template, background)


def peak_search(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str,
    natural_width_gev: float = 0.0,
) -> PeakSearch:
    """Check the arguments of a peak search and fit the background alone.

    Args:
        natural_width_gev: Full width of the resonance itself; above 0 the peak is a Voigt curve.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    checked_window(edges, None, bins=4)
    mass = checked_mass("mass_gev", mass_gev, edges)
    sigma = checked_number("resolution_gev", resolution_gev, above=0.0, most=float(edges[-1] - edges[0]))
    gamma = checked_number("natural_width_gev", natural_width_gev, least=0.0)
    name = choose_background(edges, seen) if background == "auto" else background
    return _peak_search(edges, seen, voigt_bins(edges, mass, sigma, gamma), name)


def _peak_search(edges: Floats, counts: Floats, template: Floats, background: str) -> PeakSearch:
    columns = design(background, edges)
    if columns.shape[1] + 1 > len(counts):
        raise invalid(
            "window_gev", f"must hold at least {columns.shape[1] + 1} bins for the {background} background"
        )
    problem = YieldProblem(counts, template, columns, np.diff(edges))
    return PeakSearch(problem, background_alone(background, edges, counts), background, edges)
