"""Compare and combine results, masses, channels and backgrounds; compare spins.

Spins are compared by log-likelihood ratios of the decay angle, with acceptance and background. Densities
in c = cos theta* of the Collins-Soper frame, normalised over -1 .. 1. Spin 0 is flat; a vector coupled
to fermion pairs gives 1 + c^2. For a graviton with minimal couplings see Allanach, Odagiri, Parker and
Webber, JHEP 09 (2000) 019, arXiv:hep-ph/0006114. A massive particle of spin 1 cannot decay to two
photons (Landau 1948, Yang 1950).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    invalid,
)
from spectator.environments.collider.analysis.likelihood import PeakSearch, YieldProblem, peak_search, root_q0
from spectator.environments.collider.analysis.shapes import chi2_p, cumulative, p_of_z

ALTERNATIVES: Final = ("exponential", "power_law", "quadratic", "cubic")
"""Background families tried for a spurious signal."""


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
        expected_signal: Events at strength 1; their ratios link the channels.
        window_gev: Bins that enter; by default all.
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
        p_compatible: Chance of strengths that differ as much, if all channels share one.
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
    """Spurious signal: what the choice of the background's family adds to the yield.

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
            raise invalid(name, "must be a value and its error of 0 or more")
    error = math.hypot(values[0][1], values[1][1])
    if error == 0:
        raise invalid("second", "must have an error above 0, or the first must")
    difference = float(values[0][0] - values[1][0])
    return Compatibility(difference, difference / error, 2.0 * p_of_z(abs(difference) / error))


def combine_masses(masses: Sequence[tuple[float, float]], *, scale_error: float = 0.0) -> CombinedMass:
    """Return the weighted mean of masses that share an energy scale.

    Args:
        masses: Mass and statistical error in GeV, of each channel.
        scale_error: Relative error of the scale that all share.

    Raises:
        InvalidAnalysis: ``masses`` is empty, or an error is not above 0.
    """
    if not masses:
        raise invalid("masses", "must hold at least one")
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
        InvalidAnalysis: There are no channels, two have the same name, or an argument is invalid.
    """
    if not channels:
        raise invalid("channels", "must hold at least one")
    if len({one.name for one in channels}) < len(channels):
        raise invalid("channels", "must have different names")
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
    """Join several channels into one likelihood with a common strength."""
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


MIN_YIELD_ERROR: Final = 1e-6
"""Least standard error of a yield, in events; below it there is nothing to measure."""


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
    """Measure how far the yield moves with another background that also fits.

    Args:
        edges_gev: Bin edges.
        counts: Events.
        mass_gev: Where the peak is.
        resolution_gev: Its Gaussian width.
        window_gev: Bins that enter; by default all.
        background: The nominal family.
        alternatives: The others; one that fits worse than the nominal one, by more than four in twice the
            log-likelihood, is ignored.

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
            if not error > MIN_YIELD_ERROR:
                raise invalid(
                    "counts", "must hold events under the peak: without them its yield has no error"
                )
        elif fit.nll > nominal_nll + 2.0:
            continue
        yields[name] = float(fit.theta[0])
    most = max(abs(value - yields[background]) for value in yields.values())
    return SpuriousSignal(most, most / error, yields)


SPIN_HYPOTHESES: Final[Mapping[str, tuple[float, float, float]]] = {
    "spin0": (1 / 2, 0.0, 0.0),
    "spin1_ll": (3 / 8, 3 / 8, 0.0),
    "spin2_gg_diphoton": (5 / 32, 30 / 32, 5 / 32),
    "spin2_gg_ll": (5 / 8, 0.0, -5 / 8),
    "spin2_qq_ll": (5 / 8, -15 / 8, 20 / 8),
}
"""Coefficients of 1, c^2 and c^4 by hypothesis."""

CHANNELS: Final[Mapping[str, tuple[str, ...]]] = {
    "diphoton": ("spin0", "spin2_gg_diphoton"),
    "dilepton": ("spin0", "spin1_ll", "spin2_gg_ll", "spin2_qq_ll"),
}
"""Hypotheses allowed in a channel."""

_FINE: Final = np.linspace(-1.0, 1.0, 801)


@dataclass(frozen=True, slots=True)
class AngularLLR:
    """Spin hypotheses, compared.

    Args:
        log_likelihood: By hypothesis, up to a constant that all share.
        llr: By hypothesis, its log-likelihood less that of the best other one.
        best: The hypothesis of largest likelihood, however small its lead.
        expected_separation: By other hypothesis, the median number of standard deviations by which this
            many events would separate it from ``best``, if ``best`` is true.
        cls: By other hypothesis, CLs with which it is disfavoured against ``best``.
        impossible: Hypotheses that the channel forbids, with the reason.
        events: Sum of the weights.
    """

    log_likelihood: Mapping[str, float]
    llr: Mapping[str, float]
    best: str
    expected_separation: Mapping[str, float]
    cls: Mapping[str, float]
    impossible: Mapping[str, str]
    events: float


def angular_density(hypothesis: str, cos_theta: ArrayLike) -> Floats:
    """Return the density of a hypothesis at full acceptance.

    Raises:
        InvalidAnalysis: The hypothesis is unknown.

    >>> float(angular_density("spin0", 0.3))
    0.5
    """
    checked_choice("hypothesis", hypothesis, tuple(SPIN_HYPOTHESES))
    one, square, fourth = SPIN_HYPOTHESES[hypothesis]
    c2 = np.asarray(cos_theta, dtype=np.float64) ** 2
    return np.asarray(one + square * c2 + fourth * c2 * c2)


