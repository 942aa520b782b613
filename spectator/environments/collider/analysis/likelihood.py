"""Maximum likelihood for Poisson counts: Fisher scoring with Levenberg-Marquardt damping, within limits.

A problem gives the expected counts and their derivatives; Gaussian constraints are part of the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.analysis.backgrounds import log_likelihood_gap
from spectator.environments.collider.analysis.checks import Floats

_STEPS: Final = 200
_ENOUGH: Final = 1e-5
"""Estimated distance to the minimum, in log-likelihood, at which the search ends."""


class LikelihoodProblem(Protocol):
    """Expected counts as a function of parameters."""

    counts: Floats
    lower: Floats
    upper: Floats
    centre: Floats
    """Where Gaussian constraints are centred; of no meaning where ``weight`` is 0."""

    weight: Floats
    """Inverse variance of the Gaussian constraint on each parameter; 0 for none."""

    def expected(self, theta: Floats) -> Floats:
        """Expected counts of each bin."""
        ...

    def derivatives(self, theta: Floats) -> Floats:
        """Derivative of each bin (rows) by each parameter (columns)."""
        ...


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where a search ended.

    Args:
        theta: The parameters.
        expected: The counts expected there.
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
    """Negative log-likelihood with constraints; infinite where a bin expects nothing or less."""
    if not (expected > 0).all() or not np.isfinite(expected).all():
        return float("inf")
    pulls = 0.5 * float(np.sum(problem.weight * (theta - problem.centre) ** 2))
    return log_likelihood_gap(problem.counts, expected) + pulls


def gradient_of(problem: LikelihoodProblem, theta: Floats, expected: Floats) -> Floats:
    """First derivatives of the objective."""
    slope = (1.0 - problem.counts / expected) @ problem.derivatives(theta)
    return np.asarray(slope + problem.weight * (theta - problem.centre))


def gradient_and_information(
    problem: LikelihoodProblem, theta: Floats, expected: Floats
) -> tuple[Floats, Floats]:
    """First derivatives of the objective, and its expected second derivatives."""
    rows = problem.derivatives(theta)
    gradient = rows.T @ (1.0 - problem.counts / expected) + problem.weight * (theta - problem.centre)
    information = rows.T @ (rows / expected[:, None]) + np.diag(problem.weight)
    return gradient, information


def minimise(problem: LikelihoodProblem, start: Floats, free: NDArray[np.bool_]) -> Minimum:
    """Go from ``start`` downhill to a minimum; parameters that are not ``free`` stay.

    A parameter that presses against a limit stays there as long as it does.
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
        foreseen = -float(gradient @ moved) - 0.5 * float(moved @ information @ moved)
        damping = _next_damping(damping, (value - reached) / max(foreseen, 1e-300))
        theta, expected, value = tried, new, reached
    found = Minimum(theta, expected, value, converged, _at_limit(problem, theta))
    return found if converged else _migrad(problem, found, free)


def _migrad(problem: LikelihoodProblem, found: Minimum, free: NDArray[np.bool_]) -> Minimum:
    """Go on by MIGRAD of iminuit where the scoring did not come to rest; keep the better of the two."""
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
    with np.errstate(all="ignore"):  # on its way MIGRAD asks for values beyond any number
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
    """The damping after a step that gained so much of what was foreseen.

    The expected second derivatives may be half of the real ones; undamped steps would then leap to and fro.
    """
    if gain < 0.5:
        return max(4.0 * damping, 0.2)
    return max(0.1 * damping, 1e-9) if gain > 0.8 else damping


def _at_limit(problem: LikelihoodProblem, theta: Floats) -> NDArray[np.bool_]:
    return (theta <= problem.lower) | (theta >= problem.upper)


def _pressed(problem: LikelihoodProblem, theta: Floats, gradient: Floats) -> NDArray[np.bool_]:
    return ((theta <= problem.lower) & (gradient > 0)) | ((theta >= problem.upper) & (gradient < 0))


def _distance(gradient: Floats, information: Floats, moving: NDArray[np.bool_]) -> float:
    return 0.5 * float(gradient[moving] @ _solve(information[np.ix_(moving, moving)], gradient[moving]))


def _step(
    problem: LikelihoodProblem,
    theta: Floats,
    gradient: Floats,
    information: Floats,
    moving: NDArray[np.bool_],
    damping: float,
) -> Floats:
    block = information[np.ix_(moving, moving)]
    damped = block + damping * np.diag(np.diag(block) + 1e-12)
    tried = theta.copy()
    tried[moving] -= _solve(damped, gradient[moving])
    return np.clip(tried, problem.lower, problem.upper)


def _solve(matrix: Floats, vector: Floats) -> Floats:
    """Solve after scaling to a unit diagonal, with a grain of regularisation for singular matrices."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-30))
    unit = matrix * scale[:, None] * scale[None, :]
    unit[np.diag_indices_from(unit)] += 1e-12
    try:
        return np.asarray(scale * np.linalg.solve(unit, scale * vector))
    except np.linalg.LinAlgError:
        return np.asarray(scale * np.linalg.lstsq(unit, scale * vector, rcond=1e-10)[0])


def covariance(problem: LikelihoodProblem, minimum: Minimum, free: NDArray[np.bool_]) -> Floats:
    """Covariance of all parameters from the observed second derivatives; fixed ones have none.

    The expected second derivatives stand in where the observed ones are not those of a minimum.
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
    """Second derivatives by central differences of the first ones."""
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
    """The inverse of a positive definite matrix; ``None`` for any other."""
    diagonal = np.diag(matrix)
    if not np.isfinite(matrix).all() or (diagonal <= 0).any():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale[None, :]
    if np.linalg.eigvalsh(unit)[0] < 1e-10:
        return None
    return np.asarray(np.linalg.inv(unit) * scale[:, None] * scale[None, :])
