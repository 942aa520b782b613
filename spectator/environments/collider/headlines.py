"""Every event in one line of plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LINES: Final[Mapping[str, str]] = {
    "campaign_opened": "{campaign}",
    "beam_configured": "The machine runs at {sqrt_s_tev:g} TeV",
    "trigger_set": "Trigger menu set, {live_fraction:.0%} of it is read out",
    "luminosity_allocated": "A run of {planned_fb:g} fb⁻¹ is planned",
    "run_collected": "{run}: {total:,} events in {luminosity_collected_fb:g} fb⁻¹",
    "detector_calibrated": "{candle}: scale {scale:.5f} ± {scale_error:.5f}",
    "channel_selected": "{channel} is analysed in {selection_id}",
    "selection_optimised": "{channel}: scores from {cut:g}, gain {gain:.2f}",
    "spectrum_built": "{channel}: spectrum built, {window_gev[0]:g} to {window_gev[1]:g} GeV blinded",
    "background_estimated": "{channel}: {function} background, χ² {chi2:.1f} for {ndf}",
    "selection_frozen": "{selection_id} is frozen",
    "unblinded": "{channel} is unblinded: {total:,} events in {luminosity_fb:g} fb⁻¹",
    "mass_scanned": "{channel}: largest excess {best_z:.1f} sigma local at {best_mass_gev:.5g} GeV",
    "significance_estimated": "{mass_gev:.5g} GeV: {z_local:.1f} sigma local, {z_global:.1f} global",
    "channels_combined": "Channels combined: {z_local:.1f} sigma local, {z_global:.1f} global",
    "resonance_fitted": "{channel}: m = {corrected_mass_gev:.5g} ± {corrected_error_gev:.2g} GeV",
    "angle_measured": "{channel}: the angles like spin {best} best",
    "cross_checked": "{first} against {second}: p = {p_value:.2g}",
    "systematics_assessed": "{channel}: up to {spurious:.3g} events may be the background's doing",
    "theory_reviewed": "Theory is asked about {mass_gev:.5g} GeV",
    "limit_set": "{channel}: fewer than {signal_limit:.3g} events at {mass_gev:.5g} GeV",
    "rule_broken": "{message}",
}


def headline(name: str, data: Mapping[str, Any]) -> str:
    """An event in one line.

    Args:
        name: Its type without the world's name.
        data: Its data, without members that are null.
    """
    if name == "claim_made":
        return _claimed(data)
    if name == "campaign_graded":
        return f"{with_capital(data['verdict'])}, score {data['score']:.2f}"
    counted = data.get("counts") if name == "unblinded" else data.get("events", {}).values()
    return _LINES[name].format_map({**data, "total": sum(counted or ())})


def with_capital(words: str) -> str:
    """``words`` as the beginning of a sentence; names within keep their case."""
    return words[:1].upper() + words[1:]


def _claimed(data: Mapping[str, Any]) -> str:
    if data["kind"] == "null":
        return "Concluded: nothing to claim"
    claimed = "Discovery" if data["kind"] == "discovery" else "Evidence"
    mass = f"{data['mass_gev']:.5g} ± {data['mass_error_gev']:.2g} GeV"
    return f"{claimed} claimed at {mass}, {data['z_global']:.1f} sigma global"
