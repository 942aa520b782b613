"""What a run records: drawn once, when the run is taken, and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.experiment import nature as natures
from spectator.environments.collider.experiment.nature import Exposure, Nature, Recorded
from spectator.environments.collider.experiment.task import Beam, Candle, ChannelTask, Task
from spectator.environments.collider.physics import decays, peaks
from spectator.environments.seeds import derive_seed

Counts = NDArray[np.int64]

CANDLE_BINS = 48
CANDLE_SIGMA = 6.0
"""Half of a candle's histogram, in nominal resolutions."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One channel of one run, as recorded.

    Args:
        tuning: Events by mass bin and score bin that are open for tuning.
        search: The same, kept for the search.
        signal_share: Chance of an event of each bin to be a signal: what its angle was drawn by.
        signal_angles: Shares of the bins of the decay angle among signals.
    """

    tuning: Counts
    search: Counts
    signal_share: NDArray[np.float64]
    signal_angles: NDArray[np.float64]

    @property
    def events(self) -> int:
        """All of them."""
        return int(self.tuning.sum() + self.search.sum())


@dataclass(frozen=True)
class Run:
    """A run as it was taken.

    Args:
        number: 1, 2, ...
        beam: Its beam.
        luminosity_fb: What was delivered.
        tuning_fraction: Share of its events that is open from the start.
        thresholds_gev: Trigger threshold, by channel; a channel without one has no data.
        live_fraction: Share that the readout took.
        data: Datasets, by channel.
        candles: Histograms of the known resonances, by name.
    """

    number: int
    beam: Beam
    luminosity_fb: float
    tuning_fraction: float
    thresholds_gev: Mapping[str, float]
    live_fraction: float
    data: Mapping[str, Dataset]
    candles: Mapping[str, Counts]

    @property
    def name(self) -> str:
        """Its id."""
        return f"run-{self.number}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be taken: see :class:`Run`."""

    number: int
    beam: Beam
    luminosity_fb: float
    tuning_fraction: float
    thresholds_gev: Mapping[str, float]
    live_fraction: float


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """The generator of one named part of an episode."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *names)))


def exposure_of(plan: Plan | Run, channel: str) -> Exposure:
    """How ``channel`` is exposed in a run."""
    return Exposure(
        plan.beam,
        plan.luminosity_fb,
        plan.thresholds_gev[channel],
        plan.live_fraction,
        first_run=plan.number == 1,
    )


def collect(task: Task, nature: Nature, plan: Plan, seed: int, before: Sequence[Run] = ()) -> Run:
    """Take a run: Poisson counts in every bin of every channel of the menu, and the known resonances.

    Args:
        task: The campaign.
        nature: What is true; with real data the run is a random part of what no run before has.
        plan: What is to be taken.
        seed: The episode's seed.
        before: Runs before this one.
    """
    if nature.recorded is not None:
        return _reveal(nature.recorded, plan, seed, before)
    data = {
        name: _record(nature, task.channels[name], plan, generator(seed, "events", plan.number, name))
        for name in plan.thresholds_gev
    }
    candles = {
        candle.name: _candle(task, nature, candle, plan, generator(seed, "candle", plan.number, candle.name))
        for candle in task.candles.values()
    }
    return Run(
        plan.number, plan.beam, plan.luminosity_fb, plan.tuning_fraction, dict(plan.thresholds_gev),
        plan.live_fraction, data, candles,
    )  # fmt: skip


def _reveal(recorded: Recorded, plan: Plan, seed: int, before: Sequence[Run]) -> Run:
    random = generator(seed, "real events", plan.number)
    data = {}
    for name in plan.thresholds_gev:
        taken = [run for run in before if name in run.data]
        left = recorded.counts - sum(
            (run.data[name].tuning + run.data[name].search).sum(axis=1) for run in taken
        )  # fmt: skip
        still_fb = recorded.luminosity_fb - sum(run.luminosity_fb for run in taken)
        counts = random.binomial(left, min(1.0, plan.luminosity_fb / still_fb))
        tuning = np.zeros((len(counts), peaks.SCORE_BINS), dtype=np.int64)
        search = tuning.copy()
        tuning[:, -1] = random.binomial(counts, plan.tuning_fraction)
        search[:, -1] = counts - tuning[:, -1]
        for each in (tuning, search):
            each.setflags(write=False)
        data[name] = Dataset(tuning, search, np.zeros(search.shape), decays.signal_angles(0, name))
    return Run(
        plan.number, plan.beam, plan.luminosity_fb, plan.tuning_fraction, dict(plan.thresholds_gev),
        plan.live_fraction, data, {},
    )  # fmt: skip


def _record(nature: Nature, offer: ChannelTask, plan: Plan, random: np.random.Generator) -> Dataset:
    exposure, shapes = exposure_of(plan, offer.name), nature.shapes[offer.name]
    signal = natures.expected_signal(nature, offer, exposure)
    background = natures.expected_background(nature, offer, exposure)
    expected = np.outer(background, peaks.score_shares(*shapes.background))
    signals = np.outer(signal, peaks.score_shares(*shapes.signal))
    expected += signals
    tuning = random.poisson(plan.tuning_fraction * expected)
    search = random.poisson((1.0 - plan.tuning_fraction) * expected)
    for counts in (tuning, search):
        counts.setflags(write=False)
    spin = nature.particles[0].spin if nature.particles else 0
    share = signals / np.maximum(expected, 1e-300)
    return Dataset(tuning, search, share, decays.signal_angles(spin, offer.name))


def candle_edges(task: Task, candle: Candle) -> NDArray[np.float64]:
    """Edges of a candle's histogram."""
    half = CANDLE_SIGMA * candle_resolution(task, candle)
    return np.asarray(candle.mass_gev * np.linspace(1.0 - half, 1.0 + half, CANDLE_BINS + 1))


def candle_resolution(task: Task, candle: Candle) -> float:
    """Nominal sigma / mass of what measures it, at its mass."""
    return next(
        offer.channel.relative_resolution(candle.mass_gev)
        for offer in task.channels.values()
        if offer.channel.detector == candle.detector
    )


def _candle(task: Task, nature: Nature, candle: Candle, plan: Plan, random: np.random.Generator) -> Counts:
    edges = candle_edges(task, candle)
    sigma = candle.mass_gev * candle_resolution(task, candle) * nature.resolution[candle.detector]
    sigma *= natures.pileup_broadening(plan.beam.pileup)
    mass = candle.mass_gev * nature.scale_at(candle.detector, candle.mass_gev)
    events = candle.events_per_fb * plan.luminosity_fb
    expected = events * (peaks.peak(edges, mass, sigma) + 0.3 / CANDLE_BINS)
    counts = random.poisson(expected)
    counts.setflags(write=False)
    return counts


def angles(run: Run, channel: str, cut: int, seed: int) -> Counts:
    """Selected search events of a run by mass bin and bin of the decay angle.

    The angle of each event belongs to the record; it is drawn by what was recorded from a stream of the run,
    the channel and the cut, so asking again shows the same.
    """
    dataset = run.data[channel]
    selected = dataset.search[:, cut:]
    counts = selected.sum(axis=1)
    share = (selected * dataset.signal_share[:, cut:]).sum(axis=1) / np.maximum(counts, 1)
    chances = np.outer(share, dataset.signal_angles)
    chances += np.outer(1.0 - share, decays.background_angles(channel))
    chances /= chances.sum(axis=1, keepdims=True)
    random = generator(seed, "angles", run.number, channel, cut)
    return np.asarray(random.multinomial(counts, chances), dtype=np.int64)
