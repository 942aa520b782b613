"""The final states: resolution, acceptance and background of each.

Sources: diphoton and four leptons from arXiv:1207.7214 (35 251 diphotons in 100-160 GeV with 5.9 fb^-1 at
8 TeV; 5.1 four-lepton background events in 120-130 GeV with 10.6 fb^-1); resolutions of muons as measured on
the real data of the data folder. Drell-Yan, bb and dijet densities are inputs of the model, right in order of
magnitude; every campaign draws its own around them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from spectator.environments.collider.physics.scaling import Initial

Detector = Literal["egamma", "muon", "jet"]
"""Which part of the detector measures the mass; scale and resolution are common to it."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One final state.

    Args:
        name: Name in actions and events.
        label: Name shown to people.
        detector: What measures it.
        stochastic: Term of the relative resolution that falls as 1/sqrt(m / GeV).
        constant: Term that stays.
        growth: Term that grows as m / TeV.
        efficiency: Acceptance times efficiency of a signal, before trigger and cut.
        density: Background events per GeV and fb^-1 at 125 GeV and 8 TeV.
        index: Power with which it falls with the mass.
        background: Partons that make it.
        spins: Spins that may decay to it; spin 1 to two photons is forbidden (Landau and Yang).
    """

    name: str
    label: str
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
        """Nominal sigma / mass."""
        terms = (self.stochastic / math.sqrt(mass_gev), self.constant, self.growth * mass_gev / 1000.0)
        return math.sqrt(sum(term * term for term in terms))


CHANNELS: Final[dict[str, Channel]] = {
    channel.name: channel
    for channel in (
        Channel("diphoton", "two photons", "egamma", 0.10, 0.009, 0.0, 0.40, 97.0, 3.8, "qq", (0, 2)),
        Channel("four_lepton", "four leptons", "muon", 0.0, 0.014, 0.010, 0.25, 0.048, 1.5, "qq"),
        Channel("dilepton_ee", "two electrons", "egamma", 0.16, 0.009, 0.0, 0.55, 150.0, 4.4, "qq"),
        Channel("dilepton_mumu", "two muons", "muon", 0.0, 0.010, 0.030, 0.60, 150.0, 4.4, "qq"),
        Channel("bb", "two b jets", "jet", 1.0, 0.045, 0.0, 0.05, 2.0e3, 4.6, "gg"),
        Channel("dijet", "two jets", "jet", 1.2, 0.030, 0.0, 0.50, 1.0e7, 5.2, "gg"),
    )
}  # fmt: skip
"""Channels by name."""


def spins_of(channel: str) -> tuple[int, ...]:
    """Spins that a resonance seen in ``channel`` may have.

    >>> spins_of("diphoton")
    (0, 2)
    """
    return CHANNELS[channel].spins
