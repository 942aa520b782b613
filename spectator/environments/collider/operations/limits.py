"""The action that sets an upper limit on a signal."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import actions
from spectator.environments.collider.analysis import counting_limit, fit_background, profile_significance
from spectator.environments.collider.analysis.normal import p_of_z, z_of_p
from spectator.environments.collider.experiment.laboratory import ChannelAnalysis, Laboratory
from spectator.environments.collider.experiment.task import six
from spectator.environments.collider.operations.exposure import events_per_fb
from spectator.environments.collider.operations.inference import (
    COUNTED_SIGMA,
    Array,
    edges_of,
    in_window,
    opened_with_events,
    resolution_at,
)
from spectator.environments.collider.rules import HardRule

LOWEST_PULL: Final = -6.0
"""A deficit is taken for no larger than this many sigma: beyond it the background does not fit."""

MANY_EVENTS: Final = 25
"""From as many events under a peak on, its yield is Gaussian."""


def set_limit(lab: Laboratory, given: actions.AtMass) -> dict[str, Any]:
    """Upper limit at a mass."""
    analysis, counts = opened_with_events(lab, given.channel)
    mass = in_window(analysis, given.mass_gev)
    if f"limit:{mass:g}" in analysis.findings:
        raise HardRule("redundant", f"The limit at {mass:g} GeV is set.")
    limit = _limit(edges_of(lab, given.channel), counts, mass, resolution_at(analysis, mass), analysis)
    told = {
        "selection_id": lab.selection.name,
        "channel": given.channel,
        "mass_gev": six(mass),
        "signal_limit": six(limit[0]),
        "expected_limit": six(limit[3]),
        "band": [six(limit[number]) for number in (1, 2, 4, 5)],
        "rate_limit_fb": six(limit[0] / max(events_per_fb(lab, analysis, mass), 1e-12)),
    }
    analysis.findings[f"limit:{mass:g}"] = True
    analysis.findings.setdefault("limits", []).append(told)
    lab.add_fact("limit_set", **told)
    return told


def _limit(
    edges: Array, counts: Any, mass: float, sigma: float, analysis: ChannelAnalysis
) -> tuple[float, float, float, float, float, float]:
    """Observed limit, then expected at -2, -1, 0, +1 and +2 sigma, in events.

    Where the peak would lie on many events the yield is Gaussian and CLs has a closed form (arXiv:1007.1727);
    where it would not, the events within two resolutions are counted.
    """
    near = np.abs(0.5 * (edges[1:] + edges[:-1]) - mass) < COUNTED_SIGMA * sigma
    if counts[near].sum() < MANY_EVENTS:
        return _counted(edges, counts, near, analysis.background)
    found = profile_significance(edges, counts, mass, sigma, background=analysis.background)
    error = found.signal_error
    best = max(found.signal, LOWEST_PULL * error)
    expected = [error * (z_of_p(0.05 * p_of_z(-number)) + number) for number in (-2, -1, 0, 1, 2)]
    observed = best + error * z_of_p(0.05 * p_of_z(-best / error))
    return observed, expected[0], expected[1], expected[2], expected[3], expected[4]


def _counted(
    edges: Array, counts: Any, near: NDArray[np.bool_], background: str
) -> tuple[float, float, float, float, float, float]:
    beside = np.where(near, 0, counts)
    if not beside.any():
        limits = [counting_limit(float(number), 0.0) for number in (counts[near].sum(), 0, 0, 0, 1, 2)]
    else:
        inside = np.flatnonzero(near)
        stretch = (float(edges[inside[0]]), float(edges[inside[-1] + 1]))
        fit = fit_background(edges, counts, background=background, exclude_gev=(stretch,))
        mean = float(np.asarray(fit.expected)[near].sum())
        error = mean / math.sqrt(float(beside.sum()))
        usual = [max(0.0, round(mean + number * math.sqrt(mean))) for number in (-2, -1, 0, 1, 2)]
        limits = [counting_limit(float(number), mean, error) for number in (counts[near].sum(), *usual)]
    share = math.erf(COUNTED_SIGMA / math.sqrt(2.0))
    first, *others = (limit / share for limit in limits)
    return first, others[0], others[1], others[2], others[3], others[4]
