"""Nature: the hidden truth of a campaign and the detector's expected events. Sealed until the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import physics
from spectator.environments.collider.physics import Detector, Initial, energy_gain
from spectator.environments.collider.task import Beam, ChannelTask, six

Array = NDArray[np.float64]

SCALE_PIVOT_GEV: Final = 91.0
"""Mass at which ``scale`` holds; away from it the scale drifts with the logarithm of the mass."""


@dataclass(frozen=True, slots=True)
class Particle:
    """A resonance.

    Args:
        spin: 0, 1 or 2.
        rates_fb: Cross section times branching at 13 TeV, fb, by channel.
    """

    mass_gev: float
    width_gev: float
    spin: int
    production: Initial
    rates_fb: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Background:
    """Smooth background of a channel: events per GeV and fb^-1 at ``pivot_gev`` and 13 TeV, and its shape."""

    density: float
    pivot_gev: float
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """A false bump of a trigger: it keeps too many events around ``ratio`` x threshold."""

    channel: str
    ratio: float
    excess: float


@dataclass(frozen=True, slots=True)
class Fluctuation:
    """A rare upward fluctuation of the first run only: extra events at a mass."""

    channel: str
    mass_gev: float
    events: float


@dataclass(frozen=True, slots=True)
class Shapes:
    """Beta distributions of the selection score, for signal and background."""

    signal: tuple[float, float]
    background: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """A hidden mass axis of real data, ``factor * GeV ** power``: no table of particles answers on it."""

    factor: float
    power: float

    def __call__(self, mass_gev: float) -> float:
        """Return where a mass lies, to nine digits."""
        return float(f"{self.factor * mass_gev**self.power:.9g}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Real data behind a campaign.

    Args:
        axis: Where the true masses lie in this campaign.
        candle: Name of the resonance that calibrates it in ``PDG``; empty for none.
        counts: All recorded events, by mass bin.
        expected_z: Significance of the first resonance in all of the data.
        mass_error_gev: Error of its mass in all of the data, scale included.
    """

    axis: Axis
    candle: str
    counts: NDArray[np.int64]
    luminosity_fb: float
    expected_z: float
    mass_error_gev: float


