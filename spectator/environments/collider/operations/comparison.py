"""Actions that compare spins, runs and theory, and the action that sets a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import actions, physics
from spectator.environments.collider.analysis.likelihood import covariance, peak_search
from spectator.environments.collider.analysis.shapes import design, p_of_z, z_of_p
from spectator.environments.collider.analysis.significance import (
    ProfileSignificance,
    background_misfit,
    counting_limit,
    limit_of,
    profile_significance,
)
from spectator.environments.collider.experiment import ChannelAnalysis, Counts, Laboratory
from spectator.environments.collider.operations.inference import (
    COUNTED_SIGMA,
    Array,
    in_window,
    opened_with_events,
    peak_at,
    resolution_at,
    with_events_at,
)
from spectator.environments.collider.operations.preparation import events_per_fb, run_yield, yield_error
from spectator.environments.collider.physics import energy_gain
from spectator.environments.collider.task import HardRule, six

MANY_EVENTS: Final = 25
"""Least events under a peak for a Gaussian yield."""

CURVE_MASSES: Final = 13
"""Masses at which the limits of a window are drawn, evenly in their logarithm."""

EVENTS_A_COEFFICIENT: Final = 20
"""Events of a spectrum for each coefficient of its background; with fewer a power law is fitted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits on the events of a peak: observed, and expected at -2 to +2 sigma.

    Args:
        best: The signal that fits best, 0 or more.
    """

    best: float
    observed: float
    expected: tuple[float, ...]

    def allowing_for(self, false_peak: float) -> Limits:
        """Return the limits with an error of the yield, in events, from a background that does not fit."""
        best, error = max(self.best, 0.0), z_of_p(0.05) * false_peak
        observed = best + math.hypot(self.observed - best, error)
        return Limits(self.best, observed, tuple(math.hypot(limit, error) for limit in self.expected))

    def rates(self, events_per_fb: float, error: float) -> tuple[float, list[float]]:
        """Return the same limits on a rate, in fb, allowing for the relative error of the events per fb."""
        kept, best = 1.0 - (z_of_p(0.05) * min(error, 0.5)) ** 2, max(0.0, min(self.best, self.observed))
        width = self.observed - best
        observed = (best + math.sqrt(best**2 - kept * (best**2 - width**2))) / kept
        scale = max(events_per_fb, 1e-12)
        return observed / scale, [limit / math.sqrt(kept) / scale for limit in self.expected]


def set_limit(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """Set an upper limit at a mass."""
    analysis, counts = opened_with_events(lab, given.channel)
    mass = in_window(analysis, given.mass_gev)
    if f"limit:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"The limit at {mass:g} GeV is set.")
    limits = _limits(lab.edges(analysis), counts, mass, analysis)
    lowest, low, expected, high, highest = limits.expected
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "signal_limit": six(limits.observed),
        "expected_limit": six(expected),
        "band": [six(limit) for limit in (lowest, low, high, highest)],
        "rate_limit_fb": six(limits.rates(*_yield(lab, analysis, mass))[0]),
    }
    analysis.findings[f"limit:{mass:g}"] = True
    analysis.findings.setdefault("limits", []).append(result)
    lab.add_fact("limit_set", **result, curve=_limit_curve(lab, analysis, counts) if lab.curves else None)
    return result


def _yield(lab: Laboratory, analysis: ChannelAnalysis, mass: float) -> tuple[float, float]:
    return events_per_fb(lab, analysis, mass), yield_error(lab, analysis, mass)


def _limit_curve(lab: Laboratory, analysis: ChannelAnalysis, counts: Any) -> dict[str, Any]:
    """Return the limits over the searched window, in fb."""
    if "limit_curve" not in analysis.findings:
        edges, masses = lab.edges(analysis), np.geomspace(*analysis.window_gev, CURVE_MASSES)
        rows = []
        for mass in map(float, masses):
            limits = _limits(edges, counts, mass, analysis, closed=True)
            observed, expected = limits.rates(*_yield(lab, analysis, mass))
            rows.append([six(limit) for limit in (observed, *expected)])
        analysis.findings["limit_curve"] = {
            "masses_gev": [six(mass) for mass in masses],
            "observed_fb": [row[0] for row in rows],
            "expected_fb": [row[3] for row in rows],
            "band_fb": [[row[1], row[2], row[4], row[5]] for row in rows],
        }
    curve: dict[str, Any] = analysis.findings["limit_curve"]
    return curve


def _limits(
    edges: Array, counts: Any, mass: float, analysis: ChannelAnalysis, *, closed: bool = False
) -> Limits:
    """Return the limits at a mass.

    With many events under the peak the profile likelihood is used, and a Gaussian yield for what is expected
    (arXiv:1007.1727); where no background fits, the false peaks beside the mass are an error of the yield.
    With few events, those within two resolutions are counted.

    Args:
        closed: Use a Gaussian yield for the observed limit too, which is ten times as fast.
    """
    sigma, peak = resolution_at(analysis, mass), peak_at(analysis, mass)
    near = np.abs(0.5 * (edges[1:] + edges[:-1]) - mass) < COUNTED_SIGMA * sigma
    if counts[near].sum() < MANY_EVENTS:
        return _counted(edges, counts, near, peak)
    search = peak_search(edges, counts, **peak)
    asimov = search.problem.with_counts(search.null.expected)
    error = asimov.error(asimov.fit(start=search.null.beta))
    expected = [error * (z_of_p(0.05 * p_of_z(-number)) + number) for number in (-2, -1, 0, 1, 2)]
    fit = search.problem.fit(start=search.null.beta)
    best = float(fit.theta[0])
    if closed:
        spread = search.problem.error(fit)
        observed = best + spread * z_of_p(0.05 * p_of_z(-best / spread))
    else:
        observed = limit_of(search.problem, search.null.expected)
    misfit = background_misfit(edges, counts, mass, sigma, background=analysis.background)
    return Limits(best, observed, tuple(expected)).allowing_for(misfit.signal)


def _counted(edges: Array, counts: Any, near: NDArray[np.bool_], peak: dict[str, Any]) -> Limits:
    """Return the limits by the events in a region, of which the background is fitted together with a peak.

    All bins are fitted: at the end of a spectrum a fit beside the region would extrapolate to anything.
    """
    function = peak["background"]
    if counts.sum() < EVENTS_A_COEFFICIENT * design(function, edges).shape[1]:
        function = "power_law"
    search = peak_search(edges, counts, **{**peak, "background": function})
    problem, start = search.problem, search.null.beta
    fit, free = problem.fit(start=start), np.ones(1 + len(start), dtype=bool)
    if fit.theta[0] < 0:
        fit, free[0] = problem.fit(0.0, start), False
    slope = problem.derivatives(fit.theta)[near].sum(axis=0)
    slope[0] = 0.0
    mean = float(problem.background(fit.theta)[near].sum())
    error = math.sqrt(max(0.0, float(slope @ covariance(problem, fit, free) @ slope)))
    seen, share = float(counts[near].sum()), float(problem.template[near].sum())
    usual = [max(0.0, round(mean + number * math.sqrt(mean))) for number in (-2, -1, 0, 1, 2)]
    observed, *expected = (counting_limit(number, mean, error) / share for number in (seen, *usual))
    return Limits((seen - mean) / share, observed, tuple(expected))


def measure_angular(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """Compare the possible spins by the decay angles in the peak and beside it."""
    analysis, counts, mass = with_events_at(lab, given)
    if lab.task.real_data:
        raise HardRule("missing_prerequisite", "The real data hold no decay angles.")
    if f"angle:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"The angles at {mass:g} GeV are measured.")
    edges, sigma = lab.edges(analysis), resolution_at(analysis, mass)
    table = sum(
        (lab.angles(analysis, run) for run in analysis.opened),
        start=np.zeros((len(edges) - 1, len(physics.ANGLE_EDGES) - 1), dtype=np.int64),
    )
    far = np.abs(np.sqrt(edges[1:] * edges[:-1]) - mass) / sigma
    peak, side = far < 1.6, (far > 3.0) & (far < 14.0)
    in_peak, beside = table[peak].sum(axis=0), table[side].sum(axis=0)
    found = _fit(lab, analysis, counts, mass)
    signal = max(0.0, min(0.89 * found.signal, float(in_peak.sum())))
    expected = float(in_peak.sum()) - signal
    shape = (beside + 0.5) / (beside.sum() + 0.5 * len(beside))
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "edges_cos": [six(edge) for edge in physics.ANGLE_EDGES],
        "counts": in_peak.tolist(),
        "background": [six(value) for value in expected * shape],
        **_hypotheses(in_peak, expected * shape, signal, given.channel),
    }
    analysis.findings[f"angle:{mass:g}"] = True
    analysis.findings["angle"] = result
    lab.add_fact("angle_measured", **result)
    return result


def _hypotheses(counts: Any, background: Any, signal: float, channel: str) -> dict[str, Any]:
    spins = physics.possible_spins(channel)
    densities = {spin: physics.signal_angles(spin, channel) for spin in spins}
    expected = {spin: background + max(signal, 1e-6) * density for spin, density in densities.items()}
    scores = {
        spin: float((counts * np.log(np.maximum(rate, 1e-9)) - rate).sum()) for spin, rate in expected.items()
    }
    best = max(scores, key=lambda spin: scores[spin])
    separation = {}
    for spin, rate in expected.items():
        if spin != best:
            q = 2.0 * float(
                (
                    expected[best] * np.log(expected[best] / np.maximum(rate, 1e-9)) - expected[best] + rate
                ).sum()
            )
            separation[str(spin)] = round(math.sqrt(max(q, 0.0)), 3)
    return {
        "log_likelihood": {str(spin): six(score - scores[best]) for spin, score in scores.items()},
        "best": str(best),
        "expected_separation": separation,
        "excluded": {} if 1 in spins else {"1": "spin 1 cannot decay to two photons (Landau and Yang)"},
    }


def cross_check(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """Compare the rate of an excess in runs of lower thresholds with that in the others.

    A real resonance has the same rate in both. If all thresholds are equal, the newest run is compared with
    those before.
    """
    analysis, _, mass = with_events_at(lab, given)
    if f"check:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"That check at {mass:g} GeV is done.")
    if len(analysis.opened) < 2:
        raise HardRule(
            "missing_prerequisite", "The check needs two opened runs, best of different thresholds."
        )
    thresholds = {run: lab.runs[run - 1].thresholds_gev[analysis.channel] for run in analysis.opened}
    middle = math.sqrt(min(thresholds.values()) * max(thresholds.values()))
    lower = tuple(run for run in analysis.opened if thresholds[run] < middle) or analysis.opened[-1:]
    others = tuple(run for run in analysis.opened if run not in lower)
    one, two = _strength(lab, analysis, others, mass), _strength(lab, analysis, lower, mass)
    pull = abs(one[0] - two[0]) / math.hypot(one[1], two[1])
    result = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "first": "+".join(f"run-{run}" for run in others),
        "second": "+".join(f"run-{run}" for run in lower),
        "first_value": six(one[0]),
        "first_error": six(one[1]),
        "second_value": six(two[0]),
        "second_error": six(two[1]),
        "p_value": six(min(1.0, 2.0 * p_of_z(pull))),
    }
    analysis.findings[f"check:{mass:g}"] = True
    analysis.findings.setdefault("checks", []).append(result)
    lab.add_fact("cross_checked", **result)
    return result


def _strength(
    lab: Laboratory, analysis: ChannelAnalysis, runs: tuple[int, ...], mass: float
) -> tuple[float, float]:
    counts = lab.spectrum(analysis, runs)
    exposure = sum(run_yield(lab, analysis, run, mass) for run in runs)
    if not counts.any() or exposure < 1e-9:
        raise HardRule("missing_prerequisite", "One of the two samples is empty at that mass.")
    found = _fit(lab, analysis, counts, mass)
    return found.signal / exposure, max(found.signal_error, 1.0) / exposure


def _fit(lab: Laboratory, analysis: ChannelAnalysis, counts: Counts, mass: float) -> ProfileSignificance:
    """Fit the signal at a mass."""
    return profile_significance(lab.edges(analysis), counts, **peak_at(analysis, mass))


def request_theory_review(lab: Laboratory, given: actions.ReviewTheory) -> dict[str, Any]:
    """Return energy dependence and possible spins; the same in every campaign."""
    low, high = lab.task.window_gev
    if not low / 2 <= given.mass_gev <= 2 * high:
        raise HardRule("out_of_search_window", f"mass_gev: near the window of {low:g} to {high:g} GeV.")
    result = {
        "mass_gev": six(given.mass_gev),
        "energy_gain": {
            f"{initial} {beam.sqrt_s_tev:g}": six(energy_gain(initial, given.mass_gev, beam.sqrt_s_tev))
            for beam in lab.task.beams
            for initial in ("gg", "qq")
        },
        "spins": {name: list(offer.channel.spins) for name, offer in lab.task.channels.items()},
        "comment": "Backgrounds of leptons and photons grow as qq, those of jets as gg.",
    }
    lab.add_fact("theory_reviewed", **result)
    return result
