"""The collider's action, options, observation and public state, as they travel."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from spectator.environments.base import ObservationModel, OptionsModel, StateModel
from spectator.environments.collider.experiment.task import Difficulty
from spectator.environments.collider.scenarios.sampler import Scenario

AGENT: Final = "physicist"
"""The one actor."""


class ColliderAction(BaseModel):
    """One action of the physicist."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tool: str = Field(max_length=64, description="Name of an action among `legal_actions`")
    arguments: dict[str, Any] | None = Field(default=None, description="Its arguments")
    justification: str | None = Field(default=None, max_length=4000, description="Why; kept, and not judged")
    confidence: float | None = Field(default=None, ge=0, le=1, description="How sure; kept, and not judged")


class ColliderOptions(OptionsModel):
    """Options of a campaign."""

    scenario: Scenario = Field(
        default="mixed", description="What is behind the campaign; `mixed` draws it, a null among the others"
    )
    difficulty: Difficulty = Field(default="medium", description="Tier, in sigma; see docs/collider-skill.md")


class ColliderObservation(ObservationModel):
    """What the physicist sees. GeV, fb^-1, MUSD, days; rates in fb."""

    step_index: int = Field(ge=0, description="Actions carried out so far")
    task: dict[str, Any] = Field(description="What is searched for, and with what")
    costs: dict[str, list[float]] = Field(
        description="MUSD and days of each action, beside a run's luminosity"
    )
    resource_usage: dict[str, float] = Field(
        description="budget_remaining_musd, luminosity_remaining_fb, days_remaining"
    )
    selected_beam_energy: float | None = Field(description="Collision energy, TeV")
    trigger: dict[str, Any] = Field(
        description="thresholds_gev by channel; live_fraction, what the readout keeps"
    )
    planned_fb: float | None = Field(description="Luminosity of the run that is planned")
    runs: list[dict[str, Any]] = Field(description="What was recorded")
    calibration: dict[str, Any] = Field(
        description="Scale (measured over true) and resolution of each detector"
    )
    selection: dict[str, Any] = Field(description="The present selection, channel by channel")
    findings: dict[str, Any] = Field(description="Newest result of each kind on the opened data, by channel")
    selected_channel: str | None = Field(description="The first channel of the selection")
    candidate_masses_gev: list[float] = Field(description="Excesses of at least 3 sigma local, highest first")
    cumulative_significance: float = Field(description="Largest global significance that was estimated")
    rule_violations: list[str] = Field(description="Rules that the last action broke")
    last_result: dict[str, Any] | None = Field(description="What the last action showed")
    verdict: dict[str, Any] | None = Field(description="The grades; null before the end")


class ColliderState(StateModel):
    """Public state of a campaign; the verdicts are null until it is graded."""

    scenario_name: str | None = Field(description="Told at the end")
    difficulty: str
    step_index: int
    actor: str | None
    done: bool
    resource_usage: dict[str, float]
    runs: int
    selection_id: str
    candidate_masses_gev: list[float]
    cumulative_significance: float
    cumulative_reward: float
    terminal_reward: float | None
    discovered: bool | None
    correct_mass: bool | None
    correct_channel: bool | None
    correct_spin: bool | None
