"""What the physicist sees after each step: the task, the books, and all that was found so far."""

from __future__ import annotations

from typing import Any

from spectator.environments.collider.actions import COSTS
from spectator.environments.collider.experiment.laboratory import Laboratory
from spectator.environments.collider.experiment.task import six
from spectator.environments.collider.physics import peaks

_COSTS = {tool: list(cost) for tool, cost in COSTS.items()}


def content(lab: Laboratory, step: int, broken: list[str]) -> dict[str, Any]:
    """The observation's own fields; nothing of it comes from nature but through recorded events.

    Args:
        lab: The campaign.
        step: Actions carried out so far.
        broken: Codes of the rules that the last action broke.
    """
    best = cumulative_significance(lab)
    return {
        "step_index": step,
        "task": lab.task.told,
        "costs": _COSTS,
        "resource_usage": resources(lab),
        "selected_beam_energy": None if lab.beam is None else lab.beam.sqrt_s_tev,
        "trigger": {"thresholds_gev": dict(lab.thresholds_gev), "live_fraction": lab.live_fraction},
        "planned_fb": None if lab.planned is None else lab.planned[0],
        "runs": [
            {
                "run": run.name,
                "sqrt_s_tev": run.beam.sqrt_s_tev,
                "luminosity_fb": run.luminosity_fb,
                "tuning_fraction": run.tuning_fraction,
                "thresholds_gev": dict(run.thresholds_gev),
                "live_fraction": run.live_fraction,
            }
            for run in lab.runs
        ],
        "calibration": {
            detector: {
                "scale": scale.scale,
                "scale_error": scale.scale_error,
                "resolution_factor": scale.resolution,
                "resolution_factor_error": scale.resolution_error,
                "candles": list(scale.candles),
            }
            for detector, scale in sorted(lab.scales.items())
        },
        "selection": selection(lab),
        "findings": findings(lab),
        "selected_channel": next(iter(lab.selection.channels), None),
        "candidate_masses_gev": candidate_masses(lab),
        "cumulative_significance": best,
        "rule_violations": broken,
        "last_result": lab.result,
        "verdict": lab.verdict,
    }


def resources(lab: Laboratory) -> dict[str, float]:
    """What is left."""
    return {
        "budget_remaining_musd": six(lab.left.budget_musd),
        "luminosity_remaining_fb": six(lab.left.luminosity_fb),
        "days_remaining": six(lab.left.days),
    }


def selection(lab: Laboratory) -> dict[str, Any]:
    """The present selection."""
    return {
        "selection_id": lab.selection.name,
        "frozen": lab.selection.frozen,
        "channels": {
            name: {
                "cut": analysis.cut / peaks.SCORE_BINS,
                "window_gev": list(analysis.window_gev),
                "background": analysis.background,
                "opened_runs": [f"run-{run}" for run in analysis.opened],
                "closed_runs": [f"run-{run}" for run in sorted(analysis.closed_runs)],
            }
            for name, analysis in lab.selection.channels.items()
        },
    }


def findings(lab: Laboratory) -> dict[str, Any]:
    """Newest result of each kind, by channel, and the combination."""
    found: dict[str, Any] = {}
    for name, analysis in lab.selection.channels.items():
        kept = analysis.findings
        found[name] = {
            kind: value
            for kind, value in (
                ("scan", kept.get("scan")),
                ("significance", _last(kept.get("significances"))),
                ("fit", _last(kept.get("fits"))),
                ("angle", kept.get("angle")),
                ("check", _last(kept.get("checks"))),
                ("systematics", kept.get("spurious")),
                ("limit", _last(kept.get("limits"))),
            )
            if value is not None
        }
    if lab.selection.combination is not None:
        found["combination"] = lab.selection.combination
    return found


def _last(values: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return values[-1] if values else None


def candidate_masses(lab: Laboratory) -> list[float]:
    """Masses of the excesses of at least 3 sigma local that scans showed, highest first."""
    candidates = [
        (candidate["z_local"], candidate["mass_gev"])
        for analysis in lab.selection.channels.values()
        for candidate in analysis.findings.get("scan", {}).get("candidates", ())
        if candidate["z_local"] >= 3.0
    ]
    return [mass for _, mass in sorted(candidates, reverse=True)]


def cumulative_significance(lab: Laboratory) -> float:
    """The largest global significance that was estimated on the data as they are open now."""
    values = [
        found["z_global"]
        for analysis in lab.selection.channels.values()
        for found in analysis.findings.get("significances", ())
    ]
    if lab.selection.combination is not None:
        values.append(lab.selection.combination["z_global"])
    return max(values, default=0.0)
