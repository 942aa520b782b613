"""The experiment: runs, which are drawn once and never change, and the state of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import nature as natures
from spectator.environments.collider import physics
from spectator.environments.collider.looks import Look
from spectator.environments.collider.nature import Exposure, Nature, Recorded, pileup_broadening
from spectator.environments.collider.physics import Detector
from spectator.environments.collider.task import Beam, Candle, ChannelTask, HardRule, Task, six
from spectator.environments.world import derive_seed
from spectator.events import Fact

Counts = NDArray[np.int64]

CANDLE_BINS = 48
CANDLE_SIGMA = 6.0
"""Half of a candle's histogram, in nominal resolutions."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One channel of one run, as recorded; all counts are by mass bin and score bin.

    Args:
        tuning: Events open for tuning.
        sidebands: Events reserved for the search, beside the task's window; 0 inside it.
        box: Events reserved for the search inside the task's window; only :meth:`Laboratory.search`
            reads them.
        signal_share: Chance that an event of each bin is signal; its angle is drawn with it.
        signal_angles: Shares of the bins of the decay angle among signals.
    """

    tuning: Counts
    sidebands: Counts
    box: Counts
    signal_share: NDArray[np.float64]
    signal_angles: NDArray[np.float64]

    @property
    def visible(self) -> int:
        """Number of events outside the box."""
        return int(self.tuning.sum() + self.sidebands.sum())


def dataset(
    offer: ChannelTask,
    tuning: Counts,
    search: Counts,
    signal_share: NDArray[np.float64],
    signal_angles: NDArray[np.float64],
) -> Dataset:
    """Return a dataset with its search sample split at the task's window."""
    inside = offer.blinded[:, None]
    parts = tuning, np.where(inside, 0, search), np.where(inside, search, 0)
    for counts in parts:
        counts.setflags(write=False)
    return Dataset(*parts, signal_share, signal_angles)


@dataclass(frozen=True)
class Plan:
    """A planned run.

    Args:
        number: 1, 2, ...
        tuning_fraction: Share of its events that is open before unblinding.
        thresholds_gev: Trigger threshold, by channel; a channel without one has no data.
        live_fraction: Share of triggered events that is read out.
    """

    number: int
    beam: Beam
    luminosity_fb: float
    tuning_fraction: float
    thresholds_gev: Mapping[str, float]
    live_fraction: float


@dataclass(frozen=True)
class Run(Plan):
    """A recorded run: datasets by channel, and histograms of the known resonances by name."""

    data: Mapping[str, Dataset]
    candles: Mapping[str, Counts]

    @property
    def name(self) -> str:
        """Its id."""
        return f"run-{self.number}"


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of one named part of an episode."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *names)))


def exposure_of(plan: Plan, channel: str) -> Exposure:
    """Return how ``channel`` is exposed in a run."""
    return Exposure(
        plan.beam,
        plan.luminosity_fb,
        plan.thresholds_gev[channel],
        plan.live_fraction,
        first_run=plan.number == 1,
    )


def collect(task: Task, nature: Nature, plan: Plan, seed: int, before: Sequence[Run] = ()) -> Run:
    """Take a run: draw Poisson counts of every channel in the menu and of the candles.

    Args:
        nature: The truth; with real data the run is a random part of the events not yet recorded.
    """
    if nature.recorded is not None:
        return _reveal(task, nature.recorded, plan, seed, before)
    data = {
        name: _record(nature, task.channels[name], plan, generator(seed, "events", plan.number, name))
        for name in plan.thresholds_gev
    }
    candles = {
        candle.name: _candle(task, nature, candle, plan, generator(seed, "candle", plan.number, candle.name))
        for candle in task.candles.values()
    }
    return Run(**vars(plan), data=data, candles=candles)


def _reveal(task: Task, recorded: Recorded, plan: Plan, seed: int, before: Sequence[Run]) -> Run:
    """Take the recorded events of the next stretch of luminosity.

    Each event has a place in the luminosity on offer and a number that puts it into the tuning or the
    search sample. Both are drawn once, so no event depends on which others were taken before.
    """
    data = {}
    for name in plan.thresholds_gev:
        random = generator(seed, "real events", name)
        offered = random.binomial(
            recorded.counts, min(1.0, task.luminosity_fb / recorded.luminosity_fb)
        ).astype(np.int64)
        bins = np.repeat(np.arange(len(offered)), offered)
        place, mark = random.random((2, len(bins)))
        start = sum(run.luminosity_fb for run in before if name in run.data)
        end = start + plan.luminosity_fb
        taken = (place >= start / task.luminosity_fb) & (place < end / task.luminosity_fb)
        samples = []
        for chosen in (taken & (mark < plan.tuning_fraction), taken & (mark >= plan.tuning_fraction)):
            counts = np.zeros((len(offered), physics.SCORE_BINS), dtype=np.int64)
            counts[:, -1] = np.bincount(bins[chosen], minlength=len(offered))
            samples.append(counts)
        tuning, search = samples
        data[name] = dataset(
            task.channels[name], tuning, search, np.zeros(search.shape), physics.signal_angles(0, name)
        )
    return Run(**vars(plan), data=data, candles={})


