"""Draw campaigns: families of searches, tiers of difficulty, and real data.

The task (kind, window, channels) is drawn before the truth and independently of it, so it reveals nothing.
Tiers are defined by the significance that half of the budget is expected to bring.

Campaigns on CMS Open Data are not simulated: a run opens a random part of the recorded events, each event in
at most one run. The data have no scores or decay angles, so every cut keeps all events and no spin can be
measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import physics, sensitivity
from spectator.environments.collider.analysis.open_data import PDG, dimuon_spectrum, four_lepton_events
from spectator.environments.collider.nature import (
    Axis,
    Background,
    Feature,
    Fluctuation,
    Nature,
    Particle,
    Recorded,
    Shapes,
    expected_background,
)
from spectator.environments.collider.physics import CHANNELS, Detector, Initial, energy_gain
from spectator.environments.collider.task import Beam, Candle, ChannelTask, Difficulty, Task, six
from spectator.environments.world import derive_seed


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of search.

    Args:
        centre_gev: Range of the middle of the search window.
        channels: Channels on offer; the first sets the scale of the window.
        spins: Spins it may have, if its channel allows them.
        lowest_gev: Least mass of a search window; below are known resonances, which are not simulated.
    """

    name: str
    centre_gev: tuple[float, float]
    channels: tuple[str, ...]
    production: Initial
    spins: tuple[int, ...]
    budget_musd: tuple[float, float]
    lowest_gev: float = 0.0


FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family
    for family in (
        Family("higgs_like", (115.0, 200.0),
               ("diphoton", "four_lepton", "dilepton_mumu", "bb", "dilepton_ee"),
               "gg", (0, 2), (100.0, 160.0), 110.0),
        Family("zprime", (400.0, 2000.0), ("dilepton_mumu", "dilepton_ee", "dijet", "bb"),
               "qq", (1, 0, 2), (90.0, 150.0)),
        Family("graviton", (400.0, 1500.0), ("diphoton", "dilepton_ee", "dilepton_mumu", "dijet"),
               "gg", (2, 0), (90.0, 150.0)),
        Family("dark_photon", (20.0, 36.0), ("dilepton_mumu", "dilepton_ee"), "qq", (1, 0),
               (60.0, 110.0), 12.0),
        Family("dijet_resonance", (1500.0, 3500.0), ("dijet", "dilepton_mumu", "dilepton_ee", "bb"),
               "qq", (1, 0, 2), (80.0, 140.0)),
    )
}  # fmt: skip
"""Kinds of search by name."""


@dataclass(frozen=True, slots=True)
class Tier:
    """How hard a campaign is.

    Args:
        expected_z: Significance of half of the budget, spent on the best channel alone, with a known
            background; a real campaign reaches about two thirds of it.
        window_sigma: Width of the search window, in resolutions of the first channel.
        null_fraction: Share of campaigns without a resonance.
        scale_error: Spread of the energy scale.
        resolution_error: Spread of the logarithm of the resolution.
        curvature: Spread of the second and third coefficients of the background's shape.
        feature_chance: Chance of a false bump of a trigger.
        fluctuation_chance: Chance of an upward fluctuation of the first run, if there is no resonance.
    """

    expected_z: float
    window_sigma: float
    channels: int
    null_fraction: float
    scale_error: float
    resolution_error: float
    curvature: tuple[float, float]
    feature_chance: float
    fluctuation_chance: float


TIERS: Final[Mapping[Difficulty, Tier]] = {
    "easy": Tier(9.0, 20.0, 2, 0.10, 0.003, 0.05, (0.0, 0.0), 0.0, 0.0),
    "medium": Tier(7.5, 40.0, 3, 0.25, 0.006, 0.10, (0.3, 0.0), 0.15, 0.1),
    "hard": Tier(6.5, 70.0, 4, 0.35, 0.010, 0.10, (0.5, 0.3), 0.3, 0.2),
    "expert": Tier(5.5, 100.0, 5, 0.50, 0.010, 0.15, (0.6, 0.5), 0.45, 0.3),
}
"""Tiers by name."""

