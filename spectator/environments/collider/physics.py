"""Physics of the simulation: cross sections, channels, peaks, decays and triggers.

Cross sections grow by effective parton luminosities C(x) = exp(-q ln x - r ln^2 x) (1 - x)^p at x = M /
sqrt(s); sigma goes as C(x) / s. The parameters were fitted to published cross sections: gluon fusion to
H(125) at 7, 8, 13 and 14 TeV (Yellow Report 4, CERN-2017-002) and C_gg(750), C_uu(750) of
arXiv:1512.04933; quark-antiquark also to Z -> ll. They reproduce those inputs to 0.6 %; do not trust
them beyond x = 0.35.

Channels: diphoton and four leptons from arXiv:1207.7214 (35 251 diphotons in 100-160 GeV with 5.9 fb^-1
at 8 TeV; 5.1 four-lepton background events in 120-130 GeV with 10.6 fb^-1); resolutions of muons as
measured on the real data of the data folder. Drell-Yan, bb and dijet densities are inputs of the model,
right in order of magnitude; every campaign draws its own values around them.

Mass bins are equal in ln m, half a nominal resolution wide: a resolution that is a fixed share of the
mass spans the same number of bins everywhere.

Decay angles have densities on [-1, 1] in the Collins-Soper frame (standard results): spin 0 is flat;
spin 1 to fermions goes as 1 + c^2; gg -> G -> two photons as 1 + 6c^2 + c^4; gg -> G -> fermions as 1 -
c^4. Four leptons are flat or go as 1 + 6c^2 + c^4. Acceptance falls towards the beam as 1 - 0.75 c^4 and
multiplies every density.

A trigger menu has one item per channel. An item's rate goes as (threshold)^-4, and all items share the
bandwidth of the readout; a menu that exceeds it is prescaled as a whole. The chance that a pair of mass m
passes is an error function around ``TURN_ON`` x threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Initial = Literal["gg", "qq"]
"""Partons that fuse."""

_PARAMETERS: Final[dict[Initial, tuple[float, float, float]]] = {
    "gg": (5.890, 0.2623, 8.02),
    "qq": (4.020, 0.0985, 5.01),
}
"""q, r, p by initial state."""

REFERENCE_TEV: Final = 13.0
MAX_X: Final = 0.35


def energy_gain(initial: Initial, mass_gev: float, sqrt_s_tev: float) -> float:
    """Return the cross section at ``sqrt_s_tev`` over that at 13 TeV.

    >>> round(1 / energy_gain("gg", 125.0, 8.0), 2)
    2.26
    """
    return _sigma(initial, mass_gev, sqrt_s_tev) / _sigma(initial, mass_gev, REFERENCE_TEV)


def _sigma(initial: Initial, mass_gev: float, sqrt_s_tev: float) -> float:
    q, r, p = _PARAMETERS[initial]
    x = min(mass_gev / (1000.0 * sqrt_s_tev), MAX_X)
    log = math.log(x)
    return float(math.exp(-q * log - r * log * log) * (1.0 - x) ** p / sqrt_s_tev**2)


Detector = Literal["egamma", "muon", "jet"]
"""Part of the detector that measures the mass; it has one scale and one resolution."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One final state.

    Args:
        stochastic: Term of the relative resolution that falls as 1/sqrt(m / GeV).
        growth: Term that grows as m / TeV.
        efficiency: Acceptance times efficiency of a signal, before trigger and cut.
        density: Background events per GeV and fb^-1 at 125 GeV and 8 TeV.
        index: Power with which the density falls with the mass.
        spins: Spins that may decay to it; spin 1 to two photons is forbidden (Landau and Yang).
    """

    name: str
    detector: Detector
    stochastic: float
    constant: float
    growth: float
    efficiency: float
    density: float
    index: float
    background: Initial
    spins: tuple[int, ...] = (0, 1, 2)

    def relative_resolution(self, mass_gev: float) -> float:
        """Return the nominal sigma / mass."""
        terms = (self.stochastic / math.sqrt(mass_gev), self.constant, self.growth * mass_gev / 1000.0)
        return math.sqrt(sum(term * term for term in terms))


CHANNELS: Final[dict[str, Channel]] = {
    channel.name: channel
    for channel in (
        Channel("diphoton", "egamma", 0.10, 0.009, 0.0, 0.40, 97.0, 3.8, "qq", (0, 2)),
        Channel("four_lepton", "muon", 0.0, 0.014, 0.010, 0.25, 0.048, 1.5, "qq"),
        Channel("dilepton_ee", "egamma", 0.16, 0.009, 0.0, 0.55, 150.0, 4.4, "qq"),
        Channel("dilepton_mumu", "muon", 0.0, 0.010, 0.030, 0.60, 150.0, 4.4, "qq"),
        Channel("bb", "jet", 1.0, 0.045, 0.0, 0.05, 2.0e3, 4.6, "gg"),
        Channel("dijet", "jet", 1.2, 0.030, 0.0, 0.50, 1.0e7, 5.2, "gg"),
    )
}  # fmt: skip
"""Channels by name."""


Array = NDArray[np.float64]

SCORE_BINS: Final = 8
"""Equal bins of the selection score in [0, 1]."""

BINS_PER_SIGMA: Final = 2.0
MARGIN_SIGMA: Final = 10.0
"""Sidebands on either side of the search window, in resolutions."""


def margin(relative_resolution: float) -> float:
    """Return the width of a sideband, in the logarithm of the mass."""
    return min(MARGIN_SIGMA * relative_resolution, 0.45)


def mass_edges(low_gev: float, high_gev: float, relative_resolution: float) -> Array:
    """Return the edges of the fit window, rounded to nine digits.

    The fit window is the search window and its sidebands.
    """
    step, beside = relative_resolution / BINS_PER_SIGMA, margin(relative_resolution)
    start, stop = math.log(low_gev) - beside, math.log(high_gev) + beside
    bins = math.ceil((stop - start) / step)
    edges = np.exp(start + step * np.arange(bins + 1))
    return np.array([float(f"{edge:.9g}") for edge in edges])


def centres(edges_gev: Array) -> Array:
    """Return the geometric middles of the bins."""
    return np.asarray(np.sqrt(edges_gev[1:] * edges_gev[:-1]))


def peak(edges_gev: Array, mass_gev: float, sigma_gev: float, natural_width_gev: float = 0.0) -> Array:
    """Return the share of a resonance in each bin.

    Gaussian by its integral; with a natural width of at least a fifth of sigma a Voigt profile, by its value
    in the middle of a bin.
    """
    from scipy.special import ndtr, voigt_profile

    if natural_width_gev < 0.2 * sigma_gev:
        return np.diff(ndtr((edges_gev - mass_gev) / sigma_gev))
    middle = 0.5 * (edges_gev[1:] + edges_gev[:-1])
    return np.asarray(
        voigt_profile(middle - mass_gev, sigma_gev, natural_width_gev / 2.0) * np.diff(edges_gev)
    )


def smooth(edges_gev: Array, density_at: float, pivot_gev: float, coefficients: tuple[float, ...]) -> Array:
    """Return the background by bin.

    The density is ``density_at`` exp(c1 u + c2 u^2 + ...) with u = ln(m / pivot).
    """
    u = np.log(centres(edges_gev) / pivot_gev)
    exponent = np.zeros_like(u)
    for power, coefficient in enumerate(coefficients, 1):
        exponent += coefficient * u**power
    return np.asarray(density_at * np.exp(exponent) * np.diff(edges_gev))


@cache
def score_shares(first: float, second: float) -> Array:
    """Return the shares of the score bins of a Beta(first, second) distribution."""
    from scipy.special import betainc

    shares = np.diff(betainc(first, second, np.linspace(0.0, 1.0, SCORE_BINS + 1)))
    shares.setflags(write=False)
    return np.asarray(shares)


def asimov_significance(signal: Array, background: Array) -> float:
    """Return the expected significance over a known background, all bins together."""
    ratio = signal / np.maximum(background, 1e-12)
    q = 2.0 * ((signal + background) * np.log1p(ratio) - signal)
    return float(math.sqrt(max(0.0, q.sum())))


Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]

ANGLE_EDGES: Final = np.linspace(0.0, 1.0, 11)
"""Edges of the bins of |cos theta*|."""

_PER_BIN: Final = 8
_POINTS: Final = (np.arange(10 * _PER_BIN) + 0.5) / (10 * _PER_BIN)

_FERMIONS: Final = ("dilepton_ee", "dilepton_mumu", "bb", "dijet")


def acceptance(cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of decays seen at ``cosine``; 1 at right angles to the beam."""
    return 1.0 - 0.75 * cosine**4


