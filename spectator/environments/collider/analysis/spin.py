"""Spin from the angle of the decay: log-likelihood ratios between hypotheses, with acceptance and background.

Densities in c = cos theta* of the Collins-Soper frame, normalised over -1 .. 1. Spin 0 is flat; a vector
coupled to fermion pairs gives 1 + c^2. For a graviton with minimal couplings see Allanach, Odagiri, Parker
and Webber, JHEP 09 (2000) 019, arXiv:hep-ph/0006114. A massive particle of spin 1 cannot decay to two photons
(Landau 1948, Yang 1950).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, checked_array, checked_choice, refuse
from spectator.environments.collider.analysis.normal import cumulative

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
"""Hypotheses that a channel leaves open."""

_FINE: Final = np.linspace(-1.0, 1.0, 801)


@dataclass(frozen=True, slots=True)
class AngularLLR:
    """Spin hypotheses, compared.

    Args:
        log_likelihood: By hypothesis, up to a constant that all share.
        llr: By hypothesis, its log-likelihood less that of the best other one.
        best: The hypothesis of largest likelihood; the data need not decide for it.
        expected_separation: By other hypothesis, standard deviations by which as many events as here would
            tell it from ``best``, if ``best`` is true, in the median.
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
    """Density of a hypothesis at full acceptance.

    Raises:
        InvalidAnalysis: There is no such hypothesis.

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
        hypotheses: Two or more of ``SPIN_HYPOTHESES``; all that the channel leaves open without it.
        weights: Weight of each event that subtracts the background (sPlot, or negative for sidebands).
        acceptance: Share of events at each cos theta* that is seen; it multiplies every hypothesis. Without
            it, all are.
        channel: One of ``CHANNELS``: spin 1 is then impossible for ``diphoton``.

    Raises:
        InvalidAnalysis: An argument breaks its rule.

    >>> angles = np.linspace(-0.99, 0.99, 100)
    >>> angular_llr(angles, channel="diphoton").best
    'spin0'
    """
    c = checked_array("cos_theta", cos_theta)
    if not len(c):
        raise refuse("cos_theta", "holds at least one event")
    if np.abs(c).max() > 1:
        raise refuse("cos_theta", "lies in -1 .. 1")
    w = np.ones(len(c)) if weights is None else checked_array("weights", weights)
    if len(w) != len(c):
        raise refuse("weights", f"has one value for each event: {len(c)}, not {len(w)}")
    if w.sum() <= 0:
        raise refuse("weights", "add up to more than 0: no signal is left")
    names, impossible = _open(hypotheses, channel)
    accepted = _acceptance(acceptance, _FINE)
    logs = {name: _log_density(name, accepted) for name in names}
    values = {name: np.interp(c, _FINE, logs[name][0]) for name in names}
    likelihood = {name: float(w @ values[name]) for name in names}
    return _compared(likelihood, logs, names, impossible, float(w.sum()), float((w * w).sum()))


def _open(hypotheses: Sequence[str] | None, channel: str | None) -> tuple[list[str], dict[str, str]]:
    """The hypotheses to compare, and those that are impossible."""
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
        raise refuse("hypotheses", "hold at least two that the channel leaves open")
    return names, impossible


def _acceptance(acceptance: Callable[[Floats], Floats] | None, c: Floats) -> Floats:
    if acceptance is None:
        return np.ones(len(c))
    seen = checked_array("acceptance", acceptance(c))
    if len(seen) != len(c) or seen.min() < 0 or not seen.any():
        raise refuse("acceptance", "gives a share of 0 or more for each cos theta*, not 0 everywhere")
    return seen


def _log_density(name: str, accepted: Floats) -> tuple[Floats, Floats]:
    """Logarithm of a density, normalised with the acceptance but without it as a factor; the density seen."""
    bare = angular_density(name, _FINE)
    area = _integral(bare * accepted)
    return np.log(np.maximum(bare / area, 1e-12)), bare * accepted / area


def _integral(values: Floats) -> float:
    """Trapezoid rule over -1 .. 1."""
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
    """Expected separation and CLs from the first two moments of the ratio under either hypothesis."""
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
