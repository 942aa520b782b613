"""The score of a campaign: one number in [0, 1] from proper scores, given at the end.

``score = conduct x decision x (0.55 + 0.40 quality + 0.05 thrift)``; a false claim makes ``decision`` 0.
Every part of ``quality`` is a proper score: honest probabilities score best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.environments.collider import sensitivity
from spectator.environments.collider.experiment import Laboratory, exposure_of
from spectator.environments.collider.nature import Particle
from spectator.environments.collider.task import TOLERATED, six
from spectator.observations import Profile

SOFT_COST: Final = 0.05
HARD_COST: Final = 0.01
"""Cost of each broken soft rule and of each rejected action, in the exponent of ``conduct``."""

EVIDENCE: Final = 0.65
"""Decision score of a true claim of evidence; a discovery has 1."""

MEASURED_Z: Final = 1.64
"""Local significance, 95 % one-sided, from which a published resonance counts as measured."""

FALSE_EVIDENCE: Final = 0.05
"""Decision score of a false claim of evidence."""

ALPHA: Final = 0.32
"""Chance that the true mass is outside the quoted 68 % interval."""

MASS_SPAN: Final = 16.0
"""Interval score, in units of the best possible error, that gives 0."""

STAGES: Final = frozenset({
    "collect_collisions", "calibrate_detector", "build_invariant_mass", "subtract_background",
    "freeze_selection", "unblind", "fit_resonance", "estimate_significance",
})  # fmt: skip
"""Actions that are rewarded the first time they are carried out, with the option ``reward="steps"``."""

STAGE_REWARD: Final = 0.03
"""Advance on the score for each stage. The end pays the score less the advances: the sum is the score."""

STEPS: Final = Profile(rewards="step", reward_min=-STAGE_REWARD * len(STAGES))
"""The profile of rewards by stage."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A graded campaign.

    Args:
        correct: Whether the claim is right, or that nothing was claimed.
    """

    verdict: str
    score: float = 0.0
    discovered: bool = False
    correct_mass: bool = False
    correct_channel: bool = False
    correct_spin: bool = False
    rubric: dict[str, float] = field(default_factory=lambda: {"score": 0.0})
    correct: bool = False


def supported_kind(claim: Mapping[str, Any], *, published: bool = False) -> str:
    """Return what the measurement supports: discovery, evidence, measurement, unfounded or null.

    Args:
        published: Whether a published resonance is measured.
    """
    if claim["kind"] == "null":
        return "null"
    if published:
        return "measurement" if claim["measured"]["z_local"] >= MEASURED_Z else "unfounded"
    z_global = claim["measured"]["z_global"]
    if z_global < 3.0:
        return "unfounded"
    return "discovery" if claim["kind"] == "discovery" and z_global >= 5.0 else "evidence"


def grade(lab: Laboratory) -> Grade:
    """Grade a campaign that has ended with a claim."""
    assert lab.claim is not None
    claim, published = lab.claim, lab.task.published_z is not None
    kind = supported_kind(claim, published=published)
    hit = None if kind == "null" else _hit(lab, claim)
    decision, verdict = _decision(lab, kind, hit)
    parts = _null_quality(lab, claim) if kind == "null" else _quality(lab, claim, hit)
    quality = sum(weight * value for weight, value in parts.values())
    thrift = lab.left.budget_musd / lab.task.budget_musd
    score = conduct(lab) * decision * (0.55 + 0.40 * quality + 0.05 * thrift)
    rubric = {"decision": decision, "conduct": conduct(lab), "thrift": thrift, "quality": quality}
    rubric |= {name: value for name, (_, value) in parts.items()}
    shown = {name: six(min(1.0, max(0.0, value))) for name, value in (*rubric.items(), ("score", score))}
    discovered = kind == "discovery" and hit is not None
    correct = not lab.nature.particles if kind == "null" else hit is not None and kind != "unfounded"
    return Grade(verdict, shown["score"], discovered, *_verdicts(lab, claim, hit), shown, correct)


def conduct(lab: Laboratory) -> float:
    """Return 1 without a broken rule; each one lowers it, never to 0."""
    soft = sum(code not in TOLERATED for code in lab.soft)
    return math.exp(-SOFT_COST * soft - HARD_COST * lab.hard)


def _hit(lab: Laboratory, claim: Mapping[str, Any]) -> Particle | None:
    """Return the particle that a claim is about, if any."""
    resolution = lab.task.channels[claim["channels"][0]].relative_resolution
    near = [
        particle
        for particle in lab.nature.particles
        if abs(claim["mass_gev"] - particle.mass_gev)
        <= 3.0 * resolution * particle.mass_gev + particle.width_gev
    ]
    return min(near, key=lambda particle: abs(claim["mass_gev"] - particle.mass_gev), default=None)


def _decision(lab: Laboratory, kind: str, hit: Particle | None) -> tuple[float, str]:
    if not lab.nature.particles:
        if kind == "null":
            reach = searched(lab)
            return 0.25 + 0.75 * reach, "rightly concluded that there is nothing to claim"
        if kind == "evidence":
            return FALSE_EVIDENCE, "evidence for what is not there"
        return 0.0, "claimed what is not there"
    if kind == "null":
        expected = expected_z(lab)
        within = min(0.5, max(0.0, (5.5 - expected) / 3.0))
        reach = searched(lab)
        return (0.1 + within) * (0.25 + 0.75 * reach), "missed a resonance"
    if hit is None:
        return 0.0, "claimed what is not there"
    if kind == "discovery":
        return 1.0, "discovery confirmed"
    if kind == "measurement":
        return 1.0, "published resonance measured"
    if kind == "evidence":
        return EVIDENCE, "evidence confirmed"
    return 0.05, "a claim without evidence"


def expected_z(lab: Laboratory) -> float:
    """Return the significance of the whole budget in the best channel."""
    if not lab.nature.particles:
        return 0.0
    if lab.nature.recorded is not None:
        return lab.nature.recorded.expected_z
    offer = lab.task.channels[lab.nature.primary]
    return sensitivity.ideal_significance(lab.task, lab.nature, offer, 1.0 - sensitivity.ANALYSIS_SHARE)


def _quality(
    lab: Laboratory, claim: Mapping[str, Any], hit: Particle | None
) -> dict[str, tuple[float, float]]:
    measured = claim["measured"]
    honesty = 1.0 - min(1.0, abs(claim["z_global"] - measured["z_global"]))
    real = 0.0 if hit is None else 1.0
    parts = {"honest_z": (0.10, honesty), "probability": (0.10, 1.0 - (claim["probability"] - real) ** 2)}
    if hit is None:
        return parts | {"mass": (0.35, 0.0), "channel": (0.20, 0.0), "spin": (0.25, 0.0)}
    return parts | {
        "mass": (0.35, _mass(lab, claim, hit) * _others(lab, claim, hit)),
        "channel": (0.20, _brier(claim["channel_probabilities"], lab.nature.primary)),
        "spin": (0.25, _brier(claim["spin_probabilities"], str(hit.spin))),
    }


def _mass(lab: Laboratory, claim: Mapping[str, Any], hit: Particle) -> float:
    """Score the quoted mass interval against the best error the budget allowed."""
    error, miss = claim["mass_error_gev"], abs(claim["mass_gev"] - hit.mass_gev)
    interval = float(2.0 * error + 2.0 / ALPHA * max(0.0, miss - error))
    if lab.nature.recorded is not None:
        best = lab.nature.recorded.mass_error_gev
    else:
        best = sensitivity.mass_error_gev(lab.task, lab.nature, lab.task.channels[lab.nature.primary])
    return max(0.0, 1.0 - interval / (MASS_SPAN * best))


def _others(lab: Laboratory, claim: Mapping[str, Any], hit: Particle) -> float:
    """Return the share of further resonances found, halved for each false one.

    1 if there are no further resonances and none was claimed.
    """
    resolution = lab.task.channels[claim["channels"][0]].relative_resolution
    others = [particle.mass_gev for particle in lab.nature.particles if particle is not hit]
    right = {
        mass
        for mass in others
        for claimed in claim["other_masses_gev"]
        if abs(claimed / mass - 1.0) <= 3.0 * resolution
    }
    wrong = [
        claimed
        for claimed in claim["other_masses_gev"]
        if all(abs(claimed / mass - 1.0) > 3.0 * resolution for mass in others)
    ]
    share = (1.0 + len(right)) / (1.0 + len(others))
    return float(share * 0.5 ** len(wrong))


def _brier(chances: Mapping[str, float], truth: str) -> float:
    """Return 1 less half of the Brier score."""
    names = {*chances, truth}
    return 1.0 - 0.5 * sum((chances.get(name, 0.0) - (name == truth)) ** 2 for name in names)


def _null_quality(lab: Laboratory, claim: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    there = 1.0 if lab.nature.particles else 0.0
    return {
        "sensitivity": (0.60, searched(lab)),
        "limits": (0.25, claim["limits"] / len(lab.task.channels)),
        "probability": (0.15, 1.0 - (claim["probability"] - there) ** 2),
    }


def searched(lab: Laboratory) -> float:
    """Return how well the window was searched, in [0, 1].

    For each channel: the rate that the whole budget, spent on it alone, would exclude, over the rate that the
    opened data exclude. Averaged over three masses and all channels.
    """
    if lab.nature.recorded is not None:
        opened = {run for analysis in lab.selection.channels.values() for run in analysis.opened}
        return min(1.0, sum(lab.runs[run - 1].luminosity_fb for run in opened) / lab.task.luminosity_fb)
    low, high = (math.log(edge) for edge in lab.task.window_gev)
    masses = [math.exp(low + share * (high - low)) for share in (0.2, 0.5, 0.8)]
    total = sum(sum(_reach(lab, name, masses)) for name in lab.task.channels)
    return total / (len(masses) * len(lab.task.channels))


def _reach(lab: Laboratory, channel: str, masses: list[float]) -> list[float]:
    """Return the best possible limit over the reached one, at each mass."""
    offer, nature, task = lab.task.channels[channel], lab.nature, lab.task
    cuts = sensitivity.passing(nature, channel)
    seen = [[0.0, 0.0] for _ in masses]
    for selection in (*lab.previous, lab.selection):
        analysis = selection.channels.get(channel)
        if analysis is None:
            continue
        kept, left = cuts[analysis.cut]
        for run in analysis.opened:
            found = sensitivity.probes(nature, offer, exposure_of(lab.runs[run - 1], channel), masses)
            for mass, sums, (information, events) in zip(masses, seen, found, strict=True):
                if analysis.window_gev[0] <= mass <= analysis.window_gev[1]:
                    sums[0] += information * kept * kept / max(left, 1e-9)
                    sums[1] += events * kept
    if not any(events for _, events in seen):
        return [0.0 for _ in masses]
    beam = max(task.beams, key=lambda beam: sensitivity.affordable_fb(task, beam, 0.85))
    exposure = sensitivity.ideal_exposure(task, offer, beam, 1.0 - sensitivity.ANALYSIS_SHARE)
    ideal = sensitivity.probes(nature, offer, exposure, masses)
    return [
        min(1.0, min(sensitivity.limit_fb(i * kept**2 / left, n * kept) for kept, left in cuts[:6])
            / sensitivity.limit_fb(*sums))
        for sums, (i, n) in zip(seen, ideal, strict=True)
    ]  # fmt: skip


def _verdicts(lab: Laboratory, claim: Mapping[str, Any], hit: Particle | None) -> tuple[bool, bool, bool]:
    if hit is None:
        return False, False, False
    error, miss = claim["mass_error_gev"], abs(claim["mass_gev"] - hit.mass_gev)
    credible = error <= 0.05 * hit.mass_gev
    chances, spins = claim["channel_probabilities"], claim["spin_probabilities"]
    return (
        credible and miss < max(2.0 * error, 0.01 * hit.mass_gev),
        max(chances, key=lambda name: chances[name]) == lab.nature.primary,
        max(spins, key=lambda name: spins[name]) == str(hit.spin) and max(spins.values()) > 0.34,
    )
