"""Toy spectra for the tests of the collider analysis: a Gauss peak on an exponential."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.shapes import gauss_bins


@dataclass(frozen=True, slots=True)
class Toy:
    """A true spectrum, by default 105 to 145 GeV."""

    z: float = 8.0
    mass: float = 125.0
    sigma: float = 1.6
    events_a_gev: float = 1000.0
    bins: int = 50
    low: float = 105.0
    high: float = 145.0

    @property
    def edges(self) -> Floats:
        return np.linspace(self.low, self.high, self.bins + 1)

    @property
    def background(self) -> Floats:
        centres = 0.5 * (self.edges[1:] + self.edges[:-1])
        return self.events_a_gev * np.exp(-(centres - self.low) / 30.0) * (self.high - self.low) / self.bins

    @property
    def signal(self) -> float:
        """Events that stand out by ``z`` with a known background."""
        share = gauss_bins(self.edges, self.mass, self.sigma)
        return float(self.z / np.sqrt(np.sum(share * share / self.background)))

    @property
    def expected(self) -> Floats:
        return self.background + self.signal * gauss_bins(self.edges, self.mass, self.sigma)

    def draw(self, seed: int) -> Floats:
        return np.random.default_rng(seed).poisson(self.expected).astype(np.float64)