def _record(nature: Nature, offer: ChannelTask, plan: Plan, random: np.random.Generator) -> Dataset:
    exposure, shapes = exposure_of(plan, offer.name), nature.shapes[offer.name]
    signal = natures.expected_signal(nature, offer, exposure)
    background = natures.expected_background(nature, offer, exposure)
    expected = np.outer(background, physics.score_shares(*shapes.background))
    signals = np.outer(signal, physics.score_shares(*shapes.signal))
    expected += signals
    tuning = random.poisson(plan.tuning_fraction * expected)
    search = random.poisson((1.0 - plan.tuning_fraction) * expected)
    spin = nature.particles[0].spin if nature.particles else 0
    share = signals / np.maximum(expected, 1e-300)
    return dataset(offer, tuning, search, share, physics.signal_angles(spin, offer.name))


def candle_edges(task: Task, candle: Candle) -> NDArray[np.float64]:
    """Return the edges of a candle's histogram."""
    half = CANDLE_SIGMA * candle_resolution(task, candle)
    return np.asarray(candle.mass_gev * np.linspace(1.0 - half, 1.0 + half, CANDLE_BINS + 1))


def candle_resolution(task: Task, candle: Candle) -> float:
    """Return the nominal sigma / mass of a candle's detector at its mass."""
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
    expected = events * (physics.peak(edges, mass, sigma) + 0.3 / CANDLE_BINS)
    counts = random.poisson(expected)
    counts.setflags(write=False)
    return counts


UNCALIBRATED_SCALE: Final = 0.008
"""Error of an uncalibrated scale."""

UNCALIBRATED_RESOLUTION: Final = 0.12
"""Relative error of an uncalibrated resolution."""


@dataclass(slots=True)
class Resources:
    """Remaining money, luminosity and days."""

    budget_musd: float
    luminosity_fb: float
    days: float


@dataclass(frozen=True, slots=True)
class DetectorScale:
    """Measured scale and resolution of a detector."""

    scale: float = 1.0
    scale_error: float = UNCALIBRATED_SCALE
    resolution: float = 1.0
    resolution_error: float = UNCALIBRATED_RESOLUTION
    candles: tuple[str, ...] = ()


@dataclass(slots=True)
class ChannelAnalysis:
    """How a channel is analysed.

    Args:
        cut: Bin of the score from which events are kept.
        background: Background function; ``auto`` lets the library choose one that fits.
        natural_width: Natural width over mass that is searched for.
        relative_resolution: sigma / mass; set when the selection is frozen.
        fit_bins: First of the bins that are fitted, and the one after the last.
        closed_runs: Runs that were opened before this analysis was selected.
        opened: Runs whose search sample is open.
        look: The look that opened them.
        findings: Results on the opened data, by kind.
    """

    channel: str
    window_gev: tuple[float, float]
    fit_bins: tuple[int, int]
    cut: int = 0
    background: str = "auto"
    natural_width: float = 0.0
    relative_resolution: float = 0.0
    closed_runs: frozenset[int] = frozenset()
    opened: tuple[int, ...] = ()
    look: Look | None = None
    findings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Selection:
    """A set of channel analyses that are frozen together."""

    number: int
    channels: dict[str, ChannelAnalysis] = field(default_factory=dict)
    frozen: bool = False

    @property
    def name(self) -> str:
        """Its id."""
        return f"sel-{self.number}"

    @property
    def seen(self) -> list[str]:
        """Channels with open data."""
        return [name for name, analysis in self.channels.items() if analysis.opened]


