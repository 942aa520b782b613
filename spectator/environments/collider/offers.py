"""The actions on offer: which can be carried out now, and with which arguments.

What is certain to be rejected is not on offer: spent money and time, missing prerequisites, channels
without data, repeated measurements. Rules that a schema cannot state, such as a mass that was measured in
one of two channels, still reject the action when it is tried.

``examples`` of a number are values that would be accepted now; small models choose among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

from spectator.environments.collider.actions import (
    BACKGROUND_FUNCTIONS,
    CANDLE_EVENTS,
    COSTS,
    TOOLS,
    TUNING_EVENTS,
    threshold_rule,
)
from spectator.environments.collider.experiment import ChannelAnalysis, Laboratory
from spectator.environments.collider.operations import inference, machine
from spectator.environments.collider.physics import SCORE_BINS

Rules = dict[str, dict[str, Any]]
"""Rules of an action's arguments, by name, that are narrower than in its schema."""

SHARES: Final = (0.2, 0.5, 1.0)
"""Shares of the affordable luminosity that small models may choose."""

GRIDS: Final = (4, 20, 40)
"""Parts into which a window is divided to find masses that are not measured yet."""


def offers(lab: Laboratory) -> dict[str, Rules]:
    """Return the actions that can be carried out now, in their order, with narrower rules of arguments."""
    possible = {**_machine(lab), **_preparation(lab), **_inference(lab), "conclude_null": {}}
    return {tool: possible[tool] for tool in TOOLS if tool in possible and _affordable(lab, tool)}


