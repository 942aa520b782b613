"""Actions, their costs and schemas, and the models of options and observations."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from spectator.environments.collider.scenarios import Scenario
from spectator.environments.collider.task import Difficulty, six
from spectator.environments.contract import ObservationModel, OptionsModel, StateModel

BACKGROUND_FUNCTIONS: Final = ("exponential", "power_law", "quadratic", "cubic", "quartic", "dijet")
"""Background functions; names of the analysis library."""

CANDLE_EVENTS: Final = 30
"""Fewer events of a known resonance cannot be fitted."""

TUNING_EVENTS: Final = 10
"""Fewer events of a tuning sample cannot be fitted."""


class Arguments(BaseModel):
    """Base of every action's arguments: nothing unknown, no infinity."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NoArguments(Arguments):
    """Nothing to choose."""


class ConfigureBeam(Arguments):
    """Set the collision energy; another one than now takes weeks to commission."""

    sqrt_s_tev: float = Field(description="One of the energies on offer, TeV")


class SetTrigger(Arguments):
    """Set the trigger menu: one threshold for each channel that is to be recorded, others are not."""

    thresholds_gev: dict[str, float] = Field(min_length=1, description="Threshold of each channel, GeV")


class AllocateLuminosity(Arguments):
    """Plan the next run."""

    luminosity_fb: float = Field(gt=0, le=10_000, description="Integrated luminosity, fb^-1")
    tuning_fraction: float = Field(
        default=0.1, ge=0.02, le=0.5, description="Share of the events that is open before unblinding"
    )


class CalibrateDetector(Arguments):
    """Fit a known resonance in all that was recorded."""

    candle: str = Field(max_length=40, description="Name of a known resonance of the task")


class SelectChannel(Arguments):
    """Set up the analysis of a channel."""

    channel: str = Field(max_length=40)


class OptimiseSelection(Arguments):
    """Set the cut on the selection score and see what it keeps, beside what other cuts would."""

    channel: str = Field(max_length=40)
    cut: float = Field(ge=0.0, le=0.875, description="Keep scores of at least this; steps of 0.125")


class BuildInvariantMass(Arguments):
    """Set the search window and see the blinded spectrum."""

    channel: str = Field(max_length=40)
    window_gev: list[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="[low, high] inside the task's; left out: all of it",
    )
    fit_window_gev: list[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="[low, high] of the fitted masses, around the window; left out: all that is recorded",
    )
    natural_width: float = Field(
        default=0.0, ge=0.0, le=0.2, description="Natural width over mass that is searched for; 0 for narrow"
    )


class SubtractBackground(Arguments):
    """Choose the background function and see how it fits tuning sample and sidebands."""

    channel: str = Field(max_length=40)
    function: Literal[BACKGROUND_FUNCTIONS]  # type: ignore[valid-type]  # a tuple of literals


class InChannel(Arguments):
    """Which channel."""

    channel: str = Field(max_length=40)


class AtMass(InChannel):
    """Which channel, and at which mass."""

    mass_gev: float = Field(gt=0, le=100_000, description="Mass as measured, GeV")


class FitResonance(AtMass):
    """Fit a peak near a mass."""

    model: Literal["gauss", "voigt", "crystal_ball"] = Field(default="gauss", description="Shape of the peak")
    free_width: bool = Field(
        default=False, description="Let the width float instead of holding it near nominal"
    )


class ReviewTheory(Arguments):
    """Ask what theory says of a mass."""

    mass_gev: float = Field(gt=0, le=100_000)


