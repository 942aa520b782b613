"""The likelihood of one or more peaks of one relative width on a smooth background."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.shapes import (
    crystal_ball_bins,
    gauss_bins,
    gauss_slopes,
    voigt_bins,
)

MODELS: Final = ("gauss", "voigt", "crystal_ball")
"""Shapes of peaks."""

_TAIL_CENTRE: Final = (math.log(1.5), math.log(2.0), math.log(1.5), math.log(2.0))
_TAIL_ERROR: Final = (0.5, 1.0, 0.5, 1.0)
"""Weak constraints on the logarithms of where the tails begin and of their powers less one: they hold what
the data leave open near the tails that dimuon peaks have."""


@dataclass(slots=True)
class PeakProblem:
    """Peaks and a background, as a problem of :mod:`.likelihood`.

    The parameters are, in this order: a yield for each peak, a mass for each peak, the logarithm of
    sigma / m that all share, four tail parameters for ``crystal_ball``, the background's coefficients.

    Args:
        edges: Bin edges of the window.
        counts: Events.
        columns: The background's design matrix.
        peaks: How many.
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
        """Expected events of the background."""
        beta = theta[self.first_background :]
        return np.asarray(self.bins * np.exp(np.clip(self.columns @ beta, -600, 600)))

    def shares(self, theta: Floats, peak: int) -> Floats:
        """Share of one peak's events in each bin."""
        mass = float(theta[self.peaks + peak])
        sigma = mass * math.exp(min(float(theta[self.width]), 5.0))
        if self.model == "gauss":
            return gauss_bins(self.edges, mass, sigma)
        if self.model == "voigt":
            return voigt_bins(self.edges, mass, sigma, self.gamma)
        start, power, upper, upper_power = np.exp(theta[self.width + 1 : self.first_background])
        return crystal_ball_bins(self.edges, mass, sigma, (start, 1 + power, upper, 1 + upper_power))

    def expected(self, theta: Floats) -> Floats:
        """Expected events of each bin."""
        total = self.background(theta)
        for peak in range(self.peaks):
            if theta[peak]:
                total += theta[peak] * self.shares(theta, peak)
        return np.maximum(total, 0.0) if (total <= 0).any() else total

    def derivatives(self, theta: Floats) -> Floats:
        """Derivative of each bin by each parameter."""
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
        rows[:, peak] = self.shares(theta, peak)
        if not theta[peak]:
            return
        sigma = theta[self.peaks + peak] * math.exp(theta[self.width])
        for index in (self.peaks + peak, *range(self.width, self.first_background)):
            size = 1e-4 * (sigma if index < self.width else 1.0)
            step = np.zeros_like(theta)
            step[index] = size
            above, below = self.shares(theta + step, peak), self.shares(theta - step, peak)
            rows[:, index] += theta[peak] * (above - below) / (2.0 * size)

    def start(self, yields: Sequence[float], masses: Sequence[float], sigma: float, beta: Floats) -> Floats:
        """A vector of parameters; ``sigma`` is that of the first peak."""
        tails = _TAIL_CENTRE if self.model == "crystal_ball" else ()
        return np.array([*yields, *masses, math.log(sigma / masses[0]), *tails, *beta])

    def free(self) -> NDArray[np.bool_]:
        """Which parameters move: all, but a width that is known exactly."""
        free = np.ones(len(self.lower), dtype=bool)
        if self.resolution is not None and self.resolution[1] == 0:
            free[self.width] = False
        return free
