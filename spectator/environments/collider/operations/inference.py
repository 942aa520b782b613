"""Actions on unblinded data: scan, significance, fit, systematics and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import actions
from spectator.environments.collider.analysis import (
    fit_resonance,
    global_significance,
    profile_significance,
    scan,
    spurious_signal,
)
from spectator.environments.collider.analysis.normal import p_of_z, z_of_p
from spectator.environments.collider.experiment.laboratory import ChannelAnalysis, Laboratory
from spectator.environments.collider.experiment.task import six
from spectator.environments.collider.rules import HardRule

Array = NDArray[np.float64]

NEAR_SIGMA: Final = 2.0
"""How far from a mass, in resolutions, results still speak of the same excess."""

COUNTED_SIGMA: Final = 2.0
"""Events within so many resolutions are counted where there are few."""

LOCAL_BACKGROUND: Final = "quadratic"
"""What a fit of a peak takes for the background near it."""

LEE_TOYS: Final = 100
SHAPE_P_VALUE: Final = 0.01
"""Below it the background function does not describe the data."""


def edges_of(lab: Laboratory, channel: str) -> Array:
    """Edges of the channel's fit window."""
    return lab.task.channels[channel].edges_gev


def resolution_at(analysis: ChannelAnalysis, mass_gev: float) -> float:
    """Gaussian width that is searched for at a mass, the natural width added in quadrature."""
    return mass_gev * math.hypot(analysis.relative_resolution, analysis.natural_width / 2.355)


def resolution_of(analysis: ChannelAnalysis) -> Callable[[Array], Array]:
    """The same as a function of masses."""
    share = math.hypot(analysis.relative_resolution, analysis.natural_width / 2.355)
    return lambda masses: share * masses


def in_window(analysis: ChannelAnalysis, mass_gev: float) -> float:
    """``mass_gev``, if it was searched.

    Raises:
        HardRule: It lies outside.
    """
    low, high = analysis.window_gev
    if not low <= mass_gev <= high:
        raise HardRule(
            "out_of_search_window", f"mass_gev: from {low:g} to {high:g} GeV as frozen, not {mass_gev:g}."
        )
    return mass_gev


def opened_with_events(lab: Laboratory, channel: str) -> tuple[ChannelAnalysis, Any]:
    """An open analysis and its counts, of which there are some.

    Raises:
        HardRule: It is not open, or empty.
    """
    analysis = lab.opened(channel)
    counts = lab.spectrum(analysis)
    if not counts.any():
        raise HardRule("missing_prerequisite", f"{channel} is empty: no event passed.")
    return analysis, counts


def with_events_at(lab: Laboratory, given: actions.AtMass) -> tuple[ChannelAnalysis, Any, float]:
    """An open analysis, its counts, and a mass that was searched and near which there are events.

    Raises:
        HardRule: It is not open, the mass lies outside, or nothing is near it.
    """
    analysis, counts = opened_with_events(lab, given.channel)
    mass = in_window(analysis, given.mass_gev)
    edges = edges_of(lab, given.channel)
    near = np.abs(0.5 * (edges[1:] + edges[:-1]) - mass) < COUNTED_SIGMA * resolution_at(analysis, mass)
    if not counts[near].any():
        raise HardRule("missing_prerequisite", f"No event is near {mass:g} GeV: there is nothing to measure.")
    return analysis, counts, mass


def scan_bump(lab: Laboratory, given: actions.InChannel) -> dict[str, Any]:
    """Local significance at every mass of the window."""
    analysis, counts = opened_with_events(lab, given.channel)
    if "scan" in analysis.findings:
        raise HardRule("redundant", f"{given.channel} is scanned; its data are the same.")
    found = scan(
        edges_of(lab, given.channel), counts, resolution_of(analysis),
        window_gev=analysis.window_gev, background=analysis.background,
    )  # fmt: skip
    candidates = _peaks(found.masses_gev, found.z, found.signal, analysis)
    told = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "window_gev": list(analysis.window_gev),
        "best_mass_gev": six(found.best_mass_gev),
        "best_z": _three(found.best_z),
        "candidates": candidates,
        "shape_ok": bool(found.background_p_value >= SHAPE_P_VALUE),
    }
    analysis.findings["scan"] = {**told, "shape_p_value": six(found.background_p_value)}
    lab.add_fact(
        "mass_scanned",
        **told,
        masses_gev=[six(mass) for mass in found.masses_gev],
        z=[_three(z) for z in found.z],
    )
    return {**told, "shape_p_value": six(found.background_p_value)}


def _three(value: float) -> float:
    return round(float(value), 3)


def _peaks(
    masses: tuple[float, ...], z: tuple[float, ...], signal: tuple[float, ...], analysis: ChannelAnalysis
) -> list[dict[str, float]]:
    """The three highest maxima that lie at least three resolutions apart."""
    chosen: list[int] = []
    for index in np.argsort(z)[::-1]:
        width = 3.0 * resolution_at(analysis, masses[index])
        if all(abs(masses[index] - masses[other]) > width for other in chosen):
            chosen.append(int(index))
        if len(chosen) == 3:
            break
    return [
        {"mass_gev": six(masses[index]), "z_local": _three(z[index]), "signal": six(signal[index])}
        for index in chosen
    ]


