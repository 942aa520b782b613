"""The task: what the physicist knows at the start, and the rules of a campaign.

Hard rules reject an action; soft rules let it pass, and the grade counts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.physics import CHANNELS, Channel, Detector, mass_edges


class HardRule(Exception):
    """An action that is refused; nothing has changed.

    Args:
        code: One of :data:`HARD`.
        message: What would be allowed.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


HARD: Final = {
    "over_budget": "The action costs more than is left.",
    "over_luminosity": "The machine cannot deliver that much any more.",
    "over_time": "The action takes longer than is left.",
    "missing_prerequisite": "Something must be done before.",
    "unblind_before_freeze": "The search sample stays closed until the selection is frozen.",
    "invalid_parameters": "An argument is impossible: a mass in another unit, a window without data.",
    "out_of_search_window": "The mass is outside the window that was frozen.",
    "channel_mismatch": "The channel is not on offer, not in the trigger menu, or not part of the selection.",
    "invalid_claim": "The claim contradicts itself or rests on no measurement.",
    "redundant": "It has been done and would show the same: nothing is gained, so nothing is spent.",
    "episode.over": "The campaign is over.",
}
"""What each hard rule says."""

SOFT: Final = {
    "reselect_after_unblind": "A channel was selected anew after it was seen: only new runs may be opened.",
    "claim_below_5sigma_as_discovery": "Claimed as a discovery below 5 sigma global; graded as evidence.",
    "claim_below_3sigma": "Claimed below 3 sigma global; graded as unfounded.",
    "overclaimed_z": "A significance is claimed that was not measured.",
    "local_quoted_as_global": "The local significance is quoted as the global one.",
    "uncertainty_understated": "The error of the mass is below what was measured.",
    "claim_without_systematics": "Nobody asked what another background function would see.",
    "claim_on_trigger_feature": "The excess does not agree between runs of different thresholds.",
    "prescaled_trigger": "The menu asks for more than the readout takes: every item is prescaled.",
}
"""What each soft rule says."""

TOLERATED: Final = frozenset({"prescaled_trigger"})
"""Soft rules that only inform: they cost nothing by themselves."""


Difficulty = Literal["easy", "medium", "hard", "expert"]

BANDWIDTH_HZ: Final = 1000.0
"""What the readout takes; the order of magnitude of the LHC's Run 2."""

SWITCHING_DAYS: Final = 40.0
"""Days that another beam energy takes to commission; the first one is commissioned."""


def six(value: float) -> float:
    """``value`` to six significant digits, so that nothing hangs on the last bit of a library."""
    return float(f"{value:.6g}")


@dataclass(frozen=True, slots=True)
class Beam:
    """A beam energy on offer: collision energy (TeV), price (MUSD and days for each fb^-1), pile-up."""

    sqrt_s_tev: float
    cost_musd_per_fb: float
    days_per_fb: float
    pileup: float

    def to_json(self) -> dict[str, float]:
        """As it is told."""
        return {
            "sqrt_s_tev": self.sqrt_s_tev,
            "cost_musd_per_fb": self.cost_musd_per_fb,
            "days_per_fb": self.days_per_fb,
            "pileup": self.pileup,
        }


@dataclass(frozen=True, slots=True)
class Candle:
    """A known resonance: its name, what measures it, its mass (GeV) in this world, its events per fb^-1."""

    name: str
    detector: Detector
    mass_gev: float
    events_per_fb: float

    def to_json(self) -> dict[str, Any]:
        """As it is told."""
        return {"name": self.name, "detector": self.detector, "mass_gev": self.mass_gev}


@dataclass(frozen=True)
class ChannelTask:
    """A channel as this campaign offers it.

    Args:
        name: Name of the channel.
        relative_resolution: Nominal sigma / mass, the same over the window.
        window_gev: Search window.
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
        """The final state itself."""
        return CHANNELS[self.name]

    @cached_property
    def edges_gev(self) -> NDArray[np.float64]:
        """Edges of the fit window: the search window and its sidebands."""
        if self.recorded_edges_gev:
            return np.array(self.recorded_edges_gev)
        return mass_edges(*self.window_gev, self.relative_resolution)

    @property
    def fit_window_gev(self) -> tuple[float, float]:
        """First and last edge."""
        return float(self.edges_gev[0]), float(self.edges_gev[-1])

    def to_json(self) -> dict[str, Any]:
        """As it is told."""
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
    """What the campaign is, and what it may use.

    Args:
        campaign: What is searched for, in words that fit signal and null alike.
        difficulty: Tier.
        window_gev: Search window.
        channels: Channels on offer, by name.
        beams: Beam energies on offer.
        candles: Known resonances, by name.
        budget_musd: Money.
        luminosity_fb: Luminosity that the machine may deliver.
        days: Time.
        real_data: Name of the recorded data; empty for a simulated campaign.
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

    def beam(self, sqrt_s_tev: float) -> Beam | None:
        """The beam of that energy, if it is on offer."""
        return next((beam for beam in self.beams if beam.sqrt_s_tev == sqrt_s_tev), None)

    @cached_property
    def told(self) -> dict[str, Any]:
        """The task as it is told: plain JSON, the same object every time."""
        return {
            "campaign": self.campaign,
            "difficulty": self.difficulty,
            "search_window_gev": list(self.window_gev),
            "channels": [channel.to_json() for channel in self.channels.values()],
            "beams": [beam.to_json() for beam in self.beams],
            "candles": [candle.to_json() for candle in self.candles.values()],
            "budget_musd": self.budget_musd,
            "luminosity_fb": self.luminosity_fb,
            "days": self.days,
            "trigger_bandwidth_hz": BANDWIDTH_HZ,
            "switching_days": SWITCHING_DAYS,
            "real_data": bool(self.real_data),
        }
