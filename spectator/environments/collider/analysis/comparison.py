"""Comparison and combination of results, masses and channels, and the spurious signal of a background."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.calibration import weighted_mean
from spectator.environments.collider.analysis.checks import (
    Floats,
    Window,
    checked_array,
    checked_choice,
    checked_number,
    refuse,
)
from spectator.environments.collider.analysis.normal import chi2_p, p_of_z
from spectator.environments.collider.analysis.templates import root_q0
from spectator.environments.collider.analysis.yields import PeakSearch, YieldProblem, peak_search

ALTERNATIVES: Final = ("exponential", "power_law", "quadratic", "cubic")
"""Families that a spurious signal is looked for among."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Two measurements of one thing.

    Args:
        difference: First less second.
        z: Difference over its error, with sign.
        p_value: Two-sided chance of a difference this large.
    """

    difference: float
    z: float
    p_value: float


@dataclass(frozen=True, slots=True)
class CombinedMass:
    """Several measured masses of one particle.

    Args:
        mass_gev: Their mean.
        error_gev: Standard error, with the common error of the scale.
        chi2: Of the masses about their mean.
        ndf: Masses less one.
        p_value: Chance of a chi-square this large.
    """

    mass_gev: float
    error_gev: float
    chi2: float
    ndf: int
    p_value: float


@dataclass(frozen=True, slots=True)
class ChannelSpectrum:
    """One channel of a combination.

    Args:
        name: Its name.
        edges_gev: Bin edges.
        counts: Events.
        resolution_gev: Gaussian width at the common mass.
        expected_signal: Events that strength 1 means here; their ratios bind the channels together.
        window_gev: Bins that enter; all without it.
        background: Family of the background, or ``auto``.
        natural_width_gev: Full natural width.
    """

    name: str
    edges_gev: Sequence[float] | Floats
    counts: Sequence[float] | Floats
    resolution_gev: float
    expected_signal: float
    window_gev: Window | None = None
    background: str = "auto"
    natural_width_gev: float = 0.0


@dataclass(frozen=True, slots=True)
class Combination:
    """Several channels under one strength.

    Args:
        mass_gev: The common mass.
        strength: Fitted strength.
        strength_error: Its standard error.
        z_local: sqrt(q0) of all channels together.
        p_local: Its one-sided chance.
        z_by_channel: The same for each alone.
        p_compatible: Chance that strengths differ as much between channels as they do, if they are one.
    """

    mass_gev: float
    strength: float
    strength_error: float
    z_local: float
    p_local: float
    z_by_channel: Mapping[str, float]
    p_compatible: float


@dataclass(frozen=True, slots=True)
class SpuriousSignal:
    """Signal that the choice of the background's family makes up.

    Args:
        signal: Largest difference in yield, in events, between the nominal family and one that fits.
        relative_to_error: The same over the statistical error of the yield.
        by_background: Yield by family, of those that fit.
    """

    signal: float
    relative_to_error: float
    by_background: Mapping[str, float]


def compatibility(first: tuple[float, float], second: tuple[float, float]) -> Compatibility:
    """Compare two independent values with standard errors.

    Raises:
        InvalidAnalysis: A value is not finite, or both errors are 0.

    >>> round(compatibility((125.0, 0.4), (126.0, 0.3)).z, 1)
    -2.0
    """
    values = [checked_array(name, pair) for name, pair in (("first", first), ("second", second))]
    for name, pair in zip(("first", "second"), values, strict=True):
        if len(pair) != 2 or pair[1] < 0:
            raise refuse(name, "is a value and its error of 0 or more")
    error = math.hypot(values[0][1], values[1][1])
    if error == 0:
        raise refuse("second", "or the first has an error above 0")
    difference = float(values[0][0] - values[1][0])
    return Compatibility(difference, difference / error, 2.0 * p_of_z(abs(difference) / error))


def combine_masses(masses: Sequence[tuple[float, float]], *, scale_error: float = 0.0) -> CombinedMass:
    """Weighted mean of masses whose energy scale is common.

    Args:
        masses: Mass and statistical error in GeV, of each channel.
        scale_error: Relative error of the scale that all share.

    Raises:
        InvalidAnalysis: There is none, or an error is not above 0.
    """
    if not masses:
        raise refuse("masses", "hold at least one")
    pairs = [
        (checked_number("masses", mass, above=0.0), checked_number("masses", error, above=0.0))
        for mass, error in masses
    ]
    common = checked_number("scale_error", scale_error, least=0.0)
    mean, error, chi2 = weighted_mean(pairs)
    ndf = len(pairs) - 1
    return CombinedMass(mean, math.hypot(error, mean * common), chi2, ndf, chi2_p(chi2, ndf))


def combine(channels: Sequence[ChannelSpectrum], mass_gev: float) -> Combination:
    """Test one mass in several channels together, their signals in the expected ratio.

    Raises:
        InvalidAnalysis: There is no channel, two have one name, or an argument breaks its rule.
    """
    if not channels:
        raise refuse("channels", "hold at least one")
    if len({one.name for one in channels}) < len(channels):
        raise refuse("channels", "have names of their own")
    searches = [_search(one, mass_gev) for one in channels]
    joint = joined([search.problem for search in searches])
    fit = joint.fit(start=np.concatenate([search.null.beta for search in searches]))
    z = root_q0(joint)
    alone = [search.problem.fit(start=search.null.beta) for search in searches]
    apart = 2.0 * (fit.nll - sum(one.nll for one in alone))
    return Combination(
        float(mass_gev),
        float(fit.theta[0]),
        joint.error(fit),
        z,
        p_of_z(z),
        {one.name: root_q0(search.problem) for one, search in zip(channels, searches, strict=True)},
        chi2_p(max(apart, 0.0), len(channels) - 1),
    )


def _search(channel: ChannelSpectrum, mass_gev: float) -> PeakSearch:
    expected = checked_number("expected_signal", channel.expected_signal, above=0.0)
    search = peak_search(
        channel.edges_gev,
        channel.counts,
        mass_gev,
        channel.resolution_gev,
        window_gev=channel.window_gev,
        background=channel.background,
        natural_width_gev=channel.natural_width_gev,
    )
    search.problem.template = search.problem.template * expected
    return search


def joined(problems: Sequence[YieldProblem]) -> YieldProblem:
    """Several channels as one likelihood with a common strength."""
    size = sum(problem.columns.shape[1] for problem in problems)
    blocks, at = [], 0
    for problem in problems:
        block = np.zeros((len(problem.counts), size))
        block[:, at : at + problem.columns.shape[1]] = problem.columns
        at += problem.columns.shape[1]
        blocks.append(block)
    return YieldProblem(
        np.concatenate([problem.counts for problem in problems]),
        np.concatenate([problem.template for problem in problems]),
        np.concatenate(blocks),
        np.concatenate([problem.nominal for problem in problems]),
    )


LEAST_YIELD_ERROR: Final = 1e-6
"""Standard error of a yield, in events, below which nothing is there to be measured."""


def spurious_signal(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    window_gev: Window | None = None,
    background: str = "exponential",
    alternatives: Sequence[str] = ALTERNATIVES,
) -> SpuriousSignal:
    """How far the yield moves when another background that also fits takes the place of the nominal one.

    Args:
        edges_gev: Bin edges.
        counts: Events.
        mass_gev: Where the peak is.
        resolution_gev: Its Gaussian width.
        window_gev: Bins that enter; all without it.
        background: The nominal family.
        alternatives: The others; one that with a signal fits worse than the nominal one by more than four in
            twice the log-likelihood is left out.

    Raises:
        InvalidAnalysis: An argument breaks its rule, or no event is expected under the peak.
    """
    names = dict.fromkeys((background, *alternatives))
    yields: dict[str, float] = {}
    nominal_nll, error = math.inf, math.inf
    for name in names:
        checked_choice(
            "alternatives", name, tuple(dict.fromkeys((background, *ALTERNATIVES, "quartic", "dijet")))
        )
        search = peak_search(
            edges_gev,
            counts,
            mass_gev,
            resolution_gev,
            window_gev=window_gev,
            background=name,
            natural_width_gev=0.0,
        )
        fit = search.problem.fit(start=search.null.beta)
        if name == background:
            nominal_nll, error = fit.nll, search.problem.error(fit)
            if not error > LEAST_YIELD_ERROR:
                raise refuse("counts", "hold events under the peak: without any its yield has no error")
        elif fit.nll > nominal_nll + 2.0:
            continue
        yields[name] = float(fit.theta[0])
    most = max(abs(value - yields[background]) for value in yields.values())
    return SpuriousSignal(most, most / error, yields)
