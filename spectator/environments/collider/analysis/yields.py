"""The likelihood of a signal of known shape: its strength on a log-linear background."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectator.environments.collider.analysis.backgrounds import (
    BACKGROUNDS,
    Regression,
    choose_background,
    design,
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
from spectator.environments.collider.analysis.likelihood import Minimum, covariance, minimise
from spectator.environments.collider.analysis.shapes import voigt_bins


@dataclass(slots=True)
class YieldProblem:
    """``strength x template + nominal x exp(columns @ beta)``, as a problem of :mod:`.likelihood`.

    Args:
        counts: Events.
        template: Events of the signal at strength 1.
        columns: Design matrix of the background.
        nominal: What the exponential multiplies: bin widths, or a predicted background.
        constraint: Inverse variance of the Gaussian constraint on each coefficient; without it, none.
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
        """Expected events of the background."""
        return np.asarray(self.nominal * np.exp(np.clip(self.columns @ theta[1:], -600, 600)))

    def expected(self, theta: Floats) -> Floats:
        """Expected events of each bin."""
        return np.asarray(theta[0] * self.template + self.background(theta))

    def derivatives(self, theta: Floats) -> Floats:
        """Derivative of each bin by strength and coefficients."""
        rows = np.empty((len(self.counts), len(theta)))
        rows[:, 0] = self.template
        rows[:, 1:] = self.background(theta)[:, None] * self.columns
        return rows

    def fit(self, strength: float | None = None, start: Floats | None = None) -> Minimum:
        """The best fit, or the best one with a given strength."""
        theta = np.zeros(1 + self.columns.shape[1])
        if start is not None:
            theta[-len(start) :] = start
        free = np.ones(len(theta), dtype=bool)
        if strength is not None:
            theta[0], free[0] = strength, False
        return minimise(self, theta, free)

    def with_counts(self, counts: Floats) -> YieldProblem:
        """The same for other counts, such as an Asimov data set."""
        return YieldProblem(counts, self.template, self.columns, self.nominal, self.constraint)

    def error(self, fit: Minimum) -> float:
        """Standard error of the strength."""
        free: NDArray[np.bool_] = np.ones(len(fit.theta), dtype=bool)
        return float(np.sqrt(covariance(self, fit, free)[0, 0]))


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """A peak of given mass and width in a window, ready to be tested.

    Args:
        problem: Its likelihood; the strength counts events, those outside the window too.
        null: The background alone, fitted.
        background: Its family.
        edges: Bin edges of the window.
    """

    problem: YieldProblem
    null: Regression
    background: str
    edges: Floats


def peak_search(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    window_gev: Window | None,
    background: str,
    natural_width_gev: float,
) -> PeakSearch:
    """Check what a caller asked for and fit the background alone.

    Raises:
        InvalidAnalysis: An argument breaks its rule.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    chosen = checked_window(edges, window_gev, bins=4)
    edges, seen = edges[chosen.start : chosen.stop + 1], seen[chosen]
    if not seen.any():
        raise refuse("counts", "hold at least one event in the window")
    mass = checked_mass("mass_gev", mass_gev, edges)
    sigma = checked_number("resolution_gev", resolution_gev, above=0.0, most=float(edges[-1] - edges[0]))
    gamma = checked_number("natural_width_gev", natural_width_gev, least=0.0)
    name = choose_background(edges, seen) if background == "auto" else background
    columns, bins = design(name, edges), np.diff(edges)
    if columns.shape[1] + 1 > len(seen):
        raise refuse("window_gev", f"holds at least {columns.shape[1] + 1} bins for the {name} background")
    null = poisson_regression(columns, seen, bins)
    problem = YieldProblem(seen, voigt_bins(edges, mass, sigma, gamma), columns, bins)
    return PeakSearch(problem, null, name, edges)