OPEN_DATA: Final = ("open_data_dimuon", "open_data_4l")

DIMUON_FB: Final = 5.7
"""Luminosity of the dimuon histogram (data/README.md)."""

FOUR_LEPTON_FB: Final = 13.9
"""2.3 fb^-1 at 7 TeV and 11.6 at 8 TeV (data/README.md)."""

MAX_RECORDED_EVENTS: Final = 60_000
"""Most events on offer in a region: with millions of them statistical errors mean nothing."""

BUDGET_MUSD: Final = 60.0
RUNNING_SHARE: Final = 0.6
"""Cost of all of the data, as a share of the budget and of the days."""

DAYS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Region:
    """A mass region of the real data.

    Args:
        resolution: sigma / mass there, from fits of the data.
        masses: Names of its resonances in ``PDG``, the largest first.
        candle: A known resonance in another region that calibrates it; empty for none.
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
"""Regions of the real spectrum: three with peaks, one where triggers make a shoulder."""

PSI2S_REGION: Final = Region("psi2s", (3.5, 3.95), (3.35, 4.3), 0.0095, ("psi2s",), "jpsi")
"""The psi(2S) alone: the J/psi, sixteen times as large, is eight resolutions below all of its bins."""

PSI2S_CHANCE: Final = 0.2
"""Share of seeds with the psi(2S). It has its own draw, so that other seeds keep their region."""

WINDOW_SHIFT: Final = 0.12
"""Most that an end of the window is moved, as a share of its width."""

PUBLISHED_Z: Final = 3.2
"""Significance of the resonance in four leptons as published: CMS, PLB 716 (2012) 30, arXiv:1207.7235."""

FOUR_LEPTON_REGION: Final = Region("four_lepton", (110.0, 150.0), (100.0, 170.0), 0.016, ("higgs",), "")

_CANDLE_WINDOWS: Final = {"jpsi": (2.80, 3.40), "z": (75.0, 110.0)}


def draw_open_data(scenario: str, difficulty: Difficulty, seed: int) -> tuple[Task, Nature]:
    """Draw the campaign of a seed on real data.

    For dimuons the seed chooses the region. It also draws the axis and moves the ends of the window, so that
    masses known by heart do not help.
    """
    hidden = random.Random(derive_seed(seed, "collider", "open data", "axis"))
    axis = Axis(six(math.exp(hidden.uniform(-1.0, 1.0))), six(hidden.uniform(0.8, 1.25)))
    ends = tuple(hidden.uniform(-WINDOW_SHIFT, WINDOW_SHIFT) for _ in range(2))
    if scenario == "open_data_4l":
        edges, counts = _four_leptons()
        region = _moved(FOUR_LEPTON_REGION, ends)
        return _campaign(region, "four_lepton", difficulty, (edges, counts), FOUR_LEPTON_FB, axis)
    region = _dimuon_region(seed)
    chosen = _dimuons(*region.fit_gev)
    return _campaign(_moved(region, ends), "dilepton_mumu", difficulty, chosen, DIMUON_FB, axis)


def _moved(region: Region, ends: tuple[float, ...]) -> Region:
    """Return a region with the ends of its window moved by shares of its width."""
    (low, high), (first, last) = region.window_gev, region.fit_gev
    moved = max(low + ends[0] * (high - low), first + 0.3 * (low - first))
    return replace(region, window_gev=(moved, min(high + ends[1] * (high - low), last - 0.3 * (last - high))))


def _dimuon_region(seed: int) -> Region:
    if random.Random(derive_seed(seed, "collider", "open data", "psi2s")).random() < PSI2S_CHANCE:
        return PSI2S_REGION
    return random.Random(derive_seed(seed, "collider", "open data")).choice(DIMUON_REGIONS)


@cache
def _dimuons(low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    edges, counts = dimuon_spectrum()
    first, last = np.flatnonzero((edges[:-1] >= low) & (edges[1:] <= high))[[0, -1]]
    return edges[first : last + 2], counts[first : last + 1].astype(np.int64)


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
    axis: Axis,
) -> tuple[Task, Nature]:
    edges, counts = spectrum
    places, faint = [axis(edge) for edge in edges], region.name == "four_lepton"
    low, high = window = (six(axis(region.window_gev[0])), six(axis(region.window_gev[1])))
    offered = float(f"{min(recorded_fb, recorded_fb * MAX_RECORDED_EVENTS / counts.sum()):.3g}")
    offer = ChannelTask(
        channel, six(axis.power * region.resolution), window, 100.0, float(f"{places[0] / 2.8:.3g}"), 0.6,
        recorded_edges_gev=tuple(places),
    )  # fmt: skip
    musd, days = RUNNING_SHARE * BUDGET_MUSD / offered, RUNNING_SHARE * DAYS / offered
    beam = Beam(8.0, six(musd), six(days), 20.0)
    candles = {}
    if region.candle:
        candles["reference"] = Candle("reference", "muon", axis(PDG[region.candle].mass_gev), 0.0)
    asked = (
        f"measure the resonance that was published with {PUBLISHED_Z:g} sigma (claim it as evidence: 1.64 "
        "sigma local will do)" if faint
        else "find the resonances, if there are any,"
    )  # fmt: skip
    words = (
        f"Real collisions, recorded by CMS: {asked} between {low:g} and {high:g} in {channel}. GeV stands "
        "for a hidden power of the true mass times a factor, so that no table of particles answers. A run "
        "opens a share of the recorded events; thresholds and cuts change nothing."
    )
    task = Task(
        words, difficulty, window, {channel: offer}, (beam,), candles, BUDGET_MUSD, offered, DAYS,
        real_data=region.name, published_z=PUBLISHED_Z if faint else None,
    )  # fmt: skip
    return task, _recorded_nature(region, channel, counts, recorded_fb, axis)


def _recorded_nature(
    region: Region, channel: str, counts: NDArray[np.int64], recorded_fb: float, axis: Axis
) -> Nature:
    particles = tuple(
        Particle(
            axis(PDG[name].mass_gev),
            axis.power * PDG[name].width_gev / PDG[name].mass_gev * axis(PDG[name].mass_gev),
            0 if name == "higgs" else 1, "gg", {},
        )
        for name in region.masses
    )  # fmt: skip
    faint = region.name == "four_lepton"
    error = axis.power * (1.04e-2 if faint else 1e-3) * (particles[0].mass_gev if particles else 1.0)
    return Nature(
        "open_data_4l" if faint else "open_data_dimuon", particles, channel if particles else "",
        scale={"muon": 1.0}, drift={"muon": 0.0}, resolution={"muon": 1.0},
        efficiency={}, backgrounds={}, shapes={},
        recorded=Recorded(axis, region.candle, counts, recorded_fb, 3.3 if faint else 50.0, error),
    )  # fmt: skip


def candle_spectrum(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the real spectrum around a known resonance."""
    return _dimuons(*_CANDLE_WINDOWS[name])