def narrowed(schema: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Return a schema with narrower rules; arguments without a valid default become required."""
    if not rules:
        return dict(schema)
    properties = {name: {**rule, **rules.get(name, {})} for name, rule in schema["properties"].items()}
    required = [*schema.get("required", ())]
    for name, rule in properties.items():
        if "default" in rule and rule["default"] not in rule.get("enum", [rule["default"]]):
            del rule["default"]
            required.append(name)
    return {**schema, "properties": properties, "required": required}


def _affordable(lab: Laboratory, tool: str, musd: float = 0.0, days: float = 0.0) -> bool:
    price = COSTS[tool]
    return price[0] + musd <= lab.left.budget_musd + 1e-9 and price[1] + days <= lab.left.days + 1e-9


def _one_of(names: Iterable[Any]) -> dict[str, Any]:
    return {"enum": list(names)}


def _machine(lab: Laboratory) -> dict[str, Rules]:
    task, found = lab.task, dict[str, Rules]()
    low, high = task.window_gev
    middle = _short(math.sqrt(low * high))
    found["request_theory_review"] = {"mass_gev": {"examples": [middle]}}
    found["set_trigger"] = _other_menu(lab)
    if beams := [
        beam.sqrt_s_tev
        for beam in task.beams
        if beam is not lab.beam
        and _affordable(lab, "configure_beam", days=machine.switching_days(lab, beam.sqrt_s_tev))
    ]:
        found["configure_beam"] = {"sqrt_s_tev": _one_of(beams)}
    if (most := _affordable_fb(lab)) > 0:
        shares = [value for share in SHARES if (value := _short(share * most)) <= most]
        found["allocate_luminosity"] = {"luminosity_fb": {"maximum": most, "examples": shares or [most]}}
    if lab.planned is not None and lab.thresholds_gev and lab.planned[0] <= lab.left.luminosity_fb:
        price = machine.run_price(lab)
        if _affordable(lab, "collect_collisions", *price):
            found["collect_collisions"] = {}
    if lab.runs and (
        candles := [
            candle
            for candle in task.candles
            if lab.fitted_candles.get(candle) != len(lab.runs)
            and (task.real_data or sum(run.candles[candle].sum() for run in lab.runs) >= CANDLE_EVENTS)
        ]
    ):
        found["calibrate_detector"] = {"candle": _one_of(candles)}
    return found


def _other_menu(lab: Laboratory) -> Rules:
    """Return the thresholds with examples that differ from the present menu's."""
    if not lab.thresholds_gev:
        return {}
    rules = {channel["name"]: threshold_rule(channel) for channel in lab.task.public["channels"]}
    for name, rule in rules.items():
        rule["examples"] = [one for one in rule["examples"] if one != lab.thresholds_gev.get(name)]
    return {"thresholds_gev": {"properties": rules}}


def _affordable_fb(lab: Laboratory) -> float:
    """Return the largest luminosity of a run for which money and time are left."""
    if lab.beam is None:
        return 0.0
    limits = [lab.left.luminosity_fb]
    if lab.beam.cost_musd_per_fb:
        limits.append(lab.left.budget_musd / lab.beam.cost_musd_per_fb)
    if lab.beam.days_per_fb:
        limits.append(lab.left.days / lab.beam.days_per_fb)
    return _below(min(limits))


def _below(value: float) -> float:
    """Return a value rounded down to four significant digits."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.4g}")


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _preparation(lab: Laboratory) -> dict[str, Rules]:
    selection, found = lab.selection, dict[str, Rules]()
    if free := [name for name in lab.task.channels if selection.frozen or name not in selection.channels]:
        found["select_channel"] = {"channel": _one_of(free)}
    analyses = selection.channels
    if selection.frozen:
        closed = [
            name
            for name, analysis in analyses.items()
            if (usable := lab.usable(analysis)) and usable != analysis.opened
        ]
        return {**found, "unblind": {"channel": _one_of(closed)}} if closed else found
    if analyses:
        found["freeze_selection"] = {}
    recorded = [name for name in analyses if any(name in run.data for run in lab.runs)]
    if not recorded:
        return found
    found["build_invariant_mass"] = {"channel": _one_of(recorded)}
    if not lab.task.real_data:
        present = {analyses[name].findings.get("cut") for name in recorded}
        cuts = [cut / SCORE_BINS for cut in range(SCORE_BINS) if (cut, len(lab.runs)) not in present]
        found["optimise_selection"] = {"channel": _one_of(recorded), "cut": {"examples": cuts or [0.0]}}
    functions = {
        name: _other_functions(lab, analyses[name])
        for name in recorded
        if lab.tuning(analyses[name]).sum() >= TUNING_EVENTS
    }
    if functions:
        fresh = [one for one in BACKGROUND_FUNCTIONS if any(one in each for each in functions.values())]
        found["subtract_background"] = {"channel": _one_of(functions), "function": _one_of(fresh)}
    return found


def _other_functions(lab: Laboratory, analysis: ChannelAnalysis) -> list[str]:
    """Return the background functions that were not fitted last to the same data."""
    known = analysis.findings.get("background")
    return [
        function
        for function in BACKGROUND_FUNCTIONS
        if known != (function, analysis.cut, analysis.window_gev, analysis.fit_bins, len(lab.runs))
    ]


MASSES: Final = 3
"""Most masses among which small models choose."""

Known = Callable[[ChannelAnalysis, float], object]
"""Whether something is measured at a mass already."""

_KNOWN: Final[Mapping[str, Known]] = {
    "estimate_significance": lambda analysis, mass: f"z:{mass:g}" in analysis.findings,
    "fit_resonance": lambda analysis, mass: any(
        kind.startswith(f"fit:{mass:g}:") for kind in analysis.findings
    ),
    "measure_angular": lambda analysis, mass: f"angle:{mass:g}" in analysis.findings,
    "cross_check": lambda analysis, mass: f"check:{mass:g}" in analysis.findings,
    "set_limit": lambda analysis, mass: f"limit:{mass:g}" in analysis.findings,
}


def _inference(lab: Laboratory) -> dict[str, Rules]:
    opened = {name: one for name, one in lab.selection.channels.items() if one.opened}
    counts = {name: lab.spectrum(analysis) for name, analysis in opened.items()}
    analyses = {name: analysis for name, analysis in opened.items() if counts[name].any()}

    @cache
    def measurable(name: str, mass: float) -> bool:
        low, high = analyses[name].window_gev
        return low <= mass <= high and inference.has_events_near(lab, analyses[name], counts[name], mass)

    found: dict[str, Rules] = {}
    if unscanned := [name for name, analysis in analyses.items() if "scan" not in analysis.findings]:
        found["scan_bump"] = {"channel": _one_of(unscanned)}
    in_runs = {name: analysis for name, analysis in analyses.items() if len(analysis.opened) > 1}
    for tool, known in _KNOWN.items():
        possible = in_runs if tool == "cross_check" else analyses
        if possible and (tool != "measure_angular" or not lab.task.real_data):
            found[tool] = {"channel": _one_of(possible), **_masses(possible, known, measurable)}
    return {**found, **_claim(lab)}


def _shared_window(analyses: Iterable[ChannelAnalysis]) -> tuple[float, float]:
    windows = [analysis.window_gev for analysis in analyses]
    return max(low for low, _ in windows), min(high for _, high in windows)


def _grid(low: float, high: float, parts: int) -> list[float]:
    """Return masses between two others, evenly in their logarithm."""
    if not 0 < low < high:
        return []
    return [_short(low * (high / low) ** (part / parts)) for part in range(1, parts)]


def _masses(
    analyses: Mapping[str, ChannelAnalysis], known: Known, measurable: Callable[[str, float], bool]
) -> Rules:
    """Return the rule of a mass to measure in one of some channels."""
    windows = [analysis.window_gev for analysis in analyses.values()]
    rule: dict[str, Any] = {
        "minimum": min(low for low, _ in windows),
        "maximum": max(high for _, high in windows),
    }
    window = _shared_window(analyses.values())
    excesses = [
        excess["mass_gev"]
        for analysis in analyses.values()
        for excess in analysis.findings.get("scan", {}).get("candidates", ())
    ]
    for points in (excesses + _grid(*window, GRIDS[0]), *(_grid(*window, parts) for parts in GRIDS[1:])):
        fresh = (
            mass
            for mass in points
            if all(
                measurable(name, mass) and not known(analysis, mass) for name, analysis in analyses.items()
            )
        )
        if examples := list(islice(fresh, MASSES)):
            return {"mass_gev": {**rule, "examples": examples}}
    return {"mass_gev": rule}


def _claim(lab: Laboratory) -> dict[str, Rules]:
    """Return the claims that rest on a fit and an estimated significance."""
    measured = {
        name: found
        for name, analysis in lab.selection.channels.items()
        if analysis.opened
        and analysis.findings.get("fits")
        and (found := analysis.findings.get("significances"))
    }
    if not measured:
        return {}
    spans = [_claimable(lab, name, each["mass_gev"]) for name, found in measured.items() for each in found]
    name, best = max(
        ((name, each) for name, found in measured.items() for each in found),
        key=lambda pair: float(pair[1]["z_global"]),
    )
    errors = [fit["corrected_error_gev"] for fit in lab.selection.channels[name].findings["fits"]]
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    local, overall = max(best["z_local"], 0.0), best["z_global"]
    return {
        "submit_discovery_claim": {
            "channel": _one_of(measured),
            "mass_gev": {
                "minimum": low,
                "maximum": high,
                "examples": [min(high, max(low, best["mass_gev"] / lab.scale_of(name).scale))],
            },
            "mass_error_gev": {"examples": [error for error in errors if error > 0] or [_short(high / 100)]},
            "z_local": {"examples": [local]},
            "z_global": {"examples": [min(local, overall)]},
        }
    }


def _claimable(lab: Laboratory, channel: str, estimated_gev: float) -> tuple[float, float]:
    """Return the masses that count as the same excess, as measured or corrected for the scale."""
    width = inference.NEAR_SIGMA * inference.resolution_at(lab.selection.channels[channel], 1.0)
    scale = lab.scale_of(channel).scale
    low, high = estimated_gev / (1.0 + width), estimated_gev / max(1.0 - width, 1e-3)
    return min(low, low / scale), max(high, high / scale)