@dataclass(slots=True)
class Laboratory:
    """One campaign.

    Args:
        nature: The hidden truth; only taking a run and grading read it.
        curves: Whether limits come with a curve over the searched window.
    """

    task: Task
    nature: Nature
    seed: int
    curves: bool = False
    left: Resources = field(init=False)
    beam: Beam | None = None
    thresholds_gev: dict[str, float] = field(default_factory=dict)
    live_fraction: float = 1.0
    planned: tuple[float, float] | None = None
    runs: list[Run] = field(default_factory=list)
    scales: dict[Detector, DetectorScale] = field(default_factory=dict)
    fitted_candles: dict[str, int] = field(default_factory=dict)
    selection: Selection = field(default_factory=lambda: Selection(1))
    previous: list[Selection] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    soft: list[str] = field(default_factory=list)
    hard: int = 0
    claim: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    facts: list[Fact] = field(default_factory=list)

    def __post_init__(self) -> None:
        task = self.task
        self.left = Resources(task.budget_musd, task.luminosity_fb, task.days)

    def add_fact(self, event: str, /, **data: Any) -> None:
        """Add a fact, with the remaining resources."""
        left = {
            "budget_left_musd": six(self.left.budget_musd),
            "luminosity_left_fb": six(self.left.luminosity_fb),
            "days_left": six(self.left.days),
        }
        self.facts.append(Fact(f"collider.{event}", {**left, **data}))

    def note(self, code: str, message: str) -> None:
        """Record that a soft rule was broken."""
        self.soft.append(code)
        self.add_fact("rule_broken", code=code, message=message)

    def scale_of(self, channel: str) -> DetectorScale:
        """Return the measured scale of the detector of ``channel``."""
        return self.scales.get(self.task.channels[channel].channel.detector, DetectorScale())

    def analysis(self, channel: str) -> ChannelAnalysis:
        """Return the analysis of a channel in the current selection.

        Raises:
            HardRule: The channel is unknown or not selected.
        """
        if channel not in self.task.channels:
            offered = ", ".join(self.task.channels)
            raise HardRule("channel_mismatch", f"No channel {channel[:40]!r}; on offer: {offered}.")
        found = self.selection.channels.get(channel)
        if found is None:
            raise HardRule("channel_mismatch", f"{channel} is not selected; select_channel comes first.")
        return found

    def opened(self, channel: str) -> ChannelAnalysis:
        """Return the analysis of a channel whose search sample is open.

        Raises:
            HardRule: The channel is not selected or not unblinded.
        """
        analysis = self.analysis(channel)
        if not analysis.opened:
            raise HardRule("missing_prerequisite", f"{channel} is not unblinded in this selection.")
        return analysis

    def search(self, analysis: ChannelAnalysis, number: int) -> Counts:
        """Return the selected search events of an opened run, by mass bin and score bin.

        This is the only reader of the events in the box.

        Raises:
            RuntimeError: The run is not open in this analysis.
        """
        if number not in analysis.opened:
            raise RuntimeError(f"run-{number} is not open in {analysis.channel}; unblind comes first")
        data = self.runs[number - 1].data[analysis.channel]
        return np.asarray(data.sidebands[:, analysis.cut :] + data.box[:, analysis.cut :])

    def spectrum(self, analysis: ChannelAnalysis, runs: tuple[int, ...] | None = None) -> Counts:
        """Return selected search events by mass bin, in all opened runs or those of them given."""
        numbers = analysis.opened if runs is None else runs
        return self._by_mass(analysis, [self.search(analysis, number) for number in numbers])

    def sidebands(self, analysis: ChannelAnalysis) -> Counts:
        """Return selected search events beside the task's window, in runs that may still be opened."""
        return self._by_mass(
            analysis,
            [
                self.runs[number - 1].data[analysis.channel].sidebands[:, analysis.cut :]
                for number in self.usable(analysis)
            ],
        )

    def usable(self, analysis: ChannelAnalysis) -> tuple[int, ...]:
        """Return the recorded runs whose search sample this analysis may open."""
        return tuple(
            run.number
            for run in self.runs
            if analysis.channel in run.data and run.number not in analysis.closed_runs
        )

    def _by_mass(self, analysis: ChannelAnalysis, samples: Sequence[Counts]) -> Counts:
        first, last = analysis.fit_bins
        total = np.zeros(last - first, dtype=np.int64)
        for counts in samples:
            total += counts.sum(axis=1)[first:last]
        return total

    def edges(self, analysis: ChannelAnalysis) -> NDArray[np.float64]:
        """Return the edges of the bins that are fitted."""
        first, last = analysis.fit_bins
        return self.task.channels[analysis.channel].edges_gev[first : last + 1]

    def angles(self, analysis: ChannelAnalysis, number: int) -> Counts:
        """Return selected search events of an opened run by fitted mass bin and decay-angle bin.

        The angles are drawn from a stream seeded by run, channel and cut, so that the same request gives the
        same angles.
        """
        name, cut = analysis.channel, analysis.cut
        data, selected = self.runs[number - 1].data[name], self.search(analysis, number)
        counts = selected.sum(axis=1)
        share = (selected * data.signal_share[:, cut:]).sum(axis=1) / np.maximum(counts, 1)
        chances = np.outer(share, data.signal_angles)
        chances += np.outer(1.0 - share, physics.background_angles(name))
        chances /= chances.sum(axis=1, keepdims=True)
        random = generator(self.seed, "angles", number, name, cut)
        drawn = np.asarray(random.multinomial(counts, chances), dtype=np.int64)
        return drawn[slice(*analysis.fit_bins)]

    def tuning(self, analysis: ChannelAnalysis) -> Counts:
        """Return selected tuning events by mass bin, in all runs."""
        runs = [run.data[analysis.channel] for run in self.runs if analysis.channel in run.data]
        return self._by_mass(analysis, [data.tuning[:, analysis.cut :] for data in runs])

    def expected_resolution(self, channel: str) -> float:
        """Return the known sigma / mass: nominal, calibrated, broadened by pile-up."""
        runs = [run for run in self.runs if channel in run.data]
        total = sum(run.luminosity_fb for run in runs)
        pileup = sum(run.luminosity_fb * run.beam.pileup for run in runs) / total if total else 35.0
        nominal = self.task.channels[channel].relative_resolution
        return six(nominal * self.scale_of(channel).resolution * pileup_broadening(pileup))
