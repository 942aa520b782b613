"""Actions before unblinding: channels, cuts, windows, backgrounds, and the freeze.

The signal yield of opened runs is computed here too, from public numbers only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import actions, physics
from spectator.environments.collider.analysis.shapes import fit_background
from spectator.environments.collider.experiment import ChannelAnalysis, Laboratory, Selection, generator
from spectator.environments.collider.looks import charge
from spectator.environments.collider.nature import isolation_efficiency
from spectator.environments.collider.physics import energy_gain
from spectator.environments.collider.task import HardRule, six

SIMULATION_ERROR = 0.03
"""Relative error of the simulated score of a signal."""

EFFICIENCY_ERROR = 0.05
"""Relative error of the simulated acceptance times efficiency of a channel."""

_CLOSE = 1e-5
"""Relative rounding of the edges in the task."""


def select_channel(lab: Laboratory, given: actions.SelectChannel) -> dict[str, Any]:
    """Set up the analysis of a channel, in a new selection if the current one is frozen."""
    offer = lab.task.channels.get(given.channel)
    if offer is None:
        raise HardRule(
            "channel_mismatch",
            f"No channel {given.channel[:40]!r}; on offer: {', '.join(lab.task.channels)}.",
        )
    if not lab.selection.frozen and given.channel in lab.selection.channels:
        raise HardRule("redundant", f"{given.channel} is selected already.")
    selection = _open_selection(lab)
    selection.channels[given.channel] = ChannelAnalysis(
        given.channel,
        lab.task.window_gev,
        (0, len(offer.edges_gev) - 1),
        closed_runs=frozenset(_seen_runs(lab, given.channel)),
    )
    result = {
        "selection_id": selection.name,
        "channel": given.channel,
        "relative_resolution": offer.relative_resolution,
    }
    lab.add_fact("channel_selected", **result)
    return result


def _open_selection(lab: Laboratory) -> Selection:
    if lab.selection.frozen:
        lab.previous.append(lab.selection)
        lab.selection = Selection(lab.selection.number + 1)
    return lab.selection


def _seen_runs(lab: Laboratory, channel: str) -> set[int]:
    return {
        run
        for selection in (*lab.previous, lab.selection)
        for name, analysis in selection.channels.items()
        if name == channel
        for run in analysis.opened
    }


def _tunable(lab: Laboratory, channel: str) -> ChannelAnalysis:
    """Return the analysis of a channel that can still be changed."""
    analysis = lab.analysis(channel)
    if lab.selection.frozen:
        raise HardRule(
            "missing_prerequisite", f"{lab.selection.name} is frozen; select_channel opens a new selection."
        )
    return analysis


def _recorded(lab: Laboratory, channel: str) -> None:
    if not any(channel in run.data for run in lab.runs):
        raise HardRule(
            "missing_prerequisite", f"Nothing is recorded in {channel}; it must be in the trigger menu."
        )


def optimise_selection(lab: Laboratory, given: actions.OptimiseSelection) -> dict[str, Any]:
    """Set the cut and compare it with other cuts.

    Signal efficiency comes from simulation, background efficiency from the tuning sample.
    """
    analysis = _tunable(lab, given.channel)
    _recorded(lab, given.channel)
    if lab.task.real_data:
        raise HardRule("missing_prerequisite", "The real data hold no score: there is nothing to cut on.")
    cut = round(given.cut * physics.SCORE_BINS)
    if analysis.findings.get("cut") == (cut, len(lab.runs)):
        raise HardRule("redundant", "The cut is that already.")
    analysis.cut = cut
    analysis.findings["cut"] = (cut, len(lab.runs))
    table = _efficiencies(lab, given.channel)
    result = {"selection_id": lab.selection.name, "channel": given.channel, **table[cut]}
    lab.add_fact("selection_optimised", **result)
    return {
        **result,
        "tuning_events": int(
            sum(run.data[given.channel].tuning.sum() for run in lab.runs if given.channel in run.data)
        ),
        "table": [
            [row["cut"], row["signal_efficiency"], row["background_efficiency"], row["gain"]] for row in table
        ],
    }


def simulated_shares(lab: Laboratory, channel: str) -> NDArray[np.float64]:
    """Return the simulated shares of a signal in the score bins, good to 3 %."""
    off = generator(lab.seed, "simulation", channel).normal(0.0, SIMULATION_ERROR, physics.SCORE_BINS)
    simulated = physics.score_shares(*lab.nature.shapes[channel].signal) * np.exp(off)
    return np.asarray(simulated / simulated.sum())


def _efficiencies(lab: Laboratory, channel: str) -> list[dict[str, float]]:
    simulated = simulated_shares(lab, channel)
    scores = sum(
        (run.data[channel].tuning.sum(axis=0) for run in lab.runs if channel in run.data),
        start=np.zeros(physics.SCORE_BINS, dtype=np.int64),
    )
    total = max(int(scores.sum()), 1)
    rows = []
    for cut in range(physics.SCORE_BINS):
        signal, passed = float(simulated[cut:].sum()), int(scores[cut:].sum())
        share = (passed + 0.5) / (total + 1.0)
        rows.append(
            {
                "cut": cut / physics.SCORE_BINS,
                "signal_efficiency": six(signal),
                "signal_efficiency_error": six(SIMULATION_ERROR * signal * (1.0 - signal)),
                "background_efficiency": six(share),
                "background_efficiency_error": six(math.sqrt(share * (1.0 - min(share, 1.0)) / total)),
                "gain": six(signal / math.sqrt(share)),
            }
        )
    return rows


def build_invariant_mass(lab: Laboratory, given: actions.BuildInvariantMass) -> dict[str, Any]:
    """Set the search window and show the spectrum, blinded in the whole window of the task."""
    analysis, offer = _tunable(lab, given.channel), lab.task.channels[given.channel]
    _recorded(lab, given.channel)
    low, high = given.window_gev or lab.task.window_gev
    first, last = lab.task.window_gev
    if not (first <= low < high <= last):
        raise HardRule(
            "invalid_parameters",
            f"window_gev: {first:g} <= low < high <= {last:g} GeV, not [{low:g}, {high:g}].",
        )
    edges = offer.edges_gev
    if int(((edges[1:] > low) & (edges[:-1] < high)).sum()) < 4:
        raise HardRule("invalid_parameters", "window_gev: at least four bins, about two resolutions.")
    analysis.fit_bins = _fit_bins(edges, (low, high), given.fit_window_gev)
    analysis.window_gev, analysis.natural_width = (low, high), given.natural_width
    edges = lab.edges(analysis)
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "window_gev": [low, high],
        "fit_window_gev": [float(edges[0]), float(edges[-1])],
        "edges_gev": edges.tolist(),
        "counts": lab.tuning(analysis).tolist(),
        "sidebands": lab.sidebands(analysis).tolist(),
        "blinded_gev": [first, last],
    }
    lab.add_fact("spectrum_built", **result)
    return {
        "channel": given.channel,
        "window_gev": [low, high],
        "fit_window_gev": result["fit_window_gev"],
        "tuning_events": int(sum(result["counts"])),
        "sideband_events": int(sum(result["sidebands"])),
        "tuning_sample": coarse(edges, lab.tuning(analysis)),
    }


def _fit_bins(
    edges: NDArray[np.float64], window: tuple[float, float], asked: list[float] | None
) -> tuple[int, int]:
    """Return the bins that touch the fit window; by default all.

    Raises:
        HardRule: The fit window does not hold the search window, or is outside the data.
    """
    if asked is None:
        return 0, len(edges) - 1
    low, high = asked
    if not (edges[0] - _CLOSE * low <= low <= window[0] and window[1] <= high <= edges[-1] + _CLOSE * high):
        raise HardRule(
            "invalid_parameters",
            f"fit_window_gev: from at least {edges[0]:g} to at most {edges[-1]:g} GeV, around the window of "
            f"{window[0]:g} to {window[1]:g} GeV; not [{low:g}, {high:g}].",
        )
    touched = np.flatnonzero((edges[1:] > low) & (edges[:-1] < high))
    return int(touched[0]), int(touched[-1]) + 1


def coarse(edges: Any, counts: Any, most: int = 40) -> list[list[float]]:
    """Merge a spectrum into at most ``most`` bins: [low edge, events] of each."""
    step = math.ceil(len(counts) / most)
    starts = range(0, len(counts), step)
    return [[float(f"{edges[start]:.4g}"), int(counts[start : start + step].sum())] for start in starts]


def subtract_background(lab: Laboratory, given: actions.SubtractBackground) -> dict[str, Any]:
    """Choose a background function and fit it to the tuning sample and the sidebands."""
    analysis, offer = _tunable(lab, given.channel), lab.task.channels[given.channel]
    _recorded(lab, given.channel)
    key = (given.function, analysis.cut, analysis.window_gev, analysis.fit_bins, len(lab.runs))
    if analysis.findings.get("background") == key:
        raise HardRule("redundant", "It is fitted already.")
    edges, counts = lab.edges(analysis), lab.tuning(analysis)
    if counts.sum() < actions.TUNING_EVENTS:
        raise HardRule(
            "missing_prerequisite", "Fewer than ten tuning events: record more, or loosen the cut."
        )
    blinded, outside = offer.blinded[slice(*analysis.fit_bins)], lab.sidebands(analysis)
    fit = fit_background(edges, counts, background=given.function)
    side = None
    if outside.sum() >= 10 and (~blinded).sum() >= 8:
        inside = np.flatnonzero(blinded)
        stretch = (float(edges[inside[0]]), float(edges[inside[-1] + 1]))
        side = fit_background(edges, outside, background=given.function, exclude_gev=(stretch,))
    analysis.background = given.function
    analysis.findings["background"] = key
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "function": given.function,
        "chi2": six(fit.chi2),
        "ndf": fit.ndf,
        "p_value": six(fit.p_value),
    }
    lab.add_fact(
        "background_estimated",
        **result,
        edges_gev=edges.tolist(),
        expected=[six(value) for value in fit.expected],
    )
    return {**result, "sideband_p_value": None if side is None else six(side.p_value)}


def freeze_selection(lab: Laboratory, given: actions.NoArguments) -> dict[str, Any]:
    """Freeze the selection: channels, cuts, windows and backgrounds."""
    selection = lab.selection
    if selection.frozen:
        raise HardRule("redundant", f"{selection.name} is frozen already.")
    if not selection.channels:
        raise HardRule("missing_prerequisite", "select_channel comes before freeze_selection.")
    frozen = []
    for name, analysis in selection.channels.items():
        analysis.relative_resolution = lab.expected_resolution(name)
        analysis.background = _settled(lab, analysis)
        frozen.append(
            {
                "channel": name,
                "cuts": {"score": analysis.cut / physics.SCORE_BINS},
                "window_gev": list(analysis.window_gev),
                "fit_window_gev": [float(edge) for edge in lab.edges(analysis)[[0, -1]]],
                "relative_resolution": analysis.relative_resolution,
                "natural_width": analysis.natural_width,
                "background": analysis.background,
            }
        )
    selection.frozen = True
    result = {"selection_id": selection.name, "channels": frozen}
    lab.add_fact("selection_frozen", **result)
    return result


def _settled(lab: Laboratory, analysis: ChannelAnalysis) -> str:
    """Return the background function; if none was chosen, one that fits."""
    if analysis.background != "auto":
        return analysis.background
    counts = lab.tuning(analysis)
    if counts.sum() < 10:
        return "power_law"
    return fit_background(lab.edges(analysis), counts).background


def unblind(lab: Laboratory, given: actions.InChannel) -> dict[str, Any]:
    """Open the search sample of a channel."""
    analysis = lab.analysis(given.channel)
    if not lab.selection.frozen:
        raise HardRule("unblind_before_freeze", "freeze_selection comes before unblind.")
    runs = lab.usable(analysis)
    if not runs:
        raise HardRule("missing_prerequisite", f"No run that {given.channel} may still open: record more.")
    if runs == analysis.opened:
        raise HardRule("redundant", f"{given.channel} is open in {len(runs)} runs already.")
    sharing = [each for each in lab.selection.channels.values() if lab.usable(each)]
    look = charge(lab.looks, f"{lab.selection.name} run-{runs[-1]}", len(sharing))
    analysis.opened, analysis.look = runs, look
    analysis.findings = {}
    edges, counts = lab.edges(analysis), lab.spectrum(analysis)
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "datasets": [f"run-{run}" for run in runs],
        "luminosity_fb": six(sum(lab.runs[run - 1].luminosity_fb for run in runs)),
        "look": look.number,
        "trials": look.trials,
    }
    lab.add_fact(
        "unblinded",
        **result,
        edges_gev=edges.tolist(),
        counts=counts.tolist(),
        window_gev=list(analysis.window_gev),
    )
    return {**result, "events": int(counts.sum()), "spectrum": coarse(edges, counts, 60)}


def events_per_fb(lab: Laboratory, analysis: ChannelAnalysis, mass_gev: float) -> float:
    """Return selected signal events per fb at 13 TeV, in the opened runs."""
    return sum(run_yield(lab, analysis, number, mass_gev) for number in analysis.opened)


def yield_error(lab: Laboratory, analysis: ChannelAnalysis, mass_gev: float) -> float:
    """Return the relative error of :func:`events_per_fb`.

    It comes from the efficiency, from the simulated score, and from the gain of the energies, since the
    production is unknown.
    """
    cut = 0.0 if lab.task.real_data else simulated_shares(lab, analysis.channel)[: analysis.cut].sum()
    moved = total = 0.0
    for number in analysis.opened:
        energy, events = lab.runs[number - 1].beam.sqrt_s_tev, run_yield(lab, analysis, number, mass_gev)
        moved += events * math.log(energy_gain("gg", mass_gev, energy) / _gain(mass_gev, energy))
        total += events
    return math.hypot(EFFICIENCY_ERROR, SIMULATION_ERROR * float(cut), moved / max(total, 1e-300))


def run_yield(lab: Laboratory, analysis: ChannelAnalysis, number: int, mass_gev: float) -> float:
    """Return selected signal events per fb at 13 TeV, in one run.

    At other energies the gain is the geometric mean of gluon fusion and quark annihilation, because the
    production is unknown.
    """
    run, offer = lab.runs[number - 1], lab.task.channels[analysis.channel]
    passing = float(physics.trigger_efficiency(np.array([mass_gev]), run.thresholds_gev[analysis.channel])[0])
    kept = 1.0 if lab.task.real_data else float(simulated_shares(lab, analysis.channel)[analysis.cut :].sum())
    exposed = run.luminosity_fb * run.live_fraction * (1.0 - run.tuning_fraction)
    return (
        exposed
        * isolation_efficiency(run.beam.pileup)
        * offer.efficiency
        * passing
        * _gain(mass_gev, run.beam.sqrt_s_tev)
        * kept
    )


@lru_cache(maxsize=256)
def _gain(mass_gev: float, sqrt_s_tev: float) -> float:
    return math.sqrt(energy_gain("gg", mass_gev, sqrt_s_tev) * energy_gain("qq", mass_gev, sqrt_s_tev))