Scenario = Literal[
    "any", "mixed", "higgs_like", "zprime", "graviton", "dark_photon", "dijet_resonance", "two_peaks",
    "law_shifted", "null", "null_with_fluctuation", "trigger_bump", "open_data_dimuon", "open_data_4l",
]  # fmt: skip
"""Scenarios; ``mixed`` draws family and truth by the tier, ``open_data`` ones are real collisions, and
``any`` draws one of those in ``SHARES``."""

SHARES: Final[Mapping[str, float]] = {
    "mixed": 0.6, "law_shifted": 0.12, "two_peaks": 0.12, "open_data_dimuon": 0.1, "open_data_4l": 0.06,
}  # fmt: skip
"""Share of each scenario in ``any``."""

MAX_EVENTS: Final = 2.0e5
"""Most background events of a channel in a campaign: above it no smooth function fits."""

_BEAMS: Final = (
    (7.0, 6.0, 10.0, 10.0),
    (8.0, 5.0, 9.0, 20.0),
    (13.0, 1.3, 2.6, 35.0),
    (14.0, 1.5, 2.4, 60.0),
)
"""Energy, MUSD and days per fb^-1, pile-up: from the electricity of the LHC, and its best years."""

_CANDLES: Final[dict[Detector, tuple[tuple[str, float, float], ...]]] = {
    "muon": (("jpsi", 3.0969, 900.0), ("z_mumu", 91.188, 300.0)),
    "egamma": (("z_ee", 91.188, 250.0),),
    "jet": (("w_jets", 80.37, 60.0),),
}
"""Name, mass and clean events per fb^-1 of each detector's candles."""


