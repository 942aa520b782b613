"""What opened runs were worth for a signal, from figures that are public."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from spectator.environments.collider.experiment.laboratory import ChannelAnalysis, Laboratory
from spectator.environments.collider.experiment.nature import isolation_efficiency
from spectator.environments.collider.operations.preparation import simulated_shares
from spectator.environments.collider.physics import trigger
from spectator.environments.collider.physics.scaling import energy_gain


def events_per_fb(lab: Laboratory, analysis: ChannelAnalysis, mass_gev: float) -> float:
    """Selected signal events for each fb of cross section times branching at 13 TeV, in the opened runs."""
    return sum(run_yield(lab, analysis, number, mass_gev) for number in analysis.opened)


def run_yield(lab: Laboratory, analysis: ChannelAnalysis, number: int, mass_gev: float) -> float:
    """The same for one run.

    Away from 13 TeV the gain is the geometric mean of gluon fusion and quark annihilation: which of them it
    is, nobody knows yet.
    """
    run, offer = lab.runs[number - 1], lab.task.channels[analysis.channel]
    passing = float(trigger.efficiency(np.array([mass_gev]), run.thresholds_gev[analysis.channel])[0])
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
