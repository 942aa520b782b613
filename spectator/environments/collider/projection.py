"""What a viewer sees of a campaign: the books, the spectra, and the story so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.collider.events import PREFIX
from spectator.environments.collider.headlines import headline
from spectator.events import Event

TIMELINE: Final = 60
"""Steps of the story that are kept."""

_PART: Final = {
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


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The patch that an event makes."""
    if not event.type.startswith(PREFIX):
        return {}
    name, data = event.type.removeprefix(PREFIX), _without_null(event.data)
    world = state.get("world", {})
    patch: dict[str, Any] = {
        "resources": {
            "budget_left_musd": data.pop("budget_left_musd"),
            "luminosity_left_fb": data.pop("luminosity_left_fb"),
            "days_left": data.pop("days_left"),
        }
    }
    if name == "campaign_opened":
        patch |= {
            "task": data,
            "totals": dict(patch["resources"]),
            "runs": [],
            "timeline": [],
            "channels": {},
        }
    elif name in ("beam_configured", "trigger_set"):
        patch["machine"] = data
    elif name == "run_collected":
        patch["runs"] = [*world.get("runs", []), data][-20:]
    elif name == "detector_calibrated":
        patch["calibration"] = {data["detector"]: data}
    elif name in _PART:
        patch["channels"] = {data.get("channel", "all"): {_PART[name]: data}}
        patch["focus"] = data.get("channel", "all")
    elif name == "selection_frozen":
        patch["selection"] = data
    elif name == "channels_combined":
        patch["combination"] = data
    elif name == "claim_made":
        patch["claim"] = data
    elif name == "campaign_graded":
        patch["verdict"] = data
    words = headline(name, data)
    patch["headline"] = words
    steps = world.get("glance", {}).get("step", 0) + (name != "campaign_opened")
    patch["timeline"] = [*world.get("timeline", []), {"type": name, "text": words}][-TIMELINE:]
    totals = patch.get("totals") or world.get("totals", {})
    patch["glance"] = _glance(name, data, steps, patch["resources"], totals)
    return patch


def _glance(
    name: str, data: Mapping[str, Any], steps: int, left: Mapping[str, float], totals: Mapping[str, float]
) -> dict[str, Any]:
    spent = 1.0 - left["budget_left_musd"] / max(totals.get("budget_left_musd", 1.0), 1e-9)
    over = name == "campaign_graded"
    glance: dict[str, Any] = {"step": steps, "progress": 1.0 if over else round(min(max(spent, 0.0), 1.0), 3)}
    if name in ("significance_estimated", "channels_combined"):
        glance |= {"value": data["z_global"], "unit": "sigma", "suspense": _suspense(data["z_global"])}
    if over:
        glance["suspense"] = 0.0
    return glance


def _suspense(z_global: float) -> float:
    return round(max(0.0, 1.0 - abs(z_global - 4.5) / 4.5), 3)


def _without_null(data: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` without members that are null, as a merge patch would remove them."""
    return {
        name: _without_null(value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if value is not None
    }