class SubmitClaim(Arguments):
    """Claim a resonance; ends the campaign."""

    kind: Literal["discovery", "evidence"] = Field(
        description="discovery needs 5 sigma global, evidence 3; as estimated on unblinded data"
    )
    channel: str = Field(max_length=40, description="Channel in which it is seen best")
    mass_gev: float = Field(gt=0, le=100_000, description="Mass, corrected for the scale")
    mass_error_gev: float = Field(gt=0, le=100_000, description="68 % error, statistical and scale")
    z_local: float = Field(ge=0, le=100_000)
    z_global: float = Field(ge=0, le=100_000)
    probability: float = Field(default=0.99, ge=0, le=1, description="Chance that it is real")
    channel_probabilities: dict[str, float] = Field(
        default_factory=dict,
        description="Chance of each channel to be the best one; left out: all on `channel`",
    )
    spin_probabilities: dict[str, float] = Field(
        default_factory=dict, description="Chance of each spin, '0', '1', '2'; left out: even"
    )
    other_masses_gev: list[float] = Field(
        default_factory=list, max_length=12, description="Further resonances that are claimed beside it"
    )


class ConcludeNull(Arguments):
    """Conclude that there is nothing to claim; ends the campaign."""

    probability: float = Field(
        default=0.1, ge=0, le=1, description="Chance that there is a resonance after all"
    )


TOOLS: Final[Mapping[str, type[Arguments]]] = {
    "configure_beam": ConfigureBeam,
    "set_trigger": SetTrigger,
    "allocate_luminosity": AllocateLuminosity,
    "collect_collisions": NoArguments,
    "calibrate_detector": CalibrateDetector,
    "select_channel": SelectChannel,
    "optimise_selection": OptimiseSelection,
    "build_invariant_mass": BuildInvariantMass,
    "subtract_background": SubtractBackground,
    "freeze_selection": NoArguments,
    "unblind": InChannel,
    "scan_bump": InChannel,
    "estimate_significance": AtMass,
    "fit_resonance": FitResonance,
    "measure_angular": AtMass,
    "cross_check": AtMass,
    "request_theory_review": ReviewTheory,
    "set_limit": AtMass,
    "submit_discovery_claim": SubmitClaim,
    "conclude_null": ConcludeNull,
}
"""Arguments of each action, by name, in the order of a campaign."""

SUMMARIES: Final[Mapping[str, str]] = {
    "collect_collisions": "Take the planned run: its events are recorded once and never change.",
    "freeze_selection": "Freeze channels, cuts, windows and background functions: unblinding needs it.",
    "unblind": "Open the search sample of a channel, in all runs that this selection may still use.",
    "scan_bump": "Scan the unblinded spectrum for local excesses.",
    "estimate_significance": "Local and global significance of a mass; window, backgrounds and looks count.",
    "measure_angular": "Compare the decay angle in the peak with the spins that are possible.",
    "cross_check": "Compare the rate of an excess in runs of lower thresholds with that in the others.",
    "set_limit": "Upper limit on a signal at a mass, 95 % CL.",
}
"""Descriptions of actions whose arguments have none of their own."""

COSTS: Final[Mapping[str, tuple[float, float]]] = {
    "configure_beam": (0.5, 1.0),
    "set_trigger": (0.1, 1.0),
    "allocate_luminosity": (0.0, 0.0),
    "collect_collisions": (0.0, 0.0),
    "calibrate_detector": (1.0, 4.0),
    "select_channel": (2.5, 8.0),
    "optimise_selection": (0.3, 3.0),
    "build_invariant_mass": (0.1, 1.0),
    "subtract_background": (0.3, 2.0),
    "freeze_selection": (0.0, 1.0),
    "unblind": (0.5, 3.0),
    "scan_bump": (0.2, 1.0),
    "estimate_significance": (0.2, 1.0),
    "fit_resonance": (0.2, 1.0),
    "measure_angular": (0.4, 3.0),
    "cross_check": (0.4, 3.0),
    "request_theory_review": (0.1, 2.0),
    "set_limit": (0.2, 2.0),
    "submit_discovery_claim": (0.0, 0.0),
    "conclude_null": (0.0, 0.0),
}
"""MUSD and days of each action, without the luminosity of a run: people and computing; values chosen by
us."""


