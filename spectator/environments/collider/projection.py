"""The viewers' state of a campaign, its headlines, and the tile's picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log, sqrt
from typing import Any, Final

from spectator.environments.collider.events import PREFIX
from spectator.events import Event

_LINES: Final[Mapping[str, str]] = {
    "campaign_opened": "{campaign}",
    "beam_configured": "The machine runs at {sqrt_s_tev:g} TeV",
    "trigger_set": "Trigger menu set, {live_fraction:.0%} of it is read out",
    "luminosity_allocated": "A run of {planned_fb:g} fb⁻¹ is planned",
    "run_collected": "{run}: {luminosity_collected_fb:g} fb⁻¹, {total:,} events outside the blinded window",
    "detector_calibrated": "{candle}: scale {scale:.5f} ± {scale_error:.5f}",
    "channel_selected": "{channel} is analysed in {selection_id}",
    "selection_optimised": "{channel}: scores from {cut:g}, gain {gain:.2f}",
    "spectrum_built": "{channel}: spectrum built, {blinded_gev[0]:g} to {blinded_gev[1]:g} GeV blinded",
    "background_estimated": "{channel}: {function} background, χ² {chi2:.1f} for {ndf}",
    "selection_frozen": "{selection_id} is frozen",
    "unblinded": "{channel} is unblinded: {total:,} events in {luminosity_fb:g} fb⁻¹",
    "mass_scanned": "{channel}: largest excess {best_z:.1f} sigma local at {best_mass_gev:.5g} GeV",
    "significance_estimated": "{mass_gev:.5g} GeV: {z_local:.1f} sigma local, {z_global:.1f} global",
    "resonance_fitted": "{channel}: m = {corrected_mass_gev:.5g} ± {corrected_error_gev:.2g} GeV",
    "angle_measured": "{channel}: the angles like spin {best} best",
    "cross_checked": "{first} against {second}: p = {p_value:.2g}",
    "theory_reviewed": "Theory is asked about {mass_gev:.5g} GeV",
    "limit_set": "{channel}: below {rate_limit_fb:.3g} fb at {mass_gev:.5g} GeV, 95 % CL",
    "rule_broken": "{message}",
}


CHANNELS: Final = {
    "diphoton": "two photons",
    "four_lepton": "four leptons",
    "dilepton_mumu": "muon pairs",
    "dilepton_ee": "electron pairs",
    "bb": "b-quark pairs",
    "dijet": "jet pairs",
}
"""Everyday names of the final states."""


def channel_name(channel: str) -> str:
    """Return the everyday name of a final state."""
    return CHANNELS.get(channel, channel.replace("_", " "))


def headline(name: str, data: Mapping[str, Any]) -> str:
    """Return an event in one line.

    Args:
        name: Its type without the world's name.
        data: Its data, without members that are null.
    """
    if name == "claim_made":
        return _claimed(data)
    if name == "campaign_graded":
        return f"{with_capital(data['verdict'])}, score {data['score']:.2f}"
    if "channel" in data:
        data = {**data, "channel": with_capital(channel_name(data["channel"]))}
    counted = data.get("counts") if name == "unblinded" else data.get("events", {}).values()
    return _LINES[name].format_map({**data, "total": sum(counted or ())})


def with_capital(words: str) -> str:
    """Return ``words`` as the beginning of a sentence; names keep their case."""
    return words[:1].upper() + words[1:]


def _claimed(data: Mapping[str, Any]) -> str:
    if data["kind"] == "null":
        limit = f", below {data['rate_limit_fb']:.3g} fb at 95 % CL" if "rate_limit_fb" in data else ""
        return f"Concluded: no signal{limit}"
    claimed = "Discovery" if data["kind"] == "discovery" else "Evidence"
    mass = f"{data['mass_gev']:.5g} ± {data['mass_error_gev']:.2g} GeV"
    return f"{claimed} claimed at {mass}, {data['z_global']:.1f} sigma global"


Patch = dict[str, Any]

_RESOURCES: Final = ("budget_left_musd", "luminosity_left_fb", "days_left")

_PART: Final = {
    "channel_selected": "selected",
    "selection_optimised": "cut",
    "spectrum_built": "spectrum",
    "background_estimated": "background",
    "unblinded": "spectrum",
    "mass_scanned": "scan",
    "significance_estimated": "significance",
    "resonance_fitted": "fit",
    "angle_measured": "angle",
    "cross_checked": "check",
    "limit_set": "limit",
}
"""Name under which a channel keeps the newest event of each type."""

_FROM_THE_SPECTRUM: Final = tuple("background scan significance fit angle check limit".split())
"""Results on one spectrum, removed when another spectrum replaces it."""

PHASES: Final = {
    "campaign_opened": "planning",
    "run_collected": "recording",
    "channel_selected": "blind analysis",
    "selection_frozen": "frozen",
    "unblinded": "unblinded",
    "claim_made": "claimed",
    "campaign_graded": "graded",
}
"""The phase of the campaign that an event begins."""


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Return the patch that an event makes."""
    if not event.type.startswith(PREFIX):
        return {}
    name, data = event.type.removeprefix(PREFIX), _without_null(event.data)
    world = state.get("world", {})
    left = {resource: data.pop(resource) for resource in _RESOURCES}
    patch: Patch = {"resources": left, **_part(name, data, world)}
    if name == "unblinded" and "look" in data:
        look = {"opened": f"{data['selection_id']}, {data['datasets'][-1]}", "trials": data["trials"]}
        patch["looks"] = {str(data["look"]): look}
    if name == "campaign_opened":
        patch["totals"] = dict(left)
    if name in PHASES:
        patch["phase"] = PHASES[name]
    steps = world.get("glance", {}).get("step", 0) + (name != "campaign_opened")
    words = headline(name, data)
    patch["headline"] = words
    patch["timeline"] = {f"{event.seq:06d}": {"type": name, "text": words, "days": left["days_left"]}}
    totals = patch.get("totals") or world.get("totals", {})
    patch["glance"] = _glance(name, data, steps, left, totals)
    return patch