def estimate_significance(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """Local and global significance of a mass."""
    analysis, counts, mass = with_events_at(lab, given)
    if f"z:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"The significance at {mass:g} GeV is known.")
    spurious = analysis.findings.get("spurious", {}).get("spurious")
    found = profile_significance(
        edges_of(lab, given.channel), counts, mass, resolution_at(analysis, mass),
        background=analysis.background, spurious_signal=spurious or 0.0,
    )  # fmt: skip
    crossings = upcrossings(lab, analysis, counts)
    searched = len(lab.selection.seen)
    p_global = global_p(found.z_local, crossings, searched)
    told = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "z_local": _three(found.z_local),
        "p_local": six(found.p_local),
        "z_global": _three(max(z_of_p(p_global), 0.0)),
        "p_global": six(p_global),
        "upcrossings": crossings,
        "channels_searched": searched,
        "window_gev": list(analysis.window_gev),
        "signal": six(found.signal),
        "signal_error": six(found.signal_error),
        "spurious": spurious,
    }
    analysis.findings[f"z:{mass:g}"] = True
    analysis.findings.setdefault("significances", []).append(told)
    lab.add_fact("significance_estimated", **told)
    return told


def global_p(z_local: float, upcrossings: float, channels: int) -> float:
    """Chance of an excess like it anywhere in the window of any channel (Gross and Vitells, then Sidak)."""
    p = min(1.0, p_of_z(z_local) + upcrossings * math.exp(-0.5 * max(z_local, 0.0) ** 2))
    return float(-math.expm1(channels * math.log1p(-min(p, 1.0 - 1e-16))))


def upcrossings(lab: Laboratory, analysis: ChannelAnalysis, counts: Any) -> float:
    """Mean upcrossings of 0 sigma in the window, from toys of a stream that belongs to the data."""
    if "upcrossings" not in analysis.findings:
        found = global_significance(
            edges_of(lab, analysis.channel), counts, 3.0, resolution_of(analysis),
            window_gev=analysis.window_gev, background=analysis.background, toys=LEE_TOYS,
        )  # fmt: skip
        analysis.findings["upcrossings"] = _three(found.upcrossings)
    crossings: float = analysis.findings["upcrossings"]
    return crossings


def fit_peak(lab: Laboratory, given: actions.FitResonance) -> dict[str, Any]:
    """Fit mass, width and yield of a peak."""
    analysis, counts, mass = with_events_at(lab, given)
    key = f"fit:{mass:g}:{given.model}:{given.free_width}"
    if key in analysis.findings:
        raise HardRule("redundant", f"That fit at {mass:g} GeV is done; its data are the same.")
    edges, scale = edges_of(lab, given.channel), lab.scale_of(given.channel)
    sigma = resolution_at(analysis, mass)
    reach = 12.0 * sigma
    window = (max(float(edges[0]), mass - reach), min(float(edges[-1]), mass + reach))
    held: dict[str, Any] = {} if given.free_width else {
        "resolution_gev": sigma, "resolution_error_gev": scale.resolution_error * sigma,
    }  # fmt: skip
    if given.model == "voigt":
        held["natural_width_gev"] = max(analysis.natural_width * mass, 0.01 * sigma)
        held["resolution_gev"] = mass * analysis.relative_resolution
    fit = fit_resonance(
        edges, counts, window, model=given.model, background=LOCAL_BACKGROUND, mass_gev=mass, **held
    )
    error = fit.mass_error_gev if fit.mass_error_gev is not None else sigma
    corrected = fit.mass_gev / scale.scale
    told = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(fit.mass_gev),
        "mass_error_gev": six(error),
        "corrected_mass_gev": six(corrected),
        "corrected_error_gev": six(math.hypot(error, scale.scale_error * corrected)),
        "width_gev": six(fit.width_gev),
        "signal": six(fit.signal),
        "signal_error": six(fit.signal_error or 0.0),
        "z_local": _three(fit.z_local or 0.0),
        "chi2": six(fit.chi2),
        "ndf": fit.ndf,
        "converged": bool(fit.converged),
    }
    analysis.findings[key] = True
    analysis.findings.setdefault("fits", []).append(told)
    first, last = fit.bins
    lab.add_fact(
        "resonance_fitted",
        **told,
        edges_gev=edges[first : last + 1].tolist(),
        counts=counts[first:last].tolist(),
        expected=[six(value) for value in fit.expected],
        expected_background=[six(value) for value in fit.expected_background],
    )
    return told


def request_systematics(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """How far other background functions that fit as well would move the signal."""
    analysis, counts, mass = with_events_at(lab, given)
    known = analysis.findings.get("spurious")
    if known and abs(known["mass_gev"] - mass) < resolution_at(analysis, mass):
        raise HardRule("redundant", f"The systematics at {known['mass_gev']:g} GeV are known.")
    found = spurious_signal(
        edges_of(lab, given.channel),
        counts,
        mass,
        resolution_at(analysis, mass),
        background=analysis.background,
    )
    nominal = found.by_background[analysis.background]
    by_background = {name: six(signal - nominal) for name, signal in found.by_background.items()}
    told = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "spurious": six(found.signal),
        "relative_to_error": _three(found.relative_to_error),
        "by_background": by_background,
    }
    analysis.findings["spurious"] = told
    for name in [name for name in analysis.findings if name.startswith("z:")]:
        del analysis.findings[name]
    lab.add_fact("systematics_assessed", **told)
    return told
