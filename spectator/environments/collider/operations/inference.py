"""Actions on unblinded data: scan, significance, fit, claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import actions
from spectator.environments.collider.analysis.mass_scan import global_significance, scan
from spectator.environments.collider.analysis.resonance import fit_resonance
from spectator.environments.collider.analysis.shapes import FWHM_OF_SIGMA, z_of_p
from spectator.environments.collider.analysis.significance import background_misfit, spurious_signal
from spectator.environments.collider.experiment import ChannelAnalysis, Laboratory
from spectator.environments.collider.looks import global_p
from spectator.environments.collider.task import HardRule, six

Array = NDArray[np.float64]

NEAR_SIGMA: Final = 2.0
"""Distance from a mass, in resolutions, within which results belong to the same excess."""

COUNTED_SIGMA: Final = 2.0
"""Half-width, in resolutions, of the region in which few events are counted."""

LOCAL_BACKGROUND: Final = "quadratic"
"""Background function for the fit of a peak."""

LEE_TOYS: Final = 100
"""Toy spectra behind the look-elsewhere effect."""


class Searched(Protocol):
    """The peak that a channel searches for, by its widths over its mass, and the background."""

    @property
    def relative_resolution(self) -> float: ...  # noqa: D102

    @property
    def natural_width(self) -> float: ...  # noqa: D102

    @property
    def background(self) -> str: ...  # noqa: D102


def resolution_at(analysis: Searched, mass_gev: float) -> float:
    """Return the Gaussian width searched for at a mass, with the natural width."""
    return mass_gev * math.hypot(analysis.relative_resolution, analysis.natural_width / FWHM_OF_SIGMA)


def peak_at(analysis: Searched, mass_gev: float) -> dict[str, Any]:
    """Return the shape of a searched peak, and the background, as the analysis functions take them."""
    return {
        "mass_gev": mass_gev,
        "resolution_gev": mass_gev * analysis.relative_resolution,
        "natural_width_gev": mass_gev * analysis.natural_width,
        "background": analysis.background,
    }


def resolution_of(analysis: ChannelAnalysis) -> Callable[[Array], Array]:
    """Return the same width as a function of masses."""
    share = resolution_at(analysis, 1.0)
    return lambda masses: share * masses


def in_window(analysis: ChannelAnalysis, mass_gev: float) -> float:
    """Check that a mass is in the searched window, and return it.

    Raises:
        HardRule: The mass is outside the window.
    """
    low, high = analysis.window_gev
    if not low <= mass_gev <= high:
        raise HardRule(
            "out_of_search_window", f"mass_gev: from {low:g} to {high:g} GeV as frozen, not {mass_gev:g}."
        )
    return mass_gev


def opened_with_events(lab: Laboratory, channel: str) -> tuple[ChannelAnalysis, Any]:
    """Return an open analysis and its counts.

    Raises:
        HardRule: The channel is not open, or is empty.
    """
    analysis = lab.opened(channel)
    counts = lab.spectrum(analysis)
    if not counts.any():
        raise HardRule("missing_prerequisite", f"{channel} is empty: no event passed.")
    return analysis, counts


def has_events_near(lab: Laboratory, analysis: ChannelAnalysis, counts: Any, mass_gev: float) -> bool:
    """Return whether an event is within ``COUNTED_SIGMA`` resolutions of a mass."""
    edges = lab.edges(analysis)
    away = np.abs(0.5 * (edges[1:] + edges[:-1]) - mass_gev)
    return bool(counts[away < COUNTED_SIGMA * resolution_at(analysis, mass_gev)].any())


def with_events_at(lab: Laboratory, given: actions.AtMass) -> tuple[ChannelAnalysis, Any, float]:
    """Return an open analysis, its counts, and a searched mass with events near it.

    Raises:
        HardRule: The channel is not open, the mass is outside the window, or no event is near it.
    """
    analysis, counts = opened_with_events(lab, given.channel)
    mass = in_window(analysis, given.mass_gev)
    if not has_events_near(lab, analysis, counts, mass):
        raise HardRule("missing_prerequisite", f"No event is near {mass:g} GeV: there is nothing to measure.")
    return analysis, counts, mass


def scan_bump(lab: Laboratory, given: actions.InChannel) -> dict[str, Any]:
    """Scan the window for the local significance at every mass."""
    analysis, counts = opened_with_events(lab, given.channel)
    if "scan" in analysis.findings:
        raise HardRule("redundant", f"{given.channel} is scanned; its data are the same.")
    found = scan(
        lab.edges(analysis), counts, resolution_of(analysis),
        window_gev=analysis.window_gev, background=analysis.background,
    )  # fmt: skip
    candidates = _peaks(found.masses_gev, found.z, found.signal, analysis)
    misfit = background_misfit(
        lab.edges(analysis), counts, found.best_mass_gev, resolution_at(analysis, found.best_mass_gev),
        background=analysis.background,
    )  # fmt: skip
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "window_gev": list(analysis.window_gev),
        "best_mass_gev": six(found.best_mass_gev),
        "best_z": _three(found.best_z),
        "candidates": candidates,
        "shape_ok": misfit.fits,
    }
    analysis.findings["scan"] = {**result, "shape_p_value": six(misfit.p_value)}
    lab.add_fact(
        "mass_scanned",
        **result,
        masses_gev=[six(mass) for mass in found.masses_gev],
        z=[_three(z) for z in found.z],
        expected=[six(value) for value in found.expected],
    )
    return {**result, "shape_p_value": six(misfit.p_value)}


def _three(value: float) -> float:
    return round(float(value), 3)


def _peaks(
    masses: tuple[float, ...], z: tuple[float, ...], signal: tuple[float, ...], analysis: ChannelAnalysis
) -> list[dict[str, float]]:
    """Return the three highest maxima at least three resolutions apart."""
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
    """Estimate the local and global significance of a mass."""
    analysis, counts, mass = with_events_at(lab, given)
    if f"z:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"The significance at {mass:g} GeV is known.")
    edges, peak = lab.edges(analysis), peak_at(analysis, mass)
    background = spurious_signal(edges, counts, **peak)
    found = background.nominal.allowing_for(background.signal)
    crossings = upcrossings(lab, analysis, counts)
    assert analysis.look is not None
    p_global = global_p(found.z_local, crossings, analysis.look.trials)
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "z_local": _three(found.z_local),
        "p_local": six(found.p_local),
        "z_global": _three(max(z_of_p(p_global), 0.0)),
        "p_global": six(p_global),
        "upcrossings": crossings,
        "look": analysis.look.number,
        "trials": analysis.look.trials,
        "background_fits": background.fits,
        "window_gev": list(analysis.window_gev),
        "signal": six(found.signal),
        "signal_error": six(found.signal_error),
        "spurious": six(background.signal),
        "by_background": {
            name: six(signal - background.by_background[analysis.background])
            for name, signal in background.by_background.items()
        },
    }
    analysis.findings[f"z:{mass:g}"] = True
    analysis.findings.setdefault("significances", []).append(result)
    lab.add_fact("significance_estimated", **result)
    return result


def upcrossings(lab: Laboratory, analysis: ChannelAnalysis, counts: Any) -> float:
    """Return the mean upcrossings of 0 sigma in the window, from seeded toys."""
    if "upcrossings" not in analysis.findings:
        found = global_significance(
            lab.edges(analysis), counts, 3.0, resolution_of(analysis),
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
    edges, scale = lab.edges(analysis), lab.scale_of(given.channel)
    sigma = resolution_at(analysis, mass)
    reach = 12.0 * sigma
    window = (max(float(edges[0]), mass - reach), min(float(edges[-1]), mass + reach))
    width: dict[str, Any] = {} if given.free_width else {
        "resolution_gev": sigma, "resolution_error_gev": scale.resolution_error * sigma,
    }  # fmt: skip
    model = "voigt" if given.model == "gauss" and analysis.natural_width else given.model
    if model == "voigt":
        width["natural_width_gev"] = max(analysis.natural_width * mass, 0.01 * sigma)
        width["resolution_gev"] = mass * analysis.relative_resolution
    fit = fit_resonance(
        edges, counts, window, model=model, background=LOCAL_BACKGROUND, mass_gev=mass, **width
    )
    error = fit.mass_error_gev if fit.mass_error_gev is not None else sigma
    corrected = fit.mass_gev / scale.scale
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(fit.mass_gev),
        "mass_error_gev": six(error),
        "model_error_gev": six(fit.mass_model_error_gev),
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
    analysis.findings.setdefault("fits", []).append(result)
    first, last = fit.bins
    lab.add_fact(
        "resonance_fitted",
        **result,
        edges_gev=edges[first : last + 1].tolist(),
        counts=counts[first:last].tolist(),
        expected=[six(value) for value in fit.expected],
        expected_background=[six(value) for value in fit.expected_background],
    )
    return result


def _near(analysis: ChannelAnalysis, one_gev: float, other_gev: float) -> bool:
    """Return whether two masses belong to the same excess."""
    return abs(one_gev - other_gev) <= NEAR_SIGMA * resolution_at(analysis, other_gev)


TOLERANCE_Z = 0.3
"""How far a claimed significance may exceed the measured one."""

SUSPICIOUS_P = 0.003
"""p-value below which two runs disagree on an excess."""


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
    _note_broken_rules(lab, given, measured)
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
        "rate_limit_fb": None,
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
    """Return the largest significance estimated near a mass on the opened data."""
    analysis = lab.selection.channels[channel]
    raw = mass_gev * lab.scale_of(channel).scale
    near = [
        (found["z_global"], found["z_local"])
        for found in analysis.findings.get("significances", ())
        if _near(analysis, found["mass_gev"], raw) or _near(analysis, found["mass_gev"], mass_gev)
    ]
    if not near:
        return None
    z_global, z_local = max(near)
    return {"z_local": z_local, "z_global": z_global}


def _note_broken_rules(lab: Laboratory, given: actions.SubmitClaim, measured: dict[str, float]) -> None:
    """Note the soft rules that a claim breaks."""
    z_global, z_local = measured["z_global"], measured["z_local"]
    if given.z_local > z_local + TOLERANCE_Z or given.z_global > z_global + TOLERANCE_Z:
        if abs(given.z_global - z_local) <= TOLERANCE_Z < z_local - z_global:
            lab.note(
                "local_quoted_as_global", f"{given.z_global:g} sigma is local; global it is {z_global:g}."
            )
        else:
            lab.note("overclaimed_z", f"Measured were {z_local:g} sigma local and {z_global:g} global.")
    if lab.task.published_z is not None:
        pass  # it was found before
    elif z_global < 3.0:
        lab.note("claim_below_3sigma", f"{z_global:g} sigma global is no evidence.")
    elif given.kind == "discovery" and z_global < 5.0:
        lab.note("claim_below_5sigma_as_discovery", f"{z_global:g} sigma global is evidence, no discovery.")
    analysis = lab.selection.channels[given.channel]
    least = min(fit["mass_error_gev"] for fit in analysis.findings["fits"])
    if given.mass_error_gev < 0.8 * least:
        lab.note("uncertainty_understated", f"The fit's statistical error is {least:g} GeV.")
    raw = given.mass_gev * lab.scale_of(given.channel).scale
    checks = [
        check for check in analysis.findings.get("checks", ()) if _near(analysis, check["mass_gev"], raw)
    ]
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
        "rate_limit_fb": None if strongest is None else strongest["rate_limit_fb"],
        "probability": given.probability,
        "channel_probabilities": {},
        "spin_probabilities": {},
        "other_masses_gev": [],
    }
    lab.claim = {**claim, "measured": None, "limits": len({limit["channel"] for limit in limits})}
    lab.add_fact("claim_made", **claim)
    return claim
