"""The world's event types, from machine, analysis and claim.

Units: GeV, fb^-1, TeV, MUSD (millions of US dollars), days, Hz. Floats are rounded to six significant
digits, edges to nine, so that a replay does not depend on the last bit of a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from spectator.events import EventData

PREFIX: Final = "collider."


class CampaignFact(EventData):
    """Fields of every event of a campaign: the remaining resources."""

    budget_left_musd: float = Field(ge=0, description="Money left, MUSD")
    luminosity_left_fb: float = Field(
        ge=0, description="Luminosity that the machine may still deliver, fb^-1"
    )
    days_left: float = Field(ge=0, description="Days left")


class CampaignOpened(CampaignFact):
    """The campaign began; the whole task is public."""

    campaign: str = Field(description="What is searched for, in a sentence that fits both signal and null")
    difficulty: str = Field(description="Tier: easy, medium, hard or expert")
    search_window_gev: list[float] = Field(description="[low, high] of the searched masses")
    channels: list[dict[str, Any]] = Field(
        description="Final states that can be analysed, with their parameters"
    )
    beams: list[dict[str, Any]] = Field(description="Beam energies on offer, with cost, days and pile-up")
    candles: list[dict[str, Any]] = Field(
        description="Known resonances for calibration: name, class, mass_gev"
    )
    real_data: bool = Field(description="Whether the events are real ones, recorded by CMS")
    published_z: float | None = Field(
        description="Significance of a published resonance that is measured here; null for a search"
    )


class BeamConfigured(CampaignFact):
    """The machine switched to another energy."""

    sqrt_s_tev: float
    cost_musd_per_fb: float
    days_per_fb: float
    pileup: float = Field(description="Mean number of simultaneous collisions")


class TriggerSet(CampaignFact):
    """The trigger menu changed."""

    thresholds_gev: dict[str, float] = Field(description="Threshold of each item, by channel")
    rates_hz: dict[str, float] = Field(description="Rate of each item, by channel")
    bandwidth_hz: float = Field(description="Bandwidth of the readout, Hz")
    live_fraction: float = Field(
        ge=0,
        le=1,
        description="Share of the triggered events that is kept; below 1 the menu exceeds the bandwidth",
    )


class LuminosityAllocated(CampaignFact):
    """The next run is planned."""

    planned_fb: float
    tuning_fraction: float = Field(description="Share of its events that is open before unblinding")


class RunCollected(CampaignFact):
    """A run is recorded; its events are stored and never change."""

    run: str = Field(description="Id of its dataset: run-1, run-2, ...")
    sqrt_s_tev: float
    luminosity_collected_fb: float
    pileup: float
    events: dict[str, int] = Field(
        description="Recorded events of each channel outside the box: tuning sample and sidebands"
    )


class DetectorCalibrated(CampaignFact):
    """A known resonance was fitted."""

    candle: str
    detector: str = Field(description="egamma, muon or jet")
    reference_gev: float
    scale: float = Field(description="Measured over reference mass")
    scale_error: float
    resolution_factor: float = Field(description="Measured over nominal resolution")
    resolution_factor_error: float
    chi2: float
    ndf: int


class ChannelSelected(CampaignFact):
    """A channel was selected for the analysis."""

    selection_id: str
    channel: str
    relative_resolution: float = Field(description="Nominal resolution, sigma / mass")


class SelectionOptimised(CampaignFact):
    """The cut on the selection score changed."""

    selection_id: str
    channel: str
    cut: float = Field(description="Events with a score of at least this are kept, 0 .. 0.875")
    signal_efficiency: float = Field(description="From simulation, relative to no cut")
    signal_efficiency_error: float
    background_efficiency: float = Field(description="From the tuning sample")
    background_efficiency_error: float
    gain: float = Field(description="Signal efficiency over the root of the background efficiency")


class SpectrumBuilt(CampaignFact):
    """The mass spectrum as it may be seen before unblinding."""

    selection_id: str
    channel: str
    window_gev: list[float] = Field(description="Window that will be searched")
    fit_window_gev: list[float] = Field(description="Fit window")
    edges_gev: list[float]
    counts: list[int] = Field(description="Tuning sample, all masses, without search events")
    sidebands: list[int] = Field(description="Search sample beside the task's window, 0 inside")
    blinded_gev: list[float] = Field(
        description="[low, high] of the blinded range: the task's window; empty for none"
    )


class BackgroundEstimated(CampaignFact):
    """A background function was fitted to tuning sample and sidebands."""

    selection_id: str
    channel: str
    function: str
    chi2: float
    ndf: int
    p_value: float
    edges_gev: list[float]
    expected: list[float] = Field(description="Fitted events of the tuning sample, by bin")


class SearchFrozen(CampaignFact):
    """The selection is frozen and cannot change any more."""

    selection_id: str
    channels: list[dict[str, Any]] = Field(
        description="channel, cuts, window_gev, fit_window_gev, relative_resolution, natural_width background"
    )


class DataUnblinded(CampaignFact):
    """The search sample of a channel is open."""

    selection_id: str
    channel: str
    datasets: list[str] = Field(description="Runs whose search part was opened")
    luminosity_fb: float = Field(description="Luminosity of these runs")
    edges_gev: list[float] = Field(description="Edges of the fit window, used by every later step")
    counts: list[int]
    window_gev: list[float]
    look: int = Field(description="Its number in the account of looks")
    trials: int = Field(description="How many times a p-value of this look counts")


class MassScanned(CampaignFact):
    """The unblinded spectrum was scanned for a bump."""

    selection_id: str
    channel: str
    window_gev: list[float]
    masses_gev: list[float]
    z: list[float] = Field(description="Local significance, signed, by mass")
    best_mass_gev: float
    best_z: float
    candidates: list[dict[str, float]] = Field(
        description="Highest separate peaks: mass_gev, z_local, signal"
    )
    shape_ok: bool = Field(description="Whether the background function fits beside the peak")
    expected: list[float] = Field(description="Background fitted to the unblinded events, by bin")


class SignificanceEstimated(CampaignFact):
    """Local and global significance of a mass."""

    selection_id: str
    channel: str
    mass_gev: float
    z_local: float
    p_local: float
    z_global: float = Field(description="After the look-elsewhere effect and the account of looks")
    p_global: float
    upcrossings: float = Field(description="Mean number of upcrossings of 0 sigma in the window")
    look: int
    trials: int = Field(description="Factor on the p-value by the account of looks")
    background_fits: bool = Field(description="Whether a background describes the data beside the peak")
    window_gev: list[float]
    signal: float
    signal_error: float
    spurious: float = Field(description="Spurious signal that is allowed for, events")
    by_background: dict[str, float] = Field(description="Change of the signal by each other function")


class ResonanceFitted(CampaignFact):
    """A peak was fitted."""

    selection_id: str
    channel: str
    mass_gev: float = Field(description="As measured, without correction of the scale")
    mass_error_gev: float = Field(description="Statistical and of the model together")
    model_error_gev: float = Field(description="The part of the model; 0 where the fit describes the data")
    corrected_mass_gev: float = Field(description="Divided by the calibrated scale, if any")
    corrected_error_gev: float = Field(description="Including the error of the scale")
    width_gev: float
    signal: float
    signal_error: float
    z_local: float
    chi2: float
    ndf: int
    converged: bool
    edges_gev: list[float] = Field(description="Edges of the fitted bins")
    counts: list[int]
    expected: list[float] = Field(description="Fitted events by bin, signal and background")
    expected_background: list[float]


class AngleMeasured(CampaignFact):
    """The decay angle was compared with spin hypotheses."""

    selection_id: str
    channel: str
    mass_gev: float
    edges_cos: list[float]
    counts: list[int] = Field(description="Events in the peak, by |cos theta*|")
    background: list[float] = Field(description="Expected background, from the sidebands")
    log_likelihood: dict[str, float] = Field(description="By hypothesis, the best at 0")
    best: str
    expected_separation: dict[str, float] = Field(description="Sigma by which each alternative would differ")
    excluded: dict[str, str] = Field(description="Impossible hypotheses, with reasons")


class CrossChecked(CampaignFact):
    """The rate of an excess was compared between runs."""

    selection_id: str
    channel: str
    mass_gev: float
    first: str
    second: str
    first_value: float = Field(description="Strength in the first sample, in common units")
    first_error: float
    second_value: float
    second_error: float
    p_value: float


class TheoryReviewed(CampaignFact):
    """Theory was consulted, without any data."""

    mass_gev: float
    energy_gain: dict[str, float] = Field(description="Cross section relative to 13 TeV, by keys like 'gg 8'")
    spins: dict[str, list[int]] = Field(description="Spins that may decay to each channel")
    comment: str


class LimitCurve(EventData):
    """Limits over the searched window, on cross section x branching x acceptance at 13 TeV.

    Many events under a peak count as a Gaussian yield; the limit at the mass asked for is exact.
    """

    masses_gev: list[float]
    observed_fb: list[float]
    expected_fb: list[float] = Field(description="Median without a signal")
    band_fb: list[list[float]] = Field(description="Expected at -2, -1, +1, +2 sigma, by mass")


class LimitSet(CampaignFact):
    """An upper limit at 95 % CL (CLs) was set."""

    selection_id: str
    channel: str
    mass_gev: float
    signal_limit: float = Field(description="Events")
    expected_limit: float
    band: list[float] = Field(description="Expected at -2, -1, +1, +2 sigma")
    rate_limit_fb: float = Field(description="Limit on cross section x branching, fb, at 13 TeV")
    curve: LimitCurve | None = Field(description="With the option `limit_curves`")


class ClaimSubmitted(CampaignFact):
    """The campaign ended with a claim or with the conclusion that there is none."""

    selection_id: str
    kind: Literal["discovery", "evidence", "null"]
    channels: list[str]
    mass_gev: float | None
    mass_error_gev: float | None
    z_local: float | None
    z_global: float | None
    signal_limit: float | None
    limit_mass_gev: float | None
    rate_limit_fb: float | None = Field(description="Strongest limit that was set, fb, at 13 TeV")
    probability: float | None
    channel_probabilities: dict[str, float]
    spin_probabilities: dict[str, float]
    other_masses_gev: list[float]


class RuleBroken(CampaignFact):
    """A soft rule was broken; the action was carried out, and the grade is lower."""

    code: str
    message: str


class CampaignGraded(CampaignFact):
    """The campaign was graded; the truth itself stays sealed."""

    scenario: str = Field(description="Option of the campaign: what it was drawn from")
    correct: bool = Field(description="Whether the claim is right, or that nothing was claimed")
    discovered: bool
    correct_mass: bool
    correct_channel: bool
    correct_spin: bool
    verdict: str = Field(description="A short phrase, such as 'discovery confirmed'")
    score: float = Field(ge=0, le=1)
    rubric: dict[str, float]
    hard_violations: int
    soft_violations: list[str]


EVENTS: Final[Mapping[str, type[EventData]]] = {
    "collider.campaign_opened": CampaignOpened,
    "collider.beam_configured": BeamConfigured,
    "collider.trigger_set": TriggerSet,
    "collider.luminosity_allocated": LuminosityAllocated,
    "collider.run_collected": RunCollected,
    "collider.detector_calibrated": DetectorCalibrated,
    "collider.channel_selected": ChannelSelected,
    "collider.selection_optimised": SelectionOptimised,
    "collider.spectrum_built": SpectrumBuilt,
    "collider.background_estimated": BackgroundEstimated,
    "collider.selection_frozen": SearchFrozen,
    "collider.unblinded": DataUnblinded,
    "collider.mass_scanned": MassScanned,
    "collider.significance_estimated": SignificanceEstimated,
    "collider.resonance_fitted": ResonanceFitted,
    "collider.angle_measured": AngleMeasured,
    "collider.cross_checked": CrossChecked,
    "collider.theory_reviewed": TheoryReviewed,
    "collider.limit_set": LimitSet,
    "collider.claim_made": ClaimSubmitted,
    "collider.rule_broken": RuleBroken,
    "collider.campaign_graded": CampaignGraded,
}
"""Data model of each event type."""

BEATS: Final[Mapping[str, float]] = dict.fromkeys(
    EVENTS.keys() - {"collider.campaign_opened", "collider.rule_broken", "collider.campaign_graded"}, 3.0
) | {"collider.unblinded": 4.0, "collider.claim_made": 4.0}
"""Beats of the broadcast pace: a decision takes 6 to 8 s, time to read its reason."""