def draw(scenario: str, difficulty: Difficulty, seed: int) -> tuple[Task, Nature]:
    """Draw the campaign of a seed.

    Args:
        scenario: A :data:`Scenario`.
    """
    if scenario == "any":
        chance = random.Random(derive_seed(seed, "collider", "scenario"))
        (scenario,) = chance.choices([*SHARES], [*SHARES.values()])
    if scenario in OPEN_DATA:
        return draw_open_data(scenario, difficulty, seed)
    public = random.Random(derive_seed(seed, "collider", "task"))
    hidden = random.Random(derive_seed(seed, "collider", "nature"))
    drawn = public.choice(tuple(FAMILIES))
    family = FAMILIES[scenario if scenario in FAMILIES else drawn]
    shifted = scenario == "law_shifted"
    task = _task(family, TIERS[difficulty], difficulty, public, shifted)
    return task, _nature(scenario, family, TIERS[difficulty], task, hidden)


def _task(family: Family, tier: Tier, difficulty: Difficulty, draw: random.Random, shifted: bool) -> Task:
    centre = math.exp(draw.uniform(*map(math.log, family.centre_gev)))
    first = CHANNELS[family.channels[0]]
    names = list(family.channels[: tier.channels])
    reach = 0.5 * tier.window_sigma * min(first.relative_resolution(centre), 0.012)
    low = max(family.lowest_gev, centre * math.exp(-reach))
    window = (six(round(low, 2)), six(round(low * math.exp(2.0 * reach), 2)))
    draw.shuffle(names)
    channels = {name: _offer(name, window, centre, draw) for name in names}
    beams = tuple(
        Beam(energy, round(cost * math.exp(draw.gauss(0.0, 0.25)), 2), days, pileup)
        for energy, cost, days, pileup in _BEAMS
    )
    budget = round(draw.uniform(*family.budget_musd))
    cheapest = min(beam.cost_musd_per_fb for beam in beams)
    luminosity = round(draw.uniform(0.75, 1.1) * budget / cheapest)
    days = round(130 + draw.uniform(0.8, 1.2) * 2.6 * luminosity)
    candles = {}
    for detector in sorted({CHANNELS[name].detector for name in names}):
        for name, mass, events in _CANDLES[detector]:
            moved = round(mass * draw.uniform(0.8, 1.25), 4) if shifted else mass
            candles[name] = Candle(name, detector, moved, events)
    campaign = (
        f"Search for a narrow resonance between {window[0]:g} and {window[1]:g} GeV in {', '.join(names)}. "
        "There may be none."
    )
    return Task(
        campaign, difficulty, window, channels, beams, candles, float(budget), float(luminosity), float(days)
    )


