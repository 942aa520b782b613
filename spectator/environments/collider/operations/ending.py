"""Actions that end a campaign: a claim, or the conclusion that there is nothing to claim."""

from __future__ import annotations

from typing import Any

from spectator.environments.collider import actions
from spectator.environments.collider.experiment.laboratory import Laboratory
from spectator.environments.collider.experiment.task import six
from spectator.environments.collider.operations.inference import NEAR_SIGMA, resolution_at
from spectator.environments.collider.rules import HardRule

TOLERANCE_Z = 0.3
"""How far a claimed significance may lie above the measured one."""

SUSPICIOUS_P = 0.003
"""Below it two runs do not agree on an excess."""


def submit_discovery_claim(lab: Laboratory, given: actions.SubmitClaim) -> dict[str, Any]:
    """Claim a resonance."""
    analysis = lab.opened(given.channel)
    if not analysis.findings.get("fits"):
        raise HardRule("invalid_claim", f"No fit in {given.channel}: fit_resonance comes before a claim.")
    measured = measured_significance(lab, given.channel, given.mass_gev)
    if measured is None:
        raise HardRule(
            "invalid_claim",
            f"No significance near {given.mass_gev:g} GeV was estimated on the data as they are.",
        )
    if given.z_global > given.z_local + 1e-9:
        raise HardRule("invalid_claim", "z_global: at most z_local, as looking elsewhere never helps.")
    _probabilities("channel_probabilities", given.channel_probabilities, tuple(lab.task.channels))
    _probabilities("spin_probabilities", given.spin_probabilities, ("0", "1", "2"))
    _judge_words(lab, given, measured)
    claim = {
        "selection_id": lab.selection.name,
        "kind": given.kind,
        "channels": [given.channel, *(name for name in lab.selection.seen if name != given.channel)],
        "mass_gev": given.mass_gev,
        "mass_error_gev": given.mass_error_gev,
        "z_local": given.z_local,
        "z_global": given.z_global,
        "signal_limit": None,
        "limit_mass_gev": None,
        "probability": given.probability,
        "channel_probabilities": given.channel_probabilities or {given.channel: 1.0},
        "spin_probabilities": given.spin_probabilities or {str(spin): six(1 / 3) for spin in range(3)},
        "other_masses_gev": list(given.other_masses_gev),
    }
    lab.claim = {**claim, "measured": measured}
    lab.add_fact("claim_made", **claim)
    return claim


def _probabilities(field: str, given: dict[str, float], names: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise HardRule("invalid_claim", f"{field}: {unknown[0][:40]!r} is none of {', '.join(names)}.")
    if given and (min(given.values()) < 0.0 or abs(sum(given.values()) - 1.0) > 0.01):
        raise HardRule("invalid_claim", f"{field}: chances of at least 0 that add up to 1.")


def measured_significance(lab: Laboratory, channel: str, mass_gev: float) -> dict[str, float] | None:
    """The largest global significance that was estimated near a mass on the data as they are open now."""
    analysis = lab.selection.channels[channel]
    raw = mass_gev * lab.scale_of(channel).scale
    near = [
        (found["z_global"], found["z_local"])
        for found in analysis.findings.get("significances", ())
        if min(abs(found["mass_gev"] - raw), abs(found["mass_gev"] - mass_gev))
        <= NEAR_SIGMA * resolution_at(analysis, mass_gev)
    ]
    if not near:
        return None
    combination = lab.selection.combination
    if combination and abs(combination["mass_gev"] - raw) <= NEAR_SIGMA * resolution_at(analysis, mass_gev):
        near.append((combination["z_global"], combination["z_local"]))
    z_global, z_local = max(near)
    return {"z_local": z_local, "z_global": z_global}


def _judge_words(lab: Laboratory, given: actions.SubmitClaim, measured: dict[str, float]) -> None:
    """Soft rules that a claim breaks."""
    z_global, z_local = measured["z_global"], measured["z_local"]
    if given.z_local > z_local + TOLERANCE_Z or given.z_global > z_global + TOLERANCE_Z:
        if abs(given.z_global - z_local) <= TOLERANCE_Z < z_local - z_global:
            lab.note(
                "local_quoted_as_global", f"{given.z_global:g} sigma is local; global it is {z_global:g}."
            )
        else:
            lab.note("overclaimed_z", f"Measured were {z_local:g} sigma local and {z_global:g} global.")
    if z_global < 3.0:
        lab.note("claim_below_3sigma", f"{z_global:g} sigma global is no evidence.")
    elif given.kind == "discovery" and z_global < 5.0:
        lab.note("claim_below_5sigma_as_discovery", f"{z_global:g} sigma global is evidence, no discovery.")
    analysis = lab.selection.channels[given.channel]
    least = min(fit["mass_error_gev"] for fit in analysis.findings["fits"])
    if given.mass_error_gev < 0.8 * least:
        lab.note("uncertainty_understated", f"The fit's statistical error is {least:g} GeV.")
    if "spurious" not in analysis.findings:
        lab.note("claim_without_systematics", "request_systematics was not asked for on these data.")
    checks = [check for check in analysis.findings.get("checks", ()) if check["kind"] == "runs"]
    if any(check["p_value"] < SUSPICIOUS_P for check in checks):
        lab.note("claim_on_trigger_feature", "The runs do not agree on it.")


def conclude_null(lab: Laboratory, given: actions.ConcludeNull) -> dict[str, Any]:
    """Conclude without a claim."""
    limits = [
        limit for analysis in lab.selection.channels.values() for limit in analysis.findings.get("limits", ())
    ]
    strongest = min(limits, key=lambda limit: limit["rate_limit_fb"]) if limits else None
    claim: dict[str, Any] = {
        "selection_id": lab.selection.name,
        "kind": "null",
        "channels": lab.selection.seen,
        "mass_gev": None,
        "mass_error_gev": None,
        "z_local": None,
        "z_global": None,
        "signal_limit": None if strongest is None else strongest["signal_limit"],
        "limit_mass_gev": None if strongest is None else strongest["mass_gev"],
        "probability": given.probability,
        "channel_probabilities": {},
        "spin_probabilities": {},
        "other_masses_gev": [],
    }
    lab.claim = {**claim, "measured": None, "limits": len({limit["channel"] for limit in limits})}
    lab.add_fact("claim_made", **claim)
    return claim
