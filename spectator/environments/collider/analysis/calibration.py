"""Calibrate the momentum scale on peaks of known mass (standard candles)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import checked_choice, checked_edges, invalid
from spectator.environments.collider.analysis.open_data import PDG
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance


@dataclass(frozen=True, slots=True)
class CalibrationPeak:
    """A peak to calibrate on.

    Args:
        voigt: Whether its natural width matters beside the resolution.
    """

    window_gev: tuple[float, float]
    voigt: bool = False


CANDLES: Final[Mapping[str, CalibrationPeak]] = {
    "omega": CalibrationPeak((0.70, 0.86), voigt=True),
    "phi": CalibrationPeak((0.95, 1.10), voigt=True),
    "jpsi": CalibrationPeak((2.85, 3.35)),
    "psi2s": CalibrationPeak((3.50, 3.90)),
    "upsilon1s": CalibrationPeak((8.60, 11.20)),
    "z": CalibrationPeak((80.0, 102.0), voigt=True),
}
"""Peaks by their name in ``PDG``. The windows reach about five resolutions of 1 to 2 % to either side. That
of Upsilon(1S) includes its two neighbours, which are fitted with it."""

MIN_PEAK_Z: Final = 5.0
"""Least significance, in standard deviations, of a peak that calibrates."""

SHAPE_FLOOR: Final = 2e-4
"""Least relative error of a scale: the effect of a peak's unknown shape on its fitted mass."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scale of the detector, measured on one candle.

    Args:
        scale: Measured over true mass; divide a measured mass by it.
        scale_error: Standard error, including that of the true mass; at least ``SHAPE_FLOOR``.
    """

    scale: float
    scale_error: float
    fit: ResonanceFit


def calibrate(candle: str, edges_gev: ArrayLike, counts: ArrayLike) -> Calibration:
    """Fit the peak of one of ``CANDLES`` and compare it with the true mass.

    Raises:
        InvalidAnalysis: The candle is unknown, the data do not cover its mass, or its peak has less than
            ``MIN_PEAK_Z`` standard deviations.
    """
    name = checked_choice("candle", candle, tuple(CANDLES))
    known, truth = CANDLES[name], PDG[name]
    edges = checked_edges(edges_gev)
    if not edges[0] <= truth.mass_gev <= edges[-1]:
        hint = (
            "; they look like MeV: divide by 1000" if edges[0] <= 1000 * truth.mass_gev <= edges[-1] else ""
        )
        raise invalid("edges_gev", f"must cover {truth.mass_gev:g} GeV, the mass of {name}{hint}")
    low, high = known.window_gev
    fit = fit_resonance(
        edges_gev,
        counts,
        (max(low, float(edges[0])), min(high, float(edges[-1]))),
        natural_width_gev=truth.width_gev if known.voigt else None,
        mass_gev=truth.mass_gev,
    )
    if not fit.converged or fit.z_local < MIN_PEAK_Z:
        raise invalid(
            "candle",
            f"{name} must stand out by at least {MIN_PEAK_Z:g} standard deviations, not {fit.z_local:.1f}",
        )
    scale, true_error = fit.mass_gev / truth.mass_gev, truth.mass_error_gev / truth.mass_gev
    error = scale * max(math.hypot(fit.mass_error_gev / fit.mass_gev, true_error), SHAPE_FLOOR)
    return Calibration(scale, error, fit)