def angular_llr(
    cos_theta: ArrayLike,
    hypotheses: Sequence[str] | None = None,
    *,
    weights: ArrayLike | None = None,
    acceptance: Callable[[Floats], Floats] | None = None,
    channel: str | None = None,
) -> AngularLLR:
    """Compare spin hypotheses on the angles of events.

    Args:
        cos_theta: cos theta* of each event, -1 .. 1.
        hypotheses: Two or more of ``SPIN_HYPOTHESES``; by default all that the channel allows.
        weights: Weight of each event that subtracts the background (sPlot, or negative for sidebands).
        acceptance: Share of events seen at each cos theta*; it multiplies every hypothesis. By default 1.
        channel: One of ``CHANNELS``: spin 1 is then impossible for ``diphoton``.

    Raises:
        InvalidAnalysis: An argument is invalid.

    >>> angles = np.linspace(-0.99, 0.99, 100)
    >>> angular_llr(angles, channel="diphoton").best
    'spin0'
    """
    c = checked_array("cos_theta", cos_theta)
    if not len(c):
        raise invalid("cos_theta", "must hold at least one event")
    if np.abs(c).max() > 1:
        raise invalid("cos_theta", "must be in -1 .. 1")
    w = np.ones(len(c)) if weights is None else checked_array("weights", weights)
    if len(w) != len(c):
        raise invalid("weights", f"must have one value for each event: {len(c)}, not {len(w)}")
    if w.sum() <= 0:
        raise invalid("weights", "must add up to more than 0: no signal is left")
    names, impossible = _open(hypotheses, channel)
    accepted = _acceptance(acceptance, _FINE)
    logs = {name: _log_density(name, accepted) for name in names}
    values = {name: np.interp(c, _FINE, logs[name][0]) for name in names}
    likelihood = {name: float(w @ values[name]) for name in names}
    return _compared(likelihood, logs, names, impossible, float(w.sum()), float((w * w).sum()))


def _open(hypotheses: Sequence[str] | None, channel: str | None) -> tuple[list[str], dict[str, str]]:
    """Return the hypotheses to compare, and the impossible ones with reasons."""
    if channel is not None:
        checked_choice("channel", channel, tuple(CHANNELS))
    if hypotheses is None:
        hypotheses = CHANNELS[channel] if channel else tuple(SPIN_HYPOTHESES)
    names = [checked_choice("hypotheses", name, tuple(SPIN_HYPOTHESES)) for name in dict.fromkeys(hypotheses)]
    impossible = {}
    if channel == "diphoton" and "spin1_ll" in names:
        names.remove("spin1_ll")
        impossible["spin1_ll"] = "a particle of spin 1 does not decay to two photons (Landau, Yang)"
    if len(names) < 2:
        raise invalid("hypotheses", "must hold at least two that the channel allows")
    return names, impossible


def _acceptance(acceptance: Callable[[Floats], Floats] | None, c: Floats) -> Floats:
    if acceptance is None:
        return np.ones(len(c))
    seen = checked_array("acceptance", acceptance(c))
    if len(seen) != len(c) or seen.min() < 0 or not seen.any():
        raise invalid("acceptance", "must give a share of 0 or more for each cos theta*, not 0 everywhere")
    return seen


def _log_density(name: str, accepted: Floats) -> tuple[Floats, Floats]:
    """Return the log density normalised with acceptance, and the density as seen.

    The acceptance normalises the logarithm but is not a factor in it: it is the same for every hypothesis.
    """
    bare = angular_density(name, _FINE)
    area = _integral(bare * accepted)
    return np.log(np.maximum(bare / area, 1e-12)), bare * accepted / area


def _integral(values: Floats) -> float:
    """Integrate over -1 .. 1 by the trapezoid rule."""
    return float(values.sum() - 0.5 * (values[0] + values[-1])) * 2.0 / (len(_FINE) - 1)


def _compared(
    likelihood: dict[str, float],
    logs: Mapping[str, tuple[Floats, Floats]],
    names: Sequence[str],
    impossible: Mapping[str, str],
    events: float,
    squares: float,
) -> AngularLLR:
    best = max(names, key=lambda name: likelihood[name])
    llr = {
        name: likelihood[name] - max(likelihood[other] for other in names if other != name) for name in names
    }
    separation, cls = {}, {}
    for name in names:
        if name == best:
            continue
        separation[name], cls[name] = _against(
            likelihood[best] - likelihood[name], logs[best], logs[name], events, squares
        )
    return AngularLLR(likelihood, llr, best, separation, cls, impossible, events)


def _against(
    observed: float,
    best: tuple[Floats, Floats],
    other: tuple[Floats, Floats],
    events: float,
    squares: float,
) -> tuple[float, float]:
    """Return expected separation and CLs.

    Both follow from the first two moments of the log-likelihood ratio under either hypothesis.
    """
    ratio = best[0] - other[0]
    moments = []
    for density in (best[1], other[1]):
        mean = _integral(ratio * density)
        spread = math.sqrt(max((_integral((ratio - mean) ** 2 * density)), 1e-300))
        moments.append((events * mean, spread * math.sqrt(squares)))
    (under_best, best_spread), (under_other, other_spread) = moments
    p_other = float(cumulative((under_other - observed) / other_spread))
    p_best = float(cumulative((under_best - observed) / best_spread))
    return (under_best - under_other) / other_spread, min(p_other / max(p_best, 1e-300), 1.0)
