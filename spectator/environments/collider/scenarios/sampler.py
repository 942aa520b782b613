"""Draws campaigns: first the task, apart from the truth, then what is true behind it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

from spectator.environments.collider.experiment import sensitivity
from spectator.environments.collider.experiment.nature import (
    Background,
    Feature,
    Fluctuation,
    Nature,
    Particle,
    Shapes,
    expected_background,
)
from spectator.environments.collider.experiment.task import (
    Beam,
    Candle,
    ChannelTask,
    Difficulty,
    Task,
    six,
)
from spectator.environments.collider.physics import peaks, trigger
from spectator.environments.collider.physics.channels import CHANNELS, Detector
from spectator.environments.collider.physics.scaling import energy_gain
from spectator.environments.collider.scenarios.families import FAMILIES, Family
from spectator.environments.collider.scenarios.open_data import OPEN_DATA, draw_open
from spectator.environments.collider.scenarios.tiers import TIERS, Tier
from spectator.environments.seeds import derive_seed

Scenario = Literal[
    "mixed", "higgs_like", "zprime", "graviton", "dark_photon", "dijet_resonance", "two_peaks", "law_shifted",
    "null", "null_with_fluctuation", "trigger_bump", "open_data_dimuon", "open_data_4l",
]  # fmt: skip
"""Scenarios; ``mixed`` draws family and truth by the tier, ``open_data`` ones are real collisions."""

MOST_EVENTS: Final = 2.0e5
"""Most background events of a channel in a campaign: beyond it no smooth function describes anything."""

SCENARIOS: Final[Sequence[str]] = get_args(Scenario)

_BEAMS: Final = (
    (7.0, 6.0, 10.0, 10.0),
    (8.0, 5.0, 9.0, 20.0),
    (13.0, 1.3, 2.6, 35.0),
    (14.0, 1.5, 2.4, 60.0),
)
"""Energy, MUSD and days for each fb^-1, pile-up: electricity of the LHC, and its best years."""

_CANDLES: Final[dict[Detector, tuple[tuple[str, float, float], ...]]] = {
    "muon": (("jpsi", 3.0969, 900.0), ("z_mumu", 91.188, 300.0)),
    "egamma": (("z_ee", 91.188, 250.0),),
    "jet": (("w_jets", 80.37, 60.0),),
}
"""Name, mass and clean events per fb^-1 of what calibrates each detector."""


def draw(scenario: str, difficulty: Difficulty, seed: int) -> tuple[Task, Nature]:
    """The campaign of a seed.

    Args:
        scenario: One of :data:`SCENARIOS`.
        difficulty: Tier.
        seed: The episode's seed.
    """
    if scenario in OPEN_DATA:
        return draw_open(scenario, difficulty, seed)
    public = random.Random(derive_seed(seed, "collider", "task"))
    hidden = random.Random(derive_seed(seed, "collider", "nature"))
    names = tuple(FAMILIES)
    drawn = public.choice(names)
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
    listed = ", ".join(names)
    campaign = (
        f"Search for a narrow resonance between {window[0]:g} and {window[1]:g} GeV in {listed}. "
        "There may be none."
    )
    return Task(
        campaign, difficulty, window, channels, beams, candles, float(budget), float(luminosity), float(days)
    )


def _offer(name: str, window: tuple[float, float], centre: float, draw: random.Random) -> ChannelTask:
    channel = CHANNELS[name]
    resolution = float(f"{channel.relative_resolution(centre):.3g}")
    bare = ChannelTask(name, resolution, window, 1.0, 1.0, channel.efficiency)
    suitable = trigger.suitable_threshold(bare.fit_window_gev[0])
    rate = draw.uniform(300.0, 800.0)
    quoted = float(f"{suitable * math.exp(draw.uniform(-0.6, 0.8)):.3g}")
    return replace(
        bare, trigger_gev=quoted, trigger_hz=float(f"{trigger.rate_hz(rate, suitable, quoted):.4g}")
    )


def _nature(scenario: str, family: Family, tier: Tier, task: Task, draw: random.Random) -> Nature:
    void = draw.random() < tier.null_fraction
    if scenario != "mixed":
        void = scenario in ("null", "null_with_fluctuation", "trigger_bump")
    shifted = scenario == "law_shifted"
    bare = _apparatus(scenario, tier, task, draw, shifted)
    filled = _with_particles(bare, family, tier, task, draw, shifted, scenario == "two_peaks")
    nature = bare if void else filled  # the same work for both, so that time tells nothing
    if scenario == "trigger_bump" or (scenario == "mixed" and draw.random() < tier.feature_chance):
        nature = replace(nature, feature=_feature(nature, task, draw))
    if scenario == "null_with_fluctuation" or (
        scenario == "mixed" and void and draw.random() < tier.fluctuation_chance
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
    """``background`` with no more events than an experiment would keep: a channel of jets is prescaled."""
    edges = offer.edges_gev
    most = float(peaks.smooth(edges, background.density, background.pivot_gev, background.coefficients).sum())
    cheapest = min(beam.cost_musd_per_fb for beam in task.beams)
    share = MOST_EVENTS / (most * task.budget_musd / cheapest)
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
    """Rate at which half of the budget brings ``wanted`` sigma in ``channel``, with the best beam and cut."""
    probe = replace(nature, particles=(replace(particle, rates_fb={channel: 1.0}),))
    signal, background = sensitivity.best_yields(task, probe, task.channels[channel], 0.5)
    low, high = math.log(1e-6), math.log(1e9)
    for _ in range(30):
        middle = 0.5 * (low + high)
        if peaks.asimov_significance(math.exp(middle) * signal, background) < wanted:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))


def _feature(nature: Nature, task: Task, draw: random.Random) -> Feature:
    """A bump of about six sigma at the threshold that suits the window; it moves with the threshold."""
    channel = draw.choice(sorted(task.channels))
    offer = task.channels[channel]
    low, high = task.window_gev
    at = math.exp(draw.uniform(math.log(low * 1.05), math.log(high * 0.95)))
    strength = draw.uniform(5.0, 8.0)
    threshold = trigger.suitable_threshold(offer.fit_window_gev[0])
    beam = min(task.beams, key=lambda beam: beam.cost_musd_per_fb)
    exposure = sensitivity.ideal_exposure(task, offer, beam, 0.5)
    background = expected_background(replace(nature, feature=None), offer, exposure)
    middle = abs(offer.edges_gev[1:] / at - 1.0) < 1.5 * offer.relative_resolution
    under = max(1.0, float(background[middle].sum()) * 0.3)
    return Feature(channel, at / threshold, min(2.0, strength / math.sqrt(under)))


def _fluctuation(nature: Nature, task: Task, draw: random.Random) -> Fluctuation:
    """About three and a half sigma in a first run of a third of the budget."""
    channel = draw.choice(sorted(task.channels))
    offer = task.channels[channel]
    low, high = task.window_gev
    at = math.exp(draw.uniform(math.log(low * 1.02), math.log(high * 0.98)))
    beam = min(task.beams, key=lambda beam: beam.cost_musd_per_fb)
    background = expected_background(nature, offer, sensitivity.ideal_exposure(task, offer, beam, 0.3))
    middle = abs(offer.edges_gev[1:] / at - 1.0) < 1.5 * offer.relative_resolution
    under = float(background[middle].sum())
    return Fluctuation(channel, at, draw.uniform(3.2, 4.2) * math.sqrt(max(under, 0.5)) * 0.8)
