"""The state of a campaign: resources, machine, what was recorded, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spectator.environments.collider.experiment.nature import Nature, pileup_broadening
from spectator.environments.collider.experiment.recording import Counts, Run
from spectator.environments.collider.experiment.task import Beam, Task, six
from spectator.environments.collider.physics.channels import Detector
from spectator.environments.collider.rules import HardRule
from spectator.events import Fact

UNCALIBRATED_SCALE: Final = 0.008
"""Error of a scale that nobody has measured."""

UNCALIBRATED_RESOLUTION: Final = 0.12
"""Relative error of a resolution that nobody has measured."""


@dataclass(slots=True)
class Resources:
    """What is left, and what there was."""

    budget_musd: float
    luminosity_fb: float
    days: float


@dataclass(frozen=True, slots=True)
class DetectorScale:
    """What is known of a detector's scale and resolution."""

    scale: float = 1.0
    scale_error: float = UNCALIBRATED_SCALE
    resolution: float = 1.0
    resolution_error: float = UNCALIBRATED_RESOLUTION
    candles: tuple[str, ...] = ()


@dataclass(slots=True)
class ChannelAnalysis:
    """How a channel is analysed.

    Args:
        channel: Its name.
        window_gev: Where a signal is searched.
        cut: Bin of the score from which events are kept.
        background: Function; ``auto`` lets the library choose among those that fit.
        natural_width: Width over mass that is searched for.
        relative_resolution: sigma / mass; set when the selection is frozen.
        closed_runs: Runs that were seen before this analysis was chosen.
        opened: Runs whose search sample is open.
        findings: Results on the opened data, by kind.
    """

    channel: str
    window_gev: tuple[float, float]
    cut: int = 0
    background: str = "auto"
    natural_width: float = 0.0
    relative_resolution: float = 0.0
    closed_runs: frozenset[int] = frozenset()
    opened: tuple[int, ...] = ()
    findings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Selection:
    """A set of channel analyses that is frozen as one."""

    number: int
    channels: dict[str, ChannelAnalysis] = field(default_factory=dict)
    frozen: bool = False
    combination: dict[str, Any] | None = None

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
        task: What is public.
        nature: What is not; only taking a run and grading look at it.
        seed: The episode's seed.
    """

    task: Task
    nature: Nature
    seed: int
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
        """Note a fact, with what is left."""
        left = {
            "budget_left_musd": six(self.left.budget_musd),
            "luminosity_left_fb": six(self.left.luminosity_fb),
            "days_left": six(self.left.days),
        }
        self.facts.append(Fact(f"collider.{event}", {**left, **data}))

    def note(self, code: str, message: str) -> None:
        """Note that a soft rule was broken."""
        self.soft.append(code)
        self.add_fact("rule_broken", code=code, message=message)

    def scale_of(self, channel: str) -> DetectorScale:
        """What is known of the detector that measures ``channel``."""
        return self.scales.get(self.task.channels[channel].channel.detector, DetectorScale())

    def analysis(self, channel: str) -> ChannelAnalysis:
        """The analysis of a channel in the present selection.

        Raises:
            HardRule: There is none.
        """
        if channel not in self.task.channels:
            offered = ", ".join(self.task.channels)
            raise HardRule("channel_mismatch", f"No channel {channel[:40]!r}; on offer: {offered}.")
        found = self.selection.channels.get(channel)
        if found is None:
            raise HardRule("channel_mismatch", f"{channel} is not selected; select_channel comes first.")
        return found

    def opened(self, channel: str) -> ChannelAnalysis:
        """The analysis of a channel whose search sample is open.

        Raises:
            HardRule: It is not.
        """
        analysis = self.analysis(channel)
        if not analysis.opened:
            raise HardRule("missing_prerequisite", f"{channel} is not unblinded in this selection.")
        return analysis

    def spectrum(self, analysis: ChannelAnalysis, runs: tuple[int, ...] | None = None) -> Counts:
        """Selected search events by mass bin, in the opened runs or in those of them named."""
        numbers = analysis.opened if runs is None else runs
        total = np.zeros(len(self.task.channels[analysis.channel].edges_gev) - 1, dtype=np.int64)
        for number in numbers:
            total += self.runs[number - 1].data[analysis.channel].search[:, analysis.cut :].sum(axis=1)
        return total

    def tuning(self, analysis: ChannelAnalysis) -> Counts:
        """Selected tuning events by mass bin, in all runs."""
        total = np.zeros(len(self.task.channels[analysis.channel].edges_gev) - 1, dtype=np.int64)
        for run in self.runs:
            if analysis.channel in run.data:
                total += run.data[analysis.channel].tuning[:, analysis.cut :].sum(axis=1)
        return total

    def expected_resolution(self, channel: str) -> float:
        """sigma / mass as far as it is known: nominal, calibrated, and broadened by the runs' pile-up."""
        runs = [run for run in self.runs if channel in run.data]
        total = sum(run.luminosity_fb for run in runs)
        pileup = sum(run.luminosity_fb * run.beam.pileup for run in runs) / total if total else 35.0
        nominal = self.task.channels[channel].relative_resolution
        return six(nominal * self.scale_of(channel).resolution * pileup_broadening(pileup))