def _offer(name: str, window: tuple[float, float], centre: float, draw: random.Random) -> ChannelTask:
    channel = CHANNELS[name]
    resolution = float(f"{channel.relative_resolution(centre):.3g}")
    bare = ChannelTask(name, resolution, window, 1.0, 1.0, channel.efficiency)
    suitable = physics.suitable_threshold(bare.fit_window_gev[0])
    rate = draw.uniform(300.0, 800.0)
    quoted = float(f"{suitable * math.exp(draw.uniform(-0.6, 0.8)):.3g}")
    hz = float(f"{physics.rate_hz(rate, suitable, quoted):.4g}")
    return replace(bare, trigger_gev=quoted, trigger_hz=hz)


def _nature(scenario: str, family: Family, tier: Tier, task: Task, draw: random.Random) -> Nature:
    is_null = draw.random() < tier.null_fraction
    if scenario != "mixed":
        is_null = scenario in ("null", "null_with_fluctuation", "trigger_bump")
    shifted = scenario == "law_shifted"
    bare = _apparatus(scenario, tier, task, draw, shifted)
    filled = _with_particles(bare, family, tier, task, draw, shifted, scenario == "two_peaks")
    nature = bare if is_null else filled  # equal work for both, so that the time reveals nothing
    if scenario == "trigger_bump" or (scenario == "mixed" and draw.random() < tier.feature_chance):
        nature = replace(nature, feature=_feature(nature, task, draw))
    if scenario == "null_with_fluctuation" or (
        scenario == "mixed" and is_null and draw.random() < tier.fluctuation_chance
    ):
        nature = replace(nature, fluctuation=_fluctuation(nature, task, draw))
    return nature


def _apparatus(scenario: str, tier: Tier, task: Task, draw: random.Random, shifted: bool) -> Nature:
    centre = math.sqrt(task.window_gev[0] * task.window_gev[1])
    detectors = sorted({offer.channel.detector for offer in task.channels.values()})
    backgrounds, shapes, efficiency = {}, {}, {}
    for name, offer in task.channels.items():
        channel = offer.channel
        at_8 = channel.density * (centre / 125.0) ** -channel.index * math.exp(draw.gauss(0.0, 0.4))
        gain = energy_gain(channel.background, centre, 8.0)
        second, third = (2.0, 1.0) if shifted else (1.0, 1.0)
        curve = (
            -channel.index * (draw.uniform(0.3, 1.5) if shifted else math.exp(draw.gauss(0.0, 0.1))),
            draw.gauss(0.0, second * tier.curvature[0] + (0.3 if shifted else 0.0)),
            draw.gauss(0.0, third * tier.curvature[1]),
        )
        backgrounds[name] = _prescaled(Background(at_8 / gain, centre, curve), task, offer)
        shapes[name] = Shapes((draw.uniform(2.6, 4.2), 2.0), (2.0, draw.uniform(2.6, 4.2)))
        efficiency[name] = channel.efficiency * math.exp(draw.gauss(0.0, 0.05))
    return Nature(
        scenario, (), "",
        scale={name: 1.0 + draw.gauss(0.0, tier.scale_error) for name in detectors},
        drift={name: draw.gauss(0.0, 1e-4) for name in detectors},
        resolution={name: math.exp(draw.gauss(0.0, tier.resolution_error)) for name in detectors},
        efficiency=efficiency, backgrounds=backgrounds, shapes=shapes,
    )  # fmt: skip


def _prescaled(background: Background, task: Task, offer: ChannelTask) -> Background:
    """Scale a background down to what an experiment would keep."""
    shape = background.density, background.pivot_gev, background.coefficients
    most = float(physics.smooth(offer.edges_gev, *shape).sum())
    cheapest = min(beam.cost_musd_per_fb for beam in task.beams)
    share = MAX_EVENTS / (most * task.budget_musd / cheapest)
    return replace(background, density=background.density * min(1.0, share))