@dataclass(frozen=True)
class Nature:
    """The truth of a campaign.

    Args:
        particles: The resonances; empty for a null.
        primary: Channel in which the first resonance shows best; empty for a null.
        scale: Measured over true mass, by detector, at ``SCALE_PIVOT_GEV``.
        drift: Change of the scale for each unit of ln m, by detector.
        resolution: True over nominal resolution, by detector.
        efficiency: True acceptance times efficiency, by channel.
        feature: A false bump of a trigger, if any.
        fluctuation: A fluctuation of the first run, if any.
        recorded: Real data, instead of simulated ones.
    """

    scenario: str
    particles: tuple[Particle, ...]
    primary: str
    scale: Mapping[Detector, float]
    drift: Mapping[Detector, float]
    resolution: Mapping[Detector, float]
    efficiency: Mapping[str, float]
    backgrounds: Mapping[str, Background]
    shapes: Mapping[str, Shapes]
    feature: Feature | None = None
    fluctuation: Fluctuation | None = None
    recorded: Recorded | None = None

    def scale_at(self, detector: Detector, mass_gev: float) -> float:
        """Return measured over true mass."""
        drift = self.drift[detector] * math.log(mass_gev / SCALE_PIVOT_GEV)
        return self.scale[detector] + drift

    def to_json(self) -> dict[str, Any]:
        """Return the sealed record as JSON."""
        return {
            "scenario": self.scenario,
            "particles": [
                {
                    "mass_gev": six(particle.mass_gev),
                    "width_gev": six(particle.width_gev),
                    "spin": particle.spin,
                    "production": particle.production,
                    "rates_fb": {name: six(rate) for name, rate in particle.rates_fb.items()},
                }
                for particle in self.particles
            ],
            "axis": None if self.recorded is None else {
                "factor": six(self.recorded.axis.factor), "power": six(self.recorded.axis.power),
            },
            "primary_channel": self.primary or None,
            "scale": {name: six(value) for name, value in self.scale.items()},
            "resolution": {name: six(value) for name, value in self.resolution.items()},
            "trigger_feature": None if self.feature is None else {
                "channel": self.feature.channel,
                "mass_over_threshold": six(self.feature.ratio),
                "excess": six(self.feature.excess),
            },
            "fluctuation": None if self.fluctuation is None else {
                "channel": self.fluctuation.channel,
                "mass_gev": six(self.fluctuation.mass_gev),
                "events": six(self.fluctuation.events),
            },
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exposure:
    """Exposure of a channel in one run: beam, luminosity, threshold, live share of the readout."""

    beam: Beam
    luminosity_fb: float
    threshold_gev: float
    live_fraction: float
    first_run: bool = False


def pileup_broadening(pileup: float) -> float:
    """Return the factor by which pile-up broadens every resolution."""
    return math.sqrt(1.0 + pileup / 100.0)


def isolation_efficiency(pileup: float) -> float:
    """Return the share of objects that stay isolated."""
    return 1.0 - 0.002 * pileup


def measured_peak(nature: Nature, offer: ChannelTask, particle: Particle, pileup: float) -> Array:
    """Return the share of a particle in each mass bin, as the detector measures it."""
    detector = offer.channel.detector
    sigma = particle.mass_gev * offer.relative_resolution * nature.resolution[detector]
    return physics.peak(
        offer.edges_gev,
        particle.mass_gev * nature.scale_at(detector, particle.mass_gev),
        sigma * pileup_broadening(pileup),
        particle.width_gev,
    )


def expected_signal(nature: Nature, offer: ChannelTask, exposure: Exposure) -> Array:
    """Return signal events by mass bin, all scores."""
    total = np.zeros(len(offer.edges_gev) - 1)
    beam = exposure.beam
    common = (
        exposure.luminosity_fb
        * exposure.live_fraction
        * isolation_efficiency(beam.pileup)
        * nature.efficiency[offer.name]
    )
    for particle in nature.particles:
        rate = particle.rates_fb.get(offer.name, 0.0)
        if rate:
            gain = energy_gain(particle.production, particle.mass_gev, beam.sqrt_s_tev)
            total += rate * gain * common * measured_peak(nature, offer, particle, beam.pileup)
    if total.any():
        total *= physics.trigger_efficiency(physics.centres(offer.edges_gev), exposure.threshold_gev)
    return total


def expected_background(nature: Nature, offer: ChannelTask, exposure: Exposure) -> Array:
    """Return background events by mass bin, all scores, with a trigger's false bump."""
    background, beam = nature.backgrounds[offer.name], exposure.beam
    gain = energy_gain(offer.channel.background, background.pivot_gev, beam.sqrt_s_tev)
    common = exposure.luminosity_fb * exposure.live_fraction * isolation_efficiency(beam.pileup) * gain
    events = common * physics.smooth(
        offer.edges_gev, background.density, background.pivot_gev, background.coefficients
    )
    masses = physics.centres(offer.edges_gev)
    events *= physics.trigger_efficiency(masses, exposure.threshold_gev)
    feature = nature.feature
    if feature is not None and feature.channel == offer.name:
        at = feature.ratio * exposure.threshold_gev
        pull = (masses - at) / (1.2 * at * offer.relative_resolution)
        events *= 1.0 + feature.excess * np.exp(-0.5 * pull**2)
    fluctuation = nature.fluctuation
    if exposure.first_run and fluctuation is not None and fluctuation.channel == offer.name:
        sigma = fluctuation.mass_gev * offer.relative_resolution * pileup_broadening(beam.pileup)
        events += fluctuation.events * physics.peak(offer.edges_gev, fluctuation.mass_gev, sigma)
    return events
