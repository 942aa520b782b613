"""What a claim's frozen selection and opened spectra say: significance, mass and limit, computed anew."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from pydantic import Field

from spectator.environments.collider.analysis.limits import upper_limit
from spectator.environments.collider.analysis.look_elsewhere import global_significance
from spectator.environments.collider.analysis.normal import chi2_p, p_of_z, z_of_p
from spectator.environments.collider.analysis.resonance import fit_resonance
from spectator.environments.collider.analysis.scanning import scan
from spectator.environments.collider.analysis.shapes import FWHM_OF_SIGMA
from spectator.environments.collider.analysis.significance import profile_significance
from spectator.environments.collider.claims.records import FrozenChannel, Unblinded
from spectator.events import EventData

TOYS: Final = 400
"""Toy spectra behind a global significance; their stream belongs to the spectrum."""

REACH_SIGMA: Final = 2.5
SCALE_ERROR: Final = 0.01
"""A claimed mass is corrected for the energy scale; the peak behind it is looked for within so many widths
and so large a share of the mass."""

FIT_REACH: Final = 12.0
"""Widths on either side of a peak that its fit uses."""


class MeasuredChannel(EventData):
    """What one channel shows near the claimed mass."""

    channel: str = Field(description="Its name")
    mass_gev: float = Field(description="Mass of largest significance there")
    sigma_gev: float = Field(description="Gaussian width that was searched for")
    z_local: float = Field(description="sqrt(q0) there")
    signal: float = Field(description="Fitted events")
    signal_error: float = Field(description="Their standard error")
    upcrossings: float = Field(description="Mean upcrossings of 0 sigma over the search window")
    fitted_mass_gev: float = Field(description="Mass by a fit with constrained width")
    fitted_mass_error_gev: float = Field(description="Its statistical error")


class Measured(EventData):
    """What the channels of a claim show together."""

    channels: list[MeasuredChannel] = Field(description="Each one")
    z_local: float = Field(description="Of the best channel, or of all together where that is more")
    z_global: float = Field(description="After the look-elsewhere effect over windows and channels")
    signal_limit: float | None = Field(default=None, description="CLs limit in events at the limit's mass")


def sigma_at(frozen: FrozenChannel, mass_gev: float) -> float:
    """Gaussian width that a selection searches for: resolution and natural width, in quadrature."""
    return mass_gev * math.hypot(frozen.relative_resolution, frozen.natural_width / FWHM_OF_SIGMA)


def recompute(
    channels: Sequence[FrozenChannel], spectra: Mapping[str, Unblinded], mass_gev: float
) -> Measured:
    """Significance of the excess at a mass, from the frozen selection and the opened spectra alone.

    Args:
        channels: The channels that the claim rests on, as frozen.
        spectra: The opened spectrum of each, by its name.
        mass_gev: The claimed mass.

    Raises:
        InvalidAnalysis: A spectrum or a window breaks its rule.
    """
    found = [_measure(frozen, spectra[frozen.channel], mass_gev) for frozen in channels]
    best = max(found, key=lambda one: one.z_local)
    p_best = min(p_of_z(best.z_local) + best.upcrossings * math.exp(-0.5 * best.z_local**2), 1.0)
    p_best = -math.expm1(len(found) * math.log1p(-min(p_best, 1.0 - 1e-16)))
    p_all = together([one.z_local for one in found])
    z_all = max(z_of_p(p_all), 0.0)
    crossings = max(one.upcrossings for one in found)
    p_global = min(p_best, p_all + crossings * math.exp(-0.5 * z_all**2))
    return Measured(
        channels=found,
        z_local=max(best.z_local, z_all),
        z_global=max(z_of_p(p_global), 0.0),
    )


def together(z: Sequence[float]) -> float:
    """Chance that channels without a signal show such excesses: the sum of their squares, deficits as 0.

    Half of the channels fluctuate down, so that the sum is a mixture of chi-squares.

    >>> round(together([3.0]) / p_of_z(3.0), 6)
    1.0
    """
    total, number = sum(max(one, 0.0) ** 2 for one in z), len(z)
    return math.fsum(
        math.comb(number, degrees) / 2**number * chi2_p(total, degrees) for degrees in range(1, number + 1)
    )


def _measure(frozen: FrozenChannel, opened: Unblinded, mass_gev: float) -> MeasuredChannel:
    edges, counts = np.array(opened.edges_gev), np.array(opened.counts, dtype=np.float64)
    sigma = sigma_at(frozen, mass_gev)
    reach = REACH_SIGMA * sigma + SCALE_ERROR * mass_gev
    near = np.linspace(max(mass_gev - reach, edges[0]), min(mass_gev + reach, edges[-1]), 41)
    top = scan(edges, counts, sigma, masses_gev=near, background=frozen.background).best_mass_gev
    peak = profile_significance(edges, counts, top, sigma_at(frozen, top), background=frozen.background)
    looked = global_significance(
        edges,
        counts,
        peak.z_local,
        lambda masses: sigma_at(frozen, 1.0) * masses,
        window_gev=frozen.window_gev,
        background=frozen.background,
        toys=TOYS,
    )
    window = (max(top - FIT_REACH * sigma, edges[0]), min(top + FIT_REACH * sigma, edges[-1]))
    fit = fit_resonance(
        edges, counts, window, mass_gev=top, resolution_gev=sigma, resolution_error_gev=0.2 * sigma
    )
    return MeasuredChannel(
        channel=frozen.channel,
        mass_gev=top,
        sigma_gev=sigma_at(frozen, top),
        z_local=peak.z_local,
        signal=peak.signal,
        signal_error=peak.signal_error,
        upcrossings=looked.upcrossings,
        fitted_mass_gev=fit.mass_gev,
        fitted_mass_error_gev=fit.mass_error_gev,
    )


def limit_at(frozen: FrozenChannel, opened: Unblinded, mass_gev: float) -> float:
    """CLs limit on the events of a peak, by the frozen selection.

    Raises:
        InvalidAnalysis: The mass lies outside, or the spectrum breaks its rule.
    """
    return upper_limit(
        opened.edges_gev, opened.counts, mass_gev, sigma_at(frozen, mass_gev), background=frozen.background
    ).signal
