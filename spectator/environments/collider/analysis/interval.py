"""The error of a faint peak's mass, over all widths and masses that its likelihood leaves open.

Where a peak is faint the likelihood has more than one maximum, and where its width was fitted too narrow the
curvature understates the error. So masses and widths are weighted with their likelihood: the error is the
distance from the fitted mass that holds 68 % of the weight, and not below half the root mean square distance,
which knows of far maxima.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spectator.environments.collider.analysis.backgrounds import poisson_regression
from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.scores import gauss_templates, score_test, score_z

FAINT: Final = 10.0
"""Significance below which the average is taken."""

NEAR: Final = 6.5
FAR: Final = 6.0
"""Above the significance NEAR only masses within FAR widths count: no other maximum can compete."""

FEW: Final = 400
"""Events in the window below which the likelihood itself is used, not the score's approximation."""

_WIDTHS: Final = 9
_MOST_MASSES: Final = 160
_NEWTON: Final = 6
_FINER: Final = 12


def mass_spread(
    edges: Floats,
    counts: Floats,
    columns: Floats,
    background: Floats,
    mass: float,
    widths: tuple[Floats, Floats],
    reach: float,
) -> float:
    """Distance from ``mass`` that holds 68.27 % of the weight, and at least half the root mean square one.

    Args:
        edges: Bin edges of the window.
        counts: Events.
        columns: Design matrix of the background.
        background: Expected events beside the peak, by the fit.
        mass: The fitted mass.
        widths: Widths to try, and what each costs by its constraint, in twice the log-likelihood.
        reach: How far from ``mass`` to go.
    """
    sigmas, costs = widths
    low, high = max(float(edges[0]), mass - reach), min(float(edges[-1]), mass + reach)
    step = max(0.4 * float(sigmas.min()), (high - low) / _MOST_MASSES)
    masses = np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)
    templates = gauss_templates(edges, np.tile(masses, len(sigmas)), np.repeat(sigmas, len(masses)))
    if counts.sum() < FEW:
        gain = _likelihood_gain(templates, counts, np.maximum(background, 1e-9))
    else:
        smooth = poisson_regression(columns, counts, np.diff(edges)).expected
        gain = np.maximum(score_z(score_test(templates, smooth, columns), counts, smooth), 0.0) ** 2
    gain = gain.reshape(len(sigmas), len(masses)) - costs[:, None]
    logs = np.log(np.exp(0.5 * (gain - gain.max())).sum(axis=0) + 1e-300)
    fine = np.linspace(masses[0], masses[-1], _FINER * len(masses))
    weights, distances = np.exp(np.interp(fine, masses, logs)), np.abs(fine - mass)
    spread = float(np.sqrt(weights @ distances**2 / weights.sum()))
    return max(_distance_of_share(distances, weights), 0.5 * spread)


def _distance_of_share(distances: Floats, weights: Floats) -> float:
    """Distance within which 68.27 % of the weight lies."""
    order = np.argsort(distances)
    held = np.cumsum(weights[order]) / weights.sum()
    return float(distances[order][min(int(np.searchsorted(held, 0.6827)), len(held) - 1)])


def _likelihood_gain(templates: Floats, counts: Floats, background: Floats) -> Floats:
    """Twice the gain in log-likelihood by the best yield of each template on a given background."""
    seen = counts > 0
    shares, ratio, n = templates.sum(axis=1), templates[:, seen] / background[seen], counts[seen]
    signal = np.full(len(templates), 1.0)
    for _ in range(_NEWTON):
        terms = ratio / (1.0 + signal[:, None] * ratio)
        slope, curvature = terms @ n - shares, (terms * terms) @ n
        signal = np.maximum(signal + slope / np.maximum(curvature, 1e-12), 0.25 * signal)
    gain = 2.0 * (np.log1p(signal[:, None] * ratio) @ n - signal * shares)
    return np.asarray(np.maximum(gain, 0.0))


def widths_to_try(low: float, high: float) -> Floats:
    """Widths from ``low`` to ``high`` in equal ratios, each at most 1.6 times the one before."""
    return np.geomspace(low, high, min(max(int(np.ceil(np.log(high / low) / 0.4)) + 1, 3), _WIDTHS))
