"""Sensitivity of an exposure: expected significance, exclusion and error of the mass.

It is computed from nature, sets the strength of a signal in sigma, and is used for the grade. The physicist
does not see it before the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider import physics
from spectator.environments.collider.nature import (
    Exposure,
    Nature,
    Particle,
    expected_background,
    expected_signal,
)
from spectator.environments.collider.task import Beam, ChannelTask, Task

Array = NDArray[np.float64]

ANALYSIS_SHARE = 0.15
"""Share of the budget that a thorough analysis costs."""


def passing(nature: Nature, channel: str) -> list[tuple[float, float]]:
    """Return the shares of signal and background that each cut on the score keeps."""
    shapes = nature.shapes[channel]
    signal, background = physics.score_shares(*shapes.signal), physics.score_shares(*shapes.background)
    return [(float(signal[cut:].sum()), float(background[cut:].sum())) for cut in range(physics.SCORE_BINS)]


def affordable_fb(task: Task, beam: Beam, share: float) -> float:
    """Return the luminosity that ``share`` of the budget buys, within all limits."""
    return min(
        share * task.budget_musd / beam.cost_musd_per_fb,
        task.luminosity_fb * min(1.0, share / (1.0 - ANALYSIS_SHARE)),
        share * task.days / beam.days_per_fb,
    )


def ideal_exposure(task: Task, offer: ChannelTask, beam: Beam, share: float) -> Exposure:
    """Return ``share`` of the budget spent on one channel, with a perfect trigger."""
    threshold = physics.suitable_threshold(offer.fit_window_gev[0])
    return Exposure(beam, affordable_fb(task, beam, share), threshold, 1.0)


def best_yields(task: Task, nature: Nature, offer: ChannelTask, share: float) -> tuple[Array, Array]:
    """Return signal and background by mass bin, for the best beam and cut."""
    fair = replace(nature, feature=None, fluctuation=None)
    cuts = passing(nature, offer.name)
    found: list[tuple[float, Array, Array]] = []
    for beam in task.beams:
        exposure = ideal_exposure(task, offer, beam, share)
        signal = expected_signal(fair, offer, exposure)
        background = expected_background(fair, offer, exposure)
        information = float((signal * signal / np.maximum(background, 1e-9)).sum())
        kept, left = max(cuts, key=lambda cut: cut[0] ** 2 / max(cut[1], 0.02))
        found.append((information, signal * kept, background * left))
    _, signal, background = max(found, key=lambda each: each[0])
    return signal, background


def ideal_significance(task: Task, nature: Nature, offer: ChannelTask, share: float) -> float:
    """Return the expected significance of ``share`` of the budget in one channel."""
    return physics.asimov_significance(*best_yields(task, nature, offer, share))


def probes(
    nature: Nature, offer: ChannelTask, exposure: Exposure, masses_gev: Iterable[float]
) -> list[tuple[float, float]]:
    """Evaluate an exposure for a narrow signal of 1 fb at each mass, before any cut.

    Returns:
        For each mass the information, the sum of signal squared over background, and the signal events.
    """
    bare = replace(nature, particles=(), feature=None, fluctuation=None)
    background = np.maximum(expected_background(bare, offer, exposure), 1e-9)
    found = []
    for mass in masses_gev:
        probe = Particle(mass, 0.0, 0, "gg", {offer.name: 1.0})
        signal = expected_signal(replace(bare, particles=(probe,)), offer, exposure)
        found.append((float((signal * signal / background).sum()), float(signal.sum())))
    return found


def limit_fb(information: float, events: float) -> float:
    """Return the approximate rate at 13 TeV excluded at 95 % CL; infinite if none.

    1.64 sigma of the background, plus three events, which is the limit without background.
    """
    if events <= 0.0 or information <= 0.0:
        return math.inf
    return 1.64 / math.sqrt(information) + 3.0 / events


def mass_error_gev(task: Task, nature: Nature, offer: ChannelTask) -> float:
    """Return the best possible error of the first particle's mass, scale included."""
    particle = nature.particles[0]
    fair = replace(nature, particles=(particle,), feature=None, fluctuation=None)
    step = 0.1 * particle.mass_gev * offer.relative_resolution
    best = math.inf
    for beam in task.beams:
        exposure = ideal_exposure(task, offer, beam, 1.0 - ANALYSIS_SHARE)
        signal = expected_signal(fair, offer, exposure)
        moved = replace(fair, particles=(replace(particle, mass_gev=particle.mass_gev + step),))
        slope = (expected_signal(moved, offer, exposure) - signal) / step
        background = expected_background(fair, offer, exposure)
        for kept, left in passing(nature, offer.name):
            total = np.maximum(signal * kept + background * left, 1e-9)
            information = float(((slope * kept) ** 2 / total).sum())
            best = min(best, 1.0 / math.sqrt(max(information, 1e-30)))
    return math.hypot(best, 3e-4 * particle.mass_gev)