def hypothesis(spin: int, channel: str) -> str:
    """Return the name of the decay of ``spin`` in ``channel``."""
    if spin == 0:
        return "spin0"
    if spin == 1:
        return "spin1_ll"
    return "spin2_gg_ll" if channel in _FERMIONS else "spin2_gg_diphoton"


_DENSITIES: Final[dict[str, Density]] = {
    "spin0": lambda c: np.ones_like(c),
    "spin1_ll": lambda c: 0.75 * (1.0 + c**2),
    "spin2_gg_ll": lambda c: 1.25 * (1.0 - c**4),
    "spin2_gg_diphoton": lambda c: 0.3125 * (1.0 + 6.0 * c**2 + c**4),
}


def signal_angles(spin: int, channel: str) -> NDArray[np.float64]:
    """Return the accepted shares of the ten angle bins for a spin; they sum to 1."""
    return _binned(_DENSITIES[hypothesis(spin, channel)])


def background_angles(channel: str) -> NDArray[np.float64]:
    """Return the shares of the ten angle bins for the background.

    Jets and photons go forward, lepton pairs as 1 + c^2.
    """
    if channel in ("dilepton_ee", "dilepton_mumu"):
        return _binned(lambda c: 1.0 + c**2)
    return _binned(lambda c: 1.0 / (1.15 - c**2))