def _part(name: str, data: Patch, world: Mapping[str, Any]) -> Patch:
    """Return the patch of the world's part that an event changes."""
    if name in _PART:
        return _of_channel(name, data, world)
    place = _PLACES.get(name)
    return {} if place is None else place(data, world)


def _of_channel(name: str, data: Patch, world: Mapping[str, Any]) -> Patch:
    channel = data.get("channel", "all")
    known = world.get("channels", {}).get(channel, {})
    part = _PART[name]
    patch: Patch = {part: _instead(known.get(part, {}), data)}
    if part == "spectrum":
        gone = _FROM_THE_SPECTRUM if name == "spectrum_built" else _FROM_THE_SPECTRUM[1:]
        patch |= {other: None for other in gone if other in known}
        patch["open"] = name == "unblinded"
    return {"channels": {channel: patch}, "focus": channel}


_PLACES: Final[Mapping[str, Callable[[Patch, Mapping[str, Any]], Patch]]] = {
    "campaign_opened": lambda data, world: {"task": data, "runs": {}, "timeline": {}, "channels": {}},
    "beam_configured": lambda data, world: {"machine": data},
    "trigger_set": lambda data, world: {"trigger": _instead(world.get("trigger", {}), data)},
    "luminosity_allocated": lambda data, world: {"planned": data},
    "run_collected": lambda data, world: {"runs": {data["run"]: data}},
    "detector_calibrated": lambda data, world: {"calibration": {data["candle"]: data}},
    "selection_frozen": lambda data, world: {"selection": _instead(world.get("selection", {}), data)},
    "claim_made": lambda data, world: {"claim": data},
    "campaign_graded": lambda data, world: {"verdict": data},
}
"""Patches of the events that belong to no channel."""


def _instead(old: Mapping[str, Any], new: Patch) -> Patch:
    """Return a merge patch that replaces ``old`` by ``new`` as a whole."""
    return {**{name: None for name in old if name not in new}, **new}


