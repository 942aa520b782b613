"""Campaigns on real collisions: CMS Open Data, of which a run opens a share.

Nothing is simulated: a run is a random part of the recorded events, each event in one run at most. Scores and
decay angles are not among the data, so every cut keeps all and no spin can be measured.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.analysis.open_data import dimuon_spectrum, four_lepton_events
from spectator.environments.collider.analysis.pdg import PDG
from spectator.environments.collider.experiment.nature import Nature, Particle, Recorded
from spectator.environments.collider.experiment.task import Beam, Candle, ChannelTask, Difficulty, Task, six
from spectator.environments.seeds import derive_seed

OPEN_DATA: Final = ("open_data_dimuon", "open_data_4l")

DIMUON_FB: Final = 5.7
"""Luminosity that the dimuon histogram is worth (data/README.md)."""

FOUR_LEPTON_FB: Final = 13.9
"""2.3 fb^-1 at 7 TeV and 11.6 at 8 TeV (data/README.md)."""

MOST_EVENTS: Final = 60_000
"""So many events of a region are on offer: with millions of them statistical errors mean nothing."""

BUDGET_MUSD: Final = 60.0
RUNNING_SHARE: Final = 0.6
"""Share of the budget and of the days that all of the data cost."""

DAYS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of mass that is searched.

    Args:
        name: Its name.
        window_gev: Where to look.
        fit_gev: What enters the fits.
        resolution: sigma / mass there, as fits of the data found it.
        masses: Names of the resonances in it, by the Particle Data Group, the largest first.
        candle: A known resonance elsewhere that calibrates it.
    """

    name: str
    window_gev: tuple[float, float]
    fit_gev: tuple[float, float]
    resolution: float
    masses: tuple[str, ...]
    candle: str


DIMUON_REGIONS: Final = (
    Region("jpsi", (2.75, 4.1), (2.45, 4.6), 0.0095, ("jpsi", "psi2s"), "z"),
    Region("upsilon", (8.9, 11.0), (8.0, 12.3), 0.0085, ("upsilon1s", "upsilon2s", "upsilon3s"), "jpsi"),
    Region("z", (75.0, 110.0), (62.0, 135.0), 0.016, ("z",), "jpsi"),
    Region("shoulder", (15.0, 60.0), (13.0, 66.0), 0.012, (), "jpsi"),
)
"""Where the real spectrum has peaks, and where only the triggers make a shoulder."""

PSI2S_REGION: Final = Region("psi2s", (3.5, 3.95), (3.35, 4.3), 0.0095, ("psi2s",), "jpsi")
"""The psi(2S) by itself: the J/psi, sixteen times as large, lies eight resolutions below all of its bins."""

PSI2S_CHANCE: Final = 0.2
"""How often a seed has the psi(2S), drawn apart: the others keep their region of :data:`DIMUON_REGIONS`."""

FOUR_LEPTON_REGION: Final = Region("four_lepton", (110.0, 150.0), (100.0, 170.0), 0.016, ("higgs",), "")

_CANDLE_WINDOWS: Final = {"jpsi": (2.80, 3.40), "z": (75.0, 110.0)}


def draw_open(scenario: str, difficulty: Difficulty, seed: int) -> tuple[Task, Nature]:
    """The campaign of a seed on real data; for dimuons the seed chooses the region."""
    if scenario == "open_data_4l":
        edges, counts = _four_leptons()
        return _campaign(FOUR_LEPTON_REGION, "four_lepton", difficulty, (edges, counts), FOUR_LEPTON_FB)
    region = _dimuon_region(seed)
    edges, counts = _dimuons()
    inside = (edges[:-1] >= region.fit_gev[0]) & (edges[1:] <= region.fit_gev[1])
    first, last = np.flatnonzero(inside)[[0, -1]]
    chosen = edges[first : last + 2], counts[first : last + 1]
    return _campaign(region, "dilepton_mumu", difficulty, chosen, DIMUON_FB)


def _dimuon_region(seed: int) -> Region:
    if random.Random(derive_seed(seed, "collider", "open data", "psi2s")).random() < PSI2S_CHANCE:
        return PSI2S_REGION
    return random.Random(derive_seed(seed, "collider", "open data")).choice(DIMUON_REGIONS)


@cache
def _dimuons() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    edges, counts = dimuon_spectrum()
    return edges, counts.astype(np.int64)


@cache
def _four_leptons() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    low, high = FOUR_LEPTON_REGION.fit_gev
    edges = np.linspace(low, high, 36)
    counts, _ = np.histogram(four_lepton_events()["m"], edges)
    return edges, counts.astype(np.int64)


def _campaign(
    region: Region,
    channel: str,
    difficulty: Difficulty,
    spectrum: tuple[NDArray[np.float64], NDArray[np.int64]],
    recorded_fb: float,
) -> tuple[Task, Nature]:
    edges, counts = spectrum
    offered = float(f"{min(recorded_fb, recorded_fb * MOST_EVENTS / counts.sum()):.3g}")
    offer = ChannelTask(
        channel, region.resolution, region.window_gev, 100.0, float(f"{edges[0] / 2.8:.3g}"), 0.6,
        recorded_edges_gev=tuple(float(f"{edge:.9g}") for edge in edges),
    )  # fmt: skip
    musd, days = RUNNING_SHARE * BUDGET_MUSD / offered, RUNNING_SHARE * DAYS / offered
    beam = Beam(8.0, six(musd), six(days), 20.0)
    candles = {}
    if region.candle:
        candles[region.candle] = Candle(region.candle, "muon", PDG[region.candle].mass_gev, 0.0)
    low, high = region.window_gev
    words = (
        f"Real collisions, recorded by CMS: are there resonances between {low:g} and {high:g} GeV in "
        f"{channel}? A run opens a share of the recorded events; thresholds and cuts change nothing."
    )
    task = Task(
        words, difficulty, region.window_gev, {channel: offer}, (beam,), candles, BUDGET_MUSD, offered, DAYS,
        real_data=region.name,
    )  # fmt: skip
    return task, _nature(region, channel, counts, recorded_fb)


def _nature(region: Region, channel: str, counts: NDArray[np.int64], recorded_fb: float) -> Nature:
    particles = tuple(
        Particle(PDG[name].mass_gev, PDG[name].width_gev or 0.0, 0 if name == "higgs" else 1, "gg", {})
        for name in region.masses
    )
    faint = region.name == "four_lepton"
    error = 1.3 if faint else 1e-3 * (particles[0].mass_gev if particles else 1.0)
    return Nature(
        "open_data_4l" if faint else "open_data_dimuon", particles, channel if particles else "",
        scale={"muon": 1.0}, drift={"muon": 0.0}, resolution={"muon": 1.0},
        efficiency={}, backgrounds={}, shapes={},
        recorded=Recorded(counts, recorded_fb, 3.3 if faint else 50.0, error),
    )  # fmt: skip


def candle_spectrum(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The real spectrum around a known resonance."""
    edges, counts = _dimuons()
    low, high = _CANDLE_WINDOWS[name]
    first, last = np.flatnonzero((edges[:-1] >= low) & (edges[1:] <= high))[[0, -1]]
    return edges[first : last + 2], counts[first : last + 1]
