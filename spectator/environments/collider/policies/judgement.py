"""Judgements that a careful physicist makes of numbers: beams, thresholds, cuts, candidates, chances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TURN_ON: Final = 2.2 * 1.24
"""Mass from which 97.7 % pass a trigger, in thresholds; as the task says."""

BANDWIDTH_HZ: Final = 1000.0

MARGIN_SIGMA: Final = 3.0
"""Of the lower sideband so many resolutions are given up to the turn-on of the trigger."""

PRIOR_FOR_TRUE: Final = 3.5
"""Twice the logarithm of how much more often an excess is a resonance than a bump of the trigger."""

HIGHEST_CUT: Final = 0.625
"""Above it simulation and tuning sample say too little."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An excess that a scan showed: channel, mass as measured, local significance."""

    channel: str
    mass_gev: float
    z_local: float


def value_of(beam: Mapping[str, float], gains: Mapping[str, float], luminosity_fb: float) -> float:
    """Expected significance of a beam, up to a factor: signal over the root of the background.

    Args:
        beam: A beam of the task.
        gains: Cross section relative to 13 TeV, by ``gg 8`` and the like; empty when theory was not asked.
        luminosity_fb: What can be afforded of it.
    """
    energy = f"{beam['sqrt_s_tev']:g}"
    quarks = gains.get(f"qq {energy}", (beam["sqrt_s_tev"] / 13.0) ** 1.5)
    gluons = gains.get(f"gg {energy}", (beam["sqrt_s_tev"] / 13.0) ** 2)
    signal = math.sqrt(quarks * gluons)
    isolated = 1.0 - 0.002 * beam["pileup"]
    return (
        signal
        / math.sqrt(quarks)
        * isolated
        * math.sqrt(luminosity_fb / math.sqrt(1.0 + beam["pileup"] / 100.0))
    )


def suitable_thresholds(channels: Sequence[Mapping[str, Any]], higher_sigma: float = 0.0) -> dict[str, float]:
    """Thresholds at which the trigger is efficient over the search window and most of what is beside it.

    Args:
        channels: Channels of the task.
        higher_sigma: By how many resolutions they are to be higher still.
    """
    found = {}
    for each in channels:
        higher = math.exp((MARGIN_SIGMA + higher_sigma) * each["relative_resolution"])
        found[each["name"]] = float(f"{higher * each['fit_window_gev'][0] / TURN_ON:.5g}")
    return found


def rate_hz(channel: Mapping[str, Any], threshold_gev: float) -> float:
    """Rate of a channel's item."""
    return float(channel["trigger_rate_hz"] * (channel["trigger_threshold_gev"] / threshold_gev) ** 4)


def best_cut(table: Sequence[Sequence[float]], tuning_events: float) -> float:
    """The cut of the largest gain that leaves enough of the tuning sample to fit.

    Args:
        table: Rows of cut, signal efficiency, background efficiency, gain.
        tuning_events: Events of the tuning sample without a cut.
    """
    fit = [row for row in table if row[2] * tuning_events >= 12.0 and row[0] <= HIGHEST_CUT] or [table[1]]
    return float(max(fit, key=lambda row: row[3])[0])


def looks_false(check: Mapping[str, float]) -> bool:
    """Whether two samples speak for a bump that only one of them has, rather than for one that both have."""
    one, two = check["first_value"], check["second_value"]
    first, second = check["first_error"], check["second_error"]
    both = (one - two) ** 2 / (first**2 + second**2)
    alone = min(one / first, two / second)
    return check["p_value"] < 0.003 or both > max(alone, 0.0) ** 2 + PRIOR_FOR_TRUE


def candidates_of(findings: Mapping[str, Any]) -> list[Candidate]:
    """Excesses of all scans, the largest first."""
    found = [
        Candidate(channel, each["mass_gev"], each["z_local"])
        for channel, kinds in findings.items()
        if "scan" in kinds
        for each in kinds["scan"]["candidates"]
    ]
    return sorted(found, key=lambda candidate: -candidate.z_local)


def spin_chances(likelihood: Mapping[str, float]) -> dict[str, float]:
    """Chances of the spins from their log-likelihoods, each as likely before."""
    weights = {spin: math.exp(max(-60.0, value)) for spin, value in likelihood.items()}
    return _normalised({spin: weights.get(spin, 0.0) for spin in ("0", "1", "2")})


def channel_chances(strengths: Mapping[str, float]) -> dict[str, float]:
    """Chances of the channels to be the one where the resonance is seen best.

    Args:
        strengths: Significance of the excess in each, for equal exposure.
    """
    best = max(strengths.values())
    return _normalised({name: math.exp(1.2 * (value - best)) for name, value in strengths.items()})


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: round(weight / total, 6) for name, weight in weights.items()}
