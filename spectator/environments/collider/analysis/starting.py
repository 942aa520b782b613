"""Starting values of a resonance fit: the masses and widths at which a matched filter stands out most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spectator.environments.collider.analysis.backgrounds import design, poisson_regression
from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.scores import gauss_templates, score_test, score_z

_MASSES: Final = 48
_WIDTHS: Final = 5
_MOST: Final = 3
_CLEAR: Final = 8.0
_WORTH: Final = 0.7


@dataclass(frozen=True, slots=True)
class Start:
    """A place to begin.

    Args:
        mass: In GeV.
        sigma: In GeV.
        signal: Events.
        z: Significance of the filter there.
        beta: Coefficients of an exponential background.
    """

    mass: float
    sigma: float
    signal: float
    z: float
    beta: Floats


def starts(edges: Floats, counts: Floats, sigmas: tuple[float, float], mass: float | None) -> list[Start]:
    """The most promising places, best first, no two within two widths of each other.

    Where the best one is clear it stands alone.

    Args:
        edges: Bin edges of the window.
        counts: Events.
        sigmas: Least and largest width that may be found.
        mass: Where to look; everywhere without it.
    """
    columns, bins = design("exponential", edges), np.diff(edges)
    smooth = poisson_regression(columns, counts, bins)
    masses = _grid(edges) if mass is None else np.array([mass])
    widths = np.unique(
        np.geomspace(max(sigmas[0], 0.4 * float(bins.min())), sigmas[1], _WIDTHS).clip(*sigmas)
    )
    all_masses, all_widths = np.tile(masses, len(widths)), np.repeat(widths, len(masses))
    templates = gauss_templates(edges, all_masses, all_widths)
    test = score_test(templates, smooth.expected, columns)
    z = score_z(test, counts, smooth.expected)
    z[templates.sum(axis=1) < 0.3] = -np.inf
    found: list[Start] = []
    most, top = _MOST if z.max() < _CLEAR else 1, float(z.max())
    for index in np.argsort(-z):
        if len(found) == most or (found and z[index] < _WORTH * top):
            break
        at, sigma = float(all_masses[index]), float(all_widths[index])
        if all(abs(at - other.mass) > 2.0 * max(sigma, other.sigma) for other in found):
            found.append(_refined(edges, counts, columns, at, sigma, float(z[index])))
    return found


def _grid(edges: Floats) -> Floats:
    centres = 0.5 * (edges[1:] + edges[:-1])
    if len(centres) <= _MASSES:
        return centres
    return np.interp(np.linspace(0, len(centres) - 1, _MASSES), np.arange(len(centres)), centres)


def _refined(edges: Floats, counts: Floats, columns: Floats, mass: float, sigma: float, z: float) -> Start:
    """The yield over a background that is fitted to either side, where there is a side."""
    bins = np.diff(edges)
    centres = 0.5 * (edges[1:] + edges[:-1])
    near = np.abs(centres - mass) < 2.5 * sigma
    away = ~near
    if away.sum() < 3 or not counts[away].any():
        near, away = np.zeros_like(near), np.ones_like(near)
    fit = poisson_regression(columns[away], counts[away], bins[away])
    smooth = bins * np.exp(np.clip(columns @ fit.beta, -600, 600))
    over = float((counts - smooth)[near].sum()) if near.any() else 0.0
    return Start(mass, sigma, max(over, np.sqrt(counts.sum()), 1.0), z, fit.beta)