def schemas(task: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each action's arguments for one campaign.

    Args:
        task: The task as the physicist sees it.
    """
    choices: dict[str, dict[str, Any]] = {
        "channel": {"enum": [channel["name"] for channel in task["channels"]]},
        "candle": {"enum": [candle["name"] for candle in task["candles"]]},
        "sqrt_s_tev": {"enum": [beam["sqrt_s_tev"] for beam in task["beams"]]},
        "thresholds_gev": {
            "properties": {channel["name"]: threshold_rule(channel) for channel in task["channels"]},
            "additionalProperties": False,
        },
    }
    low, high = task["search_window_gev"]
    choices["mass_gev"] = {"minimum": low, "maximum": high}
    edge = {"type": "number", "minimum": low, "maximum": high}
    window = {"type": "array", "items": edge, "minItems": 2, "maxItems": 2}
    choices["window_gev"] = {"anyOf": [window, {"type": "null"}]}
    made = schemas_of_all()
    for schema in made.values():
        for name, rule in schema.setdefault("properties", {}).items():
            rule |= choices.get(name, {})
    made["request_theory_review"]["properties"]["mass_gev"] |= {"minimum": low / 2, "maximum": 2 * high}
    made["submit_discovery_claim"]["properties"]["mass_gev"] |= {"minimum": low / 2, "maximum": 2 * high}
    return made


def lowest_threshold(trigger_gev: float) -> float:
    """Return the lowest threshold of a channel whose rate is known at ``trigger_gev``."""
    return six(trigger_gev / 20.0)


def threshold_rule(channel: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule of a channel's threshold, with two usual ones as examples."""
    low, high = lowest_threshold(channel["trigger_threshold_gev"]), channel["fit_window_gev"][1]
    usual = (channel["fit_window_gev"][0] / 2.8, channel["trigger_threshold_gev"])
    found = list(dict.fromkeys(float(f"{value:.3g}") for value in (*usual, 1.3 * usual[0])))[:2]
    return {
        "type": "number",
        "minimum": low,
        "maximum": high,
        "examples": [value for value in found if low <= value <= high] or [low],
    }


def schemas_of_all() -> dict[str, dict[str, Any]]:
    """Return the schemas for any campaign: channels, candles and energies are open."""
    return {tool: _described(tool, arguments) for tool, arguments in TOOLS.items()}


def _described(tool: str, arguments: type[Arguments]) -> dict[str, Any]:
    schema = deepcopy(_bare(arguments))
    musd, days = COSTS[tool]
    schema["description"] = (
        f"{SUMMARIES.get(tool) or schema['description']} Costs {musd:g} MUSD, {days:g} days."
    )
    schema["additionalProperties"] = False
    return schema


@cache
def _bare(arguments: type[Arguments]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for rule in schema.get("properties", {}).values():
        rule.pop("title", None)
    return schema


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
    difficulty: Difficulty = Field(
        default="medium", description="Tier, in sigma; see docs/reports/collider-skill.md"
    )
    reward: Literal["score", "steps"] = Field(
        default="score",
        description="`score`: the score at the end; `steps`: part of it for each stage of the analysis, so "
        "that an episode that is cut short counts for its stages",
        exclude_if=lambda chosen: chosen == "score",
    )
    limit_curves: bool = Field(
        default=False,
        description="Whether a limit comes with a curve of limits over the searched window, for viewers: it "
        "takes two fifths of the computing of a campaign",
        exclude_if=lambda chosen: not chosen,
    )


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
    looks: dict[str, Any] = Field(
        description="Account of looks: taken, each with the trials that a p-value of it counts for; "
        "error_left; next_look_trials_per_channel"
    )
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
    correct: bool | None = Field(description="Whether the claim is right, or that nothing was claimed")
    discovered: bool | None
    correct_mass: bool | None
    correct_channel: bool | None
    correct_spin: bool | None
