"""Calibrate momentum scale and resolution on peaks of known mass (standard candles)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Window,
    checked_choice,
    checked_edges,
    checked_number,
    invalid,
)
from spectator.environments.collider.analysis.open_data import PDG
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance
from spectator.environments.collider.analysis.shapes import chi2_p


@dataclass(frozen=True, slots=True)
class CalibrationPeak:
    """A peak to calibrate on.

    Args:
        particle: Its name in ``PDG``.
        window_gev: Where it is fitted.
        voigt: Whether its natural width matters beside the resolution.
    """

    particle: str
    window_gev: tuple[float, float]
    voigt: bool = False


CANDLES: Final[Mapping[str, CalibrationPeak]] = {
    "omega": CalibrationPeak("omega", (0.70, 0.86), voigt=True),
    "phi": CalibrationPeak("phi", (0.95, 1.10), voigt=True),
    "jpsi": CalibrationPeak("jpsi", (2.85, 3.35)),
    "psi2s": CalibrationPeak("psi2s", (3.50, 3.90)),
    "upsilon1s": CalibrationPeak("upsilon1s", (8.60, 11.20)),
    "z": CalibrationPeak("z", (80.0, 102.0), voigt=True),
}
"""Peaks by name. The windows reach about five resolutions of 1 to 2 % to either side. That of Upsilon(1S)
includes its two neighbours, which are fitted with it."""

MIN_PEAK_Z: Final = 5.0
"""Least significance, in standard deviations, of a peak that calibrates."""

SHAPE_FLOOR: Final = 2e-4
"""Least relative error of a scale: the effect of a peak's unknown shape on its fitted mass."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scale and resolution of the detector, measured on one candle.

    Args:
        candle: Its name.
        scale: Measured over true mass; divide a measured mass by it.
        scale_error: Standard error, including that of the true mass; at least ``SHAPE_FLOOR``.
        relative_resolution: Gaussian sigma over mass.
        relative_resolution_error: Its standard error.
        resolution_factor: ``relative_resolution`` over the expected one; ``None`` if none was given.
        resolution_factor_error: Its standard error.
        fit: The fit of the peak.
    """

    candle: str
    scale: float
    scale_error: float
    relative_resolution: float
    relative_resolution_error: float
    resolution_factor: float | None
    resolution_factor_error: float | None
    fit: ResonanceFit

    def corrected(self, mass_gev: float) -> float:
        """Return a measured mass corrected for the scale."""
        return mass_gev / self.scale


@dataclass(frozen=True, slots=True)
class CombinedCalibration:
    """Weighted mean of several candles.

    Args:
        scale: Measured over true mass.
        scale_error: Standard error, scaled by sqrt(chi2 / ndf) if the candles disagree.
        resolution_factor: Mean factor; ``None`` if a candle has none.
        resolution_factor_error: Its standard error.
        chi2: Of the scales about their mean.
        ndf: Candles less one.
        p_value: Chance of a chi-square this large.
    """

    scale: float
    scale_error: float
    resolution_factor: float | None
    resolution_factor_error: float | None
    chi2: float
    ndf: int
    p_value: float

    def corrected(self, mass_gev: float) -> float:
        """Return a measured mass corrected for the scale."""
        return mass_gev / self.scale


def calibrate(
    candle: str,
    edges_gev: ArrayLike,
    counts: ArrayLike,
    *,
    window_gev: Window | None = None,
    expected_relative_resolution: float | None = None,
) -> Calibration:
    """Fit a candle's peak and compare it with the true mass.

    Args:
        candle: One of ``CANDLES``.
        edges_gev: Bin edges.
        counts: Events.
        window_gev: Where to fit; by default the window in ``CANDLES``.
        expected_relative_resolution: sigma / m expected from simulation, for ``resolution_factor``.

    Raises:
        InvalidAnalysis: The candle is unknown, the data do not cover its mass, or its peak has less than
            ``MIN_PEAK_Z`` standard deviations.
    """
    name = checked_choice("candle", candle, tuple(CANDLES))
    known, truth = CANDLES[name], PDG[CANDLES[name].particle]
    edges = checked_edges(edges_gev)
    if not edges[0] <= truth.mass_gev <= edges[-1]:
        hint = (
            "; they look like MeV: divide by 1000" if edges[0] <= 1000 * truth.mass_gev <= edges[-1] else ""
        )
        raise invalid("edges_gev", f"must cover {truth.mass_gev:g} GeV, the mass of {name}{hint}")
    low, high = known.window_gev if window_gev is None else window_gev
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
    return _compared(name, fit, truth.mass_gev, truth.mass_error_gev, expected_relative_resolution)


def _compared(
    name: str, fit: ResonanceFit, true: float, true_error: float, expected: float | None
) -> Calibration:
    scale = fit.mass_gev / true
    error = scale * max(math.hypot(fit.mass_error_gev / fit.mass_gev, true_error / true), SHAPE_FLOOR)
    resolution, resolution_error = fit.width_gev / fit.mass_gev, fit.width_error_gev / fit.mass_gev
    factor = None
    if expected is not None:
        factor = resolution / checked_number("expected_relative_resolution", expected, above=0.0)
    return Calibration(
        name,
        scale,
        error,
        resolution,
        resolution_error,
        factor,
        None if factor is None else factor * resolution_error / resolution,
        fit,
    )


def combine_calibrations(calibrations: Sequence[Calibration]) -> CombinedCalibration:
    """Return the weighted mean of several candles.

    Raises:
        InvalidAnalysis: ``calibrations`` is empty.
    """
    if not calibrations:
        raise invalid("calibrations", "must hold at least one")
    scale, error, chi2 = weighted_mean([(one.scale, one.scale_error) for one in calibrations])
    ndf = len(calibrations) - 1
    factors = [
        (one.resolution_factor, one.resolution_factor_error)
        for one in calibrations
        if one.resolution_factor is not None and one.resolution_factor_error
    ]
    factor, factor_error = None, None
    if len(factors) == len(calibrations):
        factor, factor_error, _ = weighted_mean([(value, error) for value, error in factors if error])
    spread = max(math.sqrt(chi2 / ndf), 1.0) if ndf else 1.0
    return CombinedCalibration(scale, error * spread, factor, factor_error, chi2, ndf, chi2_p(chi2, ndf))


def weighted_mean(values: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the inverse-variance weighted mean, its standard error, and the chi-square.

    >>> weighted_mean([(1.0, 1.0), (3.0, 1.0)])
    (2.0, 0.7071067811865475, 2.0)
    """
    weights = [error**-2 for _, error in values]
    mean = sum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / sum(weights)
    chi2 = sum(weight * (value - mean) ** 2 for weight, (value, _) in zip(weights, values, strict=True))
    return mean, 1.0 / math.sqrt(sum(weights)), chi2
