"""The task: what the physicist knows at the start, and the rules of a campaign.

A broken hard rule rejects the action. A broken soft rule lowers the grade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.physics import CHANNELS, Channel, Detector, mass_edges


class HardRule(Exception):
    """Raised for a rejected action, which changes nothing.

    Args:
        code: Code of the rule: ``over_budget`` (more than the money left), ``over_luminosity``,
            ``over_time``, ``missing_prerequisite`` (another action must come first),
            ``unblind_before_freeze``, ``invalid_parameters``, ``out_of_search_window`` (a mass outside the
            frozen window), ``channel_mismatch`` (not on offer, not in the trigger menu, or not selected),
            ``invalid_claim`` (contradicts itself or rests on no measurement), ``redundant`` (would show the
            same again), ``action.shape`` or ``episode.over``.
        message: What is wrong and what is allowed.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


TOLERATED: Final = frozenset({"prescaled_trigger"})
"""Soft rules that do not lower the grade."""

Difficulty = Literal["easy", "medium", "hard", "expert"]

BANDWIDTH_HZ: Final = 1000.0
"""Bandwidth of the readout; the order of magnitude of the LHC's Run 2."""

SWITCHING_DAYS: Final = 40.0
"""Days to commission another beam energy; the first one is ready."""


def six(value: float) -> float:
    """Round to six significant digits, so that results do not depend on a library's last bit."""
    return float(f"{value:.6g}")


@dataclass(frozen=True, slots=True)
class Beam:
    """A beam on offer: collision energy (TeV), price (MUSD and days per fb^-1), pile-up."""

    sqrt_s_tev: float
    cost_musd_per_fb: float
    days_per_fb: float
    pileup: float


@dataclass(frozen=True, slots=True)
class Candle:
    """A known resonance for calibration: name, detector, mass (GeV) in this world, events per fb^-1."""

    name: str
    detector: Detector
    mass_gev: float
    events_per_fb: float

    def to_json(self) -> dict[str, Any]:
        """Return the public description."""
        return {"name": self.name, "detector": self.detector, "mass_gev": self.mass_gev}


@dataclass(frozen=True)
class ChannelTask:
    """A channel on offer in this campaign.

    Args:
        relative_resolution: Nominal sigma / mass, the same over the window.
        trigger_hz: Rate of its trigger item at ``trigger_gev``.
        trigger_gev: Threshold at which that rate holds.
        efficiency: Acceptance times efficiency from simulation, good to 5 %.
        recorded_edges_gev: Edges of real data; empty for simulated ones.
    """

    name: str
    relative_resolution: float
    window_gev: tuple[float, float]
    trigger_hz: float
    trigger_gev: float
    efficiency: float
    recorded_edges_gev: tuple[float, ...] = ()

    @property
    def channel(self) -> Channel:
        """The final state."""
        return CHANNELS[self.name]

    @cached_property
    def edges_gev(self) -> NDArray[np.float64]:
        """Edges of the fit window: the search window and its sidebands."""
        if self.recorded_edges_gev:
            return np.array(self.recorded_edges_gev)
        return mass_edges(*self.window_gev, self.relative_resolution)

    @cached_property
    def blinded(self) -> NDArray[np.bool_]:
        """Which bins touch the search window: their search events are hidden until unblinding."""
        low, high = self.window_gev
        return np.asarray((self.edges_gev[1:] > low) & (self.edges_gev[:-1] < high))

    @property
    def fit_window_gev(self) -> tuple[float, float]:
        """First and last edge."""
        return float(self.edges_gev[0]), float(self.edges_gev[-1])

    def to_json(self) -> dict[str, Any]:
        """Return the public description."""
        return {
            "name": self.name,
            "detector": self.channel.detector,
            "relative_resolution": self.relative_resolution,
            "fit_window_gev": [six(edge) for edge in self.fit_window_gev],
            "trigger_rate_hz": self.trigger_hz,
            "trigger_threshold_gev": self.trigger_gev,
            "signal_efficiency": self.efficiency,
            "spins": list(self.channel.spins),
        }


@dataclass(frozen=True)
class Task:
    """The public task of a campaign.

    Args:
        campaign: What is searched for, in words that fit both signal and null.
        luminosity_fb: Luminosity that the machine may deliver.
        real_data: Name of the recorded data; empty for a simulated campaign.
        published_z: Significance of a published resonance that is measured here; ``None`` for a search.
    """

    campaign: str
    difficulty: Difficulty
    window_gev: tuple[float, float]
    channels: Mapping[str, ChannelTask]
    beams: tuple[Beam, ...]
    candles: Mapping[str, Candle]
    budget_musd: float
    luminosity_fb: float
    days: float
    real_data: str = ""
    published_z: float | None = None

    def beam(self, sqrt_s_tev: float) -> Beam | None:
        """Return the beam of an energy, or ``None`` if it is not on offer."""
        return next((beam for beam in self.beams if beam.sqrt_s_tev == sqrt_s_tev), None)

    @cached_property
    def public(self) -> dict[str, Any]:
        """The task as JSON for the physicist; the same object every time."""
        return {
            "campaign": self.campaign,
            "difficulty": self.difficulty,
            "search_window_gev": list(self.window_gev),
            "channels": [channel.to_json() for channel in self.channels.values()],
            "beams": [asdict(beam) for beam in self.beams],
            "candles": [candle.to_json() for candle in self.candles.values()],
            "budget_musd": self.budget_musd,
            "luminosity_fb": self.luminosity_fb,
            "days": self.days,
            "trigger_bandwidth_hz": BANDWIDTH_HZ,
            "switching_days": SWITCHING_DAYS,
            "real_data": bool(self.real_data),
            **({} if self.published_z is None else {"published_z": self.published_z}),
        }
