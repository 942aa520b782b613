"""What a viewer sees of a campaign: the resources, the spectra and their analysis, and the story so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.collider.events import PREFIX
from spectator.environments.collider.headlines import headline
from spectator.events import Event

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
    "systematics_assessed": "systematics",
    "limit_set": "limit",
}
"""Under which name the newest of an event is kept, by channel."""

_FROM_THE_SPECTRUM: Final = (
    "background",
    "scan",
    "significance",
    "fit",
    "angle",
    "check",
    "systematics",
    "limit",
)
"""What belongs to the data of one spectrum, and goes when others take their place."""

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
    """The patch that an event makes."""
    if not event.type.startswith(PREFIX):
        return {}
    name, data = event.type.removeprefix(PREFIX), _without_null(event.data)
    world = state.get("world", {})
    left = {resource: data.pop(resource) for resource in _RESOURCES}
    patch: Patch = {"resources": left, **_part(name, data, world)}
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
    """What an event says, where it belongs."""
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
    "channels_combined": lambda data, world: {"combination": _instead(world.get("combination", {}), data)},
    "claim_made": lambda data, world: {"claim": data},
    "campaign_graded": lambda data, world: {"verdict": data},
}
"""Where the events that belong to no channel are kept."""


def _instead(old: Mapping[str, Any], new: Patch) -> Patch:
    """A merge patch that puts ``new`` in the place of ``old`` as a whole."""
    return {**{name: None for name in old if name not in new}, **new}


def _glance(
    name: str, data: Mapping[str, Any], steps: int, left: Mapping[str, float], totals: Mapping[str, float]
) -> Patch:
    spent = 1.0 - left["budget_left_musd"] / max(totals.get("budget_left_musd", 1.0), 1e-9)
    over = name == "campaign_graded"
    glance: Patch = {"step": steps, "progress": 1.0 if over else round(min(max(spent, 0.0), 1.0), 3)}
    if name in ("significance_estimated", "channels_combined"):
        glance |= {"value": data["z_global"], "unit": "sigma", "suspense": _suspense(data["z_global"])}
    if over:
        glance["suspense"] = 0.0
    return glance


def _suspense(z_global: float) -> float:
    return round(max(0.0, 1.0 - abs(z_global - 4.5) / 4.5), 3)


def _without_null(data: Mapping[str, Any]) -> Patch:
    """``data`` without members that are null, as a merge patch would remove them."""
    return {
        name: _without_null(value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if value is not None
    }