def _with_particles(
    nature: Nature, family: Family, tier: Tier, task: Task, draw: random.Random, shifted: bool, two: bool
) -> Nature:
    low, high = (math.log(edge) for edge in task.window_gev)
    mass = math.exp(draw.uniform(low + 0.04 * (high - low), high - 0.04 * (high - low)))
    primary = draw.choice(sorted(task.channels))
    allowed = [spin for spin in family.spins if spin in CHANNELS[primary].spins]
    spin = draw.choice(allowed)
    width = mass * (draw.uniform(0.5, 2.5) * task.channels[primary].relative_resolution if shifted else 1e-4)
    production = draw.choice(("gg", "qq")) if shifted else family.production
    wanted = tier.expected_z * draw.uniform(0.9, 1.2)
    shares = {primary: 1.0}
    for name in sorted(task.channels):
        strong = draw.random() < 0.5
        share = draw.uniform(0.2, 0.6)
        if name != primary and strong and spin in CHANNELS[name].spins:
            shares[name] = share
    particle = Particle(mass, width, spin, "gg" if production == "gg" else "qq", {})
    rates = {name: _rate(nature, task, particle, name, share * wanted) for name, share in shares.items()}
    particles = [replace(particle, rates_fb=rates)]
    if two:
        other = mass + (0.3 if mass < math.exp((low + high) / 2) else -0.3) * (math.exp(high) - math.exp(low))
        second = replace(particle, mass_gev=other)
        particles.append(replace(second, rates_fb={primary: _rate(nature, task, second, primary, wanted)}))
    return replace(nature, particles=tuple(particles), primary=primary)


def _rate(nature: Nature, task: Task, particle: Particle, channel: str, wanted: float) -> float:
    """Return the rate at which half of the budget brings ``wanted`` sigma, with the best beam and cut."""
    probe = replace(nature, particles=(replace(particle, rates_fb={channel: 1.0}),))
    signal, background = sensitivity.best_yields(task, probe, task.channels[channel], 0.5)
    low, high = math.log(1e-6), math.log(1e9)
    for _ in range(30):
        middle = 0.5 * (low + high)
        if physics.asimov_significance(math.exp(middle) * signal, background) < wanted:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))


def _feature(nature: Nature, task: Task, draw: random.Random) -> Feature:
    """Draw a false bump of about six sigma that moves with the threshold."""
    offer, at, under = _place_of_bump(replace(nature, feature=None), task, draw, (1.05, 0.95), 0.5)
    strength, under = draw.uniform(5.0, 8.0), max(1.0, under * 0.3)
    threshold = physics.suitable_threshold(offer.fit_window_gev[0])
    return Feature(offer.name, at / threshold, min(2.0, strength / math.sqrt(under)))


def _fluctuation(nature: Nature, task: Task, draw: random.Random) -> Fluctuation:
    """Draw a fluctuation of about 3.5 sigma in a first run of a third of the budget."""
    offer, at, under = _place_of_bump(nature, task, draw, (1.02, 0.98), 0.3)
    return Fluctuation(offer.name, at, draw.uniform(3.2, 4.2) * math.sqrt(max(under, 0.5)) * 0.8)


def _place_of_bump(
    nature: Nature, task: Task, draw: random.Random, margins: tuple[float, float], share: float
) -> tuple[ChannelTask, float, float]:
    """Draw a channel and a mass; return them, and the background there at this share of the budget."""
    offer = task.channels[draw.choice(sorted(task.channels))]
    low, high = (math.log(edge * margin) for edge, margin in zip(task.window_gev, margins, strict=True))
    at = math.exp(draw.uniform(low, high))
    beam = min(task.beams, key=lambda beam: beam.cost_musd_per_fb)
    background = expected_background(nature, offer, sensitivity.ideal_exposure(task, offer, beam, share))
    middle = abs(offer.edges_gev[1:] / at - 1.0) < 1.5 * offer.relative_resolution
    return offer, at, float(background[middle].sum())