def _binned(density: Density) -> NDArray[np.float64]:
    values = (density(_POINTS) * acceptance(_POINTS)).reshape(10, _PER_BIN).sum(axis=1)
    return np.asarray(values / values.sum(), dtype=np.float64)


def possible_spins(channel: str) -> tuple[int, ...]:
    """Return the spins that may decay to ``channel``.

    >>> possible_spins("diphoton")
    (0, 2)
    """
    return CHANNELS[channel].spins


TURN_ON: Final = 2.2
"""Mass of half efficiency, in thresholds: each of two objects carries slightly less than half of it."""

TURN_ON_WIDTH: Final = 0.12
"""Width of the turn-on, relative to its mass."""

RATE_POWER: Final = 4.0


def rate_hz(reference_hz: float, reference_gev: float, threshold_gev: float) -> float:
    """Return the rate of an item at a threshold, scaled from a reference."""
    return float(reference_hz * (threshold_gev / reference_gev) ** -RATE_POWER)


def live_fraction(rates_hz: Mapping[str, float], bandwidth_hz: float) -> float:
    """Return the share of triggered events that the readout takes.

    >>> live_fraction({"diphoton": 1500.0, "dijet": 500.0}, 1000.0)
    0.5
    """
    total = sum(rates_hz.values())
    return 1.0 if total <= bandwidth_hz else bandwidth_hz / total


def trigger_efficiency(masses_gev: NDArray[np.float64], threshold_gev: float) -> NDArray[np.float64]:
    """Return the chance that a pair of each mass passes an item."""
    from scipy.special import ndtr

    half = TURN_ON * threshold_gev
    return np.asarray(ndtr((masses_gev - half) / (TURN_ON_WIDTH * half)), dtype=np.float64)


def suitable_threshold(lowest_gev: float) -> float:
    """Return the highest threshold that keeps 97.7 % of pairs of a mass."""
    return lowest_gev / (TURN_ON * (1.0 + 2.0 * TURN_ON_WIDTH))