def _glance(
    name: str, data: Mapping[str, Any], steps: int, left: Mapping[str, float], totals: Mapping[str, float]
) -> Patch:
    spent = 1.0 - left["budget_left_musd"] / max(totals.get("budget_left_musd", 1.0), 1e-9)
    over = name == "campaign_graded"
    glance: Patch = {"step": steps, "progress": 1.0 if over else round(min(max(spent, 0.0), 1.0), 3)}
    if name == "significance_estimated":
        glance |= {"value": data["z_global"], "unit": "sigma", "suspense": _suspense(data["z_global"])}
    if over:
        glance["suspense"] = 0.0
    return glance


def _suspense(z_global: float) -> float:
    return round(max(0.0, 1.0 - abs(z_global - 4.5) / 4.5), 3)


def _without_null(data: Mapping[str, Any]) -> Patch:
    """Remove null members, as a merge patch would."""
    return {
        name: _without_null(value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if value is not None
    }


MOST: Final = 40
"""Most bins, and masses of a scan, that are drawn; more are merged."""

_LEFT: Final = ("budget_left_musd", "luminosity_left_fb", "days_left")


def picture(world: Mapping[str, Any]) -> dict[str, Any]:
    """See :attr:`spectator.environments.world.World.picture`; empty until the campaign is open.

    ``left`` is the remaining money, luminosity and days, in percent. Once a spectrum is built, there are its
    ``channel``; its ``bins``, the square root of each count in percent of the largest; and ``hidden``, the
    blinded span. Once it is scanned, ``scan`` has its ``span``, and ``z``, local significances in tenths of a
    sigma. Once a mass is estimated, ``peak`` has its place ``at`` and its global significance ``sigma``.
    Places and spans are percent of the way from the lowest to the highest mass on a logarithmic scale, as the
    edges of the bins are spaced.

    Args:
        world: The world's part of the viewers' state.
    """
    totals, left = world.get("totals"), world.get("resources", {})
    if not totals:
        return {}
    drawn: dict[str, Any] = {"left": [round(100 * left[name] / max(totals[name], 1e-9)) for name in _LEFT]}
    channel = world.get("channels", {}).get(world.get("focus", ""), {})
    if "spectrum" not in channel:
        return drawn
    return drawn | {"channel": world["focus"]} | _analysis(channel)


def _analysis(channel: Mapping[str, Any]) -> dict[str, Any]:
    spectrum, drawn = channel["spectrum"], dict[str, Any]()
    low, high = spectrum["edges_gev"][0], spectrum["edges_gev"][-1]

    def place(mass_gev: float) -> int:
        share: float = log(mass_gev / low) / log(high / low)
        return round(100 * share)

    counts = _merged(spectrum["counts"])
    most = max(*counts, 1.0)
    drawn["bins"] = [round(100 * sqrt(count / most)) for count in counts]
    if blinded := spectrum.get("blinded_gev"):
        drawn["hidden"] = [place(mass) for mass in blinded]
    if scan := channel.get("scan"):
        span = [place(scan["masses_gev"][0]), place(scan["masses_gev"][-1])]
        drawn["scan"] = {"span": span, "z": [round(10 * z) for z in _highest(scan["z"])]}
    if found := channel.get("significance"):
        drawn["peak"] = {"at": place(found["mass_gev"]), "sigma": round(found["z_global"], 1)}
    return drawn


def _parts(values: Sequence[float]) -> Iterator[Sequence[float]]:
    """Split into at most :data:`MOST` runs of neighbours of equal length."""
    size = -(-len(values) // MOST)
    return (values[first : first + size] for first in range(0, len(values), size))


def _merged(counts: Sequence[int]) -> list[float]:
    return [sum(part) / len(part) for part in _parts(counts)]


def _highest(z: Sequence[float]) -> list[float]:
    """Return the highest of each merged group, so that narrow peaks remain."""
    return [max(part) for part in _parts(z)]
