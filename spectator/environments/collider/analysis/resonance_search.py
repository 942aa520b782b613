"""Find all resonances of a spectrum.

A search slides windows along a spectrum. A bump counts as a resonance if it exceeds the possible error of
the local background, is as narrow as the detector's resolution, and no bend of the background explains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Floats,
    InvalidAnalysis,
    Window,
    checked_number,
    checked_spectrum,
    checked_window,
)
from spectator.environments.collider.analysis.resonance import EDGE_WIDTHS, ResonanceFit, fit_resonances
from spectator.environments.collider.analysis.shapes import (
    design,
    gauss_templates,
    poisson_regression,
    score_test,
    score_z,
)

DIMUON_RESOLUTION: Final = 0.015
"""sigma / m of dimuon peaks, roughly: 0.8 % at J/psi to 1.5 % at Z in the shipped data."""

BACKGROUND_ERROR: Final = 0.03
"""Relative systematic error of a local background below a peak: with millions of events a flaw of one per
cent must not look like a particle."""

NARROW: Final = (0.3, 3.0)
"""Range of widths of a resonance, in units of the resolution; natural widths make them larger."""

_REACH: Final = 9.0
_FIT_REACH: Final = 7.0
_FEWEST_BINS: Final = 12


def find_resonances(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    window_gev: Window | None = None,
    *,
    relative_resolution: float = DIMUON_RESOLUTION,
    threshold: float = 5.0,
) -> tuple[ResonanceFit, ...]:
    """Find all resonances of a spectrum, ordered by mass.

    Args:
        window_gev: Where to look; by default everywhere. Peaks at its ends are not reported.
        relative_resolution: sigma / m that the detector gives a narrow resonance, roughly.
        threshold: Least significance, including the systematic error of the background.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    ratio = checked_number("relative_resolution", relative_resolution, above=0.0, most=0.2)
    least = checked_number("threshold", threshold, above=0.0)
    chosen = checked_window(edges, window_gev, bins=5)
    edges, seen = edges[chosen.start : chosen.stop + 1], seen[chosen]
    found: list[ResonanceFit] = []
    tried: list[float] = []
    for mass, _ in sorted(_bumps(edges, seen, ratio, least), key=lambda bump: -bump[1]):
        near = [
            *((other.mass_gev, 2.5 * other.width_gev) for other in found),
            *((m, ratio * m) for m in tried),
        ]
        if any(abs(mass - other) < distance for other, distance in near):
            continue
        tried.append(mass)
        for fit in _fits_near(edges, seen, mass, ratio):
            if not _is_resonance(fit, edges, ratio, least) or _near(fit, found):
                continue
            if abs(fit.mass_gev - mass) < ratio * mass or _confirmed(fit, edges, seen, ratio):
                found.append(fit)
    return tuple(sorted(found, key=lambda fit: fit.mass_gev))


def _bumps(edges: Floats, counts: Floats, ratio: float, least: float) -> Iterator[tuple[float, float]]:
    """Yield local maxima of the significance, window by window."""
    middle = max(float(edges[0]), 1e-6)
    while middle < edges[-1]:
        reach = _REACH * ratio * middle
        inside = (edges > middle - reach) & (edges < middle + reach)
        if inside.sum() >= _FEWEST_BINS and counts[_bins(inside)].sum() > 0:
            yield from _window_bumps(edges[inside], counts[_bins(inside)], ratio, least)
        middle += 0.5 * reach


def _bins(edges_inside: np.ndarray) -> slice:
    first = int(np.argmax(edges_inside))
    return slice(first, first + int(edges_inside.sum()) - 1)


def _window_bumps(edges: Floats, counts: Floats, ratio: float, least: float) -> Iterator[tuple[float, float]]:
    columns, centres = design("quadratic", edges), 0.5 * (edges[1:] + edges[:-1])
    smooth = poisson_regression(columns, counts, np.diff(edges)).expected
    test = score_test(gauss_templates(edges, centres, ratio * centres), smooth, columns)
    z = score_z(test, counts, smooth)
    for at in range(1, len(z) - 1):
        if z[at] >= least and z[at] >= z[at - 1] and z[at] > z[at + 1]:
            below = float(smooth[np.abs(centres - centres[at]) < 2.0 * ratio * centres[at]].sum())
            if z[at] * test.errors[at] >= 0.3 * least * BACKGROUND_ERROR * below:
                yield float(centres[at]), float(z[at])


def _fits_near(edges: Floats, counts: Floats, mass: float, ratio: float) -> list[ResonanceFit]:
    """Return the fitted peaks well inside a window around a bump."""
    reach = _FIT_REACH * ratio * mass
    window = (max(mass - reach, float(edges[0])), min(mass + reach, float(edges[-1])))
    try:
        fits = fit_resonances(edges, counts, window, mass_gev=mass)
    except InvalidAnalysis:
        return []
    return [fit for fit in fits if fit.converged and abs(fit.mass_gev - mass) < 0.7 * reach]


def _is_resonance(fit: ResonanceFit, edges: Floats, ratio: float, least: float) -> bool:
    if fit.background_like or fit.signal <= 0:
        return False
    width = fit.width_gev / (ratio * fit.mass_gev)
    if min(fit.mass_gev - edges[0], edges[-1] - fit.mass_gev) < EDGE_WIDTHS * fit.width_gev:
        return False
    return NARROW[0] < width < NARROW[1] and _with_systematics(fit, edges) >= least


def _with_systematics(fit: ResonanceFit, edges: Floats) -> float:
    """Return the significance with a background error of ``BACKGROUND_ERROR``."""
    centres = 0.5 * (edges[1:] + edges[:-1])[slice(*fit.bins)]
    below = np.abs(centres - fit.mass_gev) < 2.0 * fit.width_gev
    background = float(np.array(fit.expected_background)[below].sum())
    statistical = fit.signal / max(fit.z_local, 1e-9)
    return fit.signal / math.hypot(statistical, BACKGROUND_ERROR * background)


def _confirmed(fit: ResonanceFit, edges: Floats, counts: Floats, ratio: float) -> bool:
    """Return whether a second peak of a fit is also found in a window of its own."""
    return any(
        abs(other.mass_gev - fit.mass_gev) < 0.5 * ratio * fit.mass_gev
        and 0.7 < other.width_gev / fit.width_gev < 1.4
        and _is_resonance(other, edges, ratio, 5.0)
        for other in _fits_near(edges, counts, fit.mass_gev, ratio)
    )


def _near(fit: ResonanceFit, found: list[ResonanceFit]) -> bool:
    return any(abs(fit.mass_gev - other.mass_gev) < 2.5 * other.width_gev for other in found)
