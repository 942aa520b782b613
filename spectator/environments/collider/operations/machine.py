"""Actions on the machine and the detector: beam, trigger, runs, calibration."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from spectator.environments.collider import actions, physics
from spectator.environments.collider.analysis.calibration import calibrate
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance
from spectator.environments.collider.experiment import (
    DetectorScale,
    Laboratory,
    Plan,
    candle_edges,
    candle_resolution,
    collect,
)
from spectator.environments.collider.scenarios import candle_spectrum
from spectator.environments.collider.task import BANDWIDTH_HZ, SWITCHING_DAYS, Candle, HardRule, six

DRIFT_ERROR = 1.5e-4
"""Error of a scale per unit of ln m between the candle and the search window."""

REAL_SCALE_ERROR = 1.5e-3
"""How far the scale of real muons differs between the J/psi and the Z (data/README.md)."""

RESOLUTION_FLOOR = 0.01
"""Least relative error of a calibrated resolution."""


def switching_days(lab: Laboratory, sqrt_s_tev: float) -> float:
    """Return the days needed to switch to an energy; the first beam is ready."""
    return 0.0 if lab.beam is None or lab.beam.sqrt_s_tev == sqrt_s_tev else SWITCHING_DAYS


def configure_beam(lab: Laboratory, given: actions.ConfigureBeam) -> dict[str, Any]:
    """Switch to another beam energy."""
    beam = lab.task.beam(given.sqrt_s_tev)
    if beam is None:
        offered = ", ".join(f"{each.sqrt_s_tev:g}" for each in lab.task.beams)
        raise HardRule("invalid_parameters", f"sqrt_s_tev: one of {offered}.")
    if beam is lab.beam:
        raise HardRule("redundant", f"The machine runs at {beam.sqrt_s_tev:g} TeV already.")
    lab.beam, lab.planned = beam, None
    result = asdict(beam)
    lab.add_fact("beam_configured", **result)
    return result


def set_trigger(lab: Laboratory, given: actions.SetTrigger) -> dict[str, Any]:
    """Set the trigger menu; other channels are not recorded."""
    thresholds: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name, threshold in given.thresholds_gev.items():
        offer = lab.task.channels.get(name)
        if offer is None:
            raise HardRule(
                "channel_mismatch", f"No channel {name[:40]!r}; on offer: {', '.join(lab.task.channels)}."
            )
        lowest, highest = actions.lowest_threshold(offer.trigger_gev), six(offer.fit_window_gev[1])
        if not lowest <= threshold <= highest:
            raise HardRule(
                "invalid_parameters",
                f"thresholds_gev.{name}: from {lowest:.3g} to {highest:.4g} GeV, not {threshold:g}.",
            )
        thresholds[name] = threshold
        rates[name] = six(physics.rate_hz(offer.trigger_hz, offer.trigger_gev, threshold))
    if thresholds == lab.thresholds_gev:
        raise HardRule("redundant", "The menu is that already.")
    lab.thresholds_gev = thresholds
    lab.live_fraction = six(physics.live_fraction(rates, BANDWIDTH_HZ))
    result = {
        "thresholds_gev": dict(thresholds),
        "rates_hz": rates,
        "bandwidth_hz": BANDWIDTH_HZ,
        "live_fraction": lab.live_fraction,
    }
    lab.add_fact("trigger_set", **result)
    if lab.live_fraction < 0.999:
        lab.note("prescaled_trigger", f"Only {lab.live_fraction:.0%} of the triggered events are kept.")
    turn_on = {name: six(physics.TURN_ON * threshold) for name, threshold in thresholds.items()}
    return {**result, "half_efficiency_at_gev": turn_on}


def allocate_luminosity(lab: Laboratory, given: actions.AllocateLuminosity) -> dict[str, Any]:
    """Plan the next run."""
    if lab.beam is None:
        raise HardRule("missing_prerequisite", "configure_beam comes before allocate_luminosity.")
    if given.luminosity_fb > lab.left.luminosity_fb:
        raise HardRule("over_luminosity", f"luminosity_fb: at most {lab.left.luminosity_fb:g} fb^-1 is left.")
    lab.planned = (given.luminosity_fb, given.tuning_fraction)
    musd, days = run_price(lab)
    lab.add_fact(
        "luminosity_allocated", planned_fb=given.luminosity_fb, tuning_fraction=given.tuning_fraction
    )
    return {
        "planned_fb": given.luminosity_fb,
        "tuning_fraction": given.tuning_fraction,
        "will_cost_musd": six(musd),
        "will_take_days": six(days),
    }


def run_price(lab: Laboratory) -> tuple[float, float]:
    """Return MUSD and days of the planned run; zeros if none is planned."""
    if lab.beam is None or lab.planned is None:
        return 0.0, 0.0
    return lab.planned[0] * lab.beam.cost_musd_per_fb, lab.planned[0] * lab.beam.days_per_fb


def collect_collisions(lab: Laboratory, given: actions.NoArguments) -> dict[str, Any]:
    """Take the planned run."""
    if lab.beam is None or not lab.thresholds_gev:
        raise HardRule(
            "missing_prerequisite", "configure_beam and set_trigger come before collect_collisions."
        )
    if lab.planned is None:
        raise HardRule("missing_prerequisite", "allocate_luminosity comes before collect_collisions.")
    luminosity, tuning = lab.planned
    if luminosity > lab.left.luminosity_fb:
        raise HardRule("over_luminosity", f"At most {lab.left.luminosity_fb:g} fb^-1 is left.")
    plan = Plan(len(lab.runs) + 1, lab.beam, luminosity, tuning, dict(lab.thresholds_gev), lab.live_fraction)
    run = collect(lab.task, lab.nature, plan, lab.seed, lab.runs)
    lab.runs.append(run)
    lab.planned = None
    lab.left.luminosity_fb = six(lab.left.luminosity_fb - luminosity)
    result = {
        "run": run.name,
        "sqrt_s_tev": run.beam.sqrt_s_tev,
        "luminosity_collected_fb": luminosity,
        "pileup": run.beam.pileup,
        "events": {name: dataset.visible for name, dataset in run.data.items()},
    }
    lab.add_fact("run_collected", **result)
    return result


def calibrate_detector(lab: Laboratory, given: actions.CalibrateDetector) -> dict[str, Any]:
    """Fit a known resonance, and combine it with earlier ones."""
    candle = lab.task.candles.get(given.candle)
    if candle is None:
        raise HardRule("invalid_parameters", f"candle: one of {', '.join(lab.task.candles)}.")
    if not lab.runs:
        raise HardRule("missing_prerequisite", "collect_collisions comes before calibrate_detector.")
    if lab.fitted_candles.get(candle.name) == len(lab.runs):
        raise HardRule("redundant", f"{candle.name} is fitted in all that was recorded.")
    if lab.task.real_data:
        return _keep(lab, candle, _fit_real(lab, candle))
    counts = sum(
        (run.candles[candle.name] for run in lab.runs), start=np.zeros_like(lab.runs[0].candles[candle.name])
    )
    if counts.sum() < actions.CANDLE_EVENTS:
        raise HardRule(
            "missing_prerequisite", f"Only {int(counts.sum())} events of {candle.name}: record more."
        )
    return _keep(lab, candle, _fit(lab, candle, counts))


def _keep(lab: Laboratory, candle: Candle, fitted: tuple[DetectorScale, dict[str, Any]]) -> dict[str, Any]:
    found, result = fitted
    before = lab.scales.get(candle.detector)
    fresh = before is None or candle.name in before.candles
    lab.scales[candle.detector] = found if fresh or before is None else _combined(before, found)
    lab.fitted_candles[candle.name] = len(lab.runs)
    lab.add_fact("detector_calibrated", **result)
    return result


def _fit(lab: Laboratory, candle: Candle, counts: Any) -> tuple[DetectorScale, dict[str, Any]]:
    edges = candle_edges(lab.task, candle)
    nominal = candle.mass_gev * candle_resolution(lab.task, candle) * _broadening(lab)
    fit = fit_resonance(
        edges, counts, (float(edges[0]), float(edges[-1])),
        model="gauss", background="exponential",
        resolution_gev=nominal, resolution_error_gev=0.3 * nominal, mass_gev=candle.mass_gev,
    )  # fmt: skip
    centre = math.sqrt(lab.task.window_gev[0] * lab.task.window_gev[1])
    drift = DRIFT_ERROR * abs(math.log(centre / candle.mass_gev))
    error = math.hypot((fit.mass_error_gev or nominal) / candle.mass_gev, drift)
    width_error = (fit.width_error_gev or 0.1 * nominal) / nominal
    scale = DetectorScale(
        six(fit.mass_gev / candle.mass_gev),
        six(error),
        six(fit.width_gev / nominal),
        six(math.hypot(width_error, RESOLUTION_FLOOR)),
        (candle.name,),
    )
    return scale, _calibration(candle, scale, fit)


def _fit_real(lab: Laboratory, candle: Candle) -> tuple[DetectorScale, dict[str, Any]]:
    """Calibrate on the known resonance in the real data, on the campaign's axis.

    Its scale holds elsewhere to ``REAL_SCALE_ERROR``.
    """
    recorded = lab.nature.recorded
    assert recorded is not None
    found = calibrate(recorded.candle, *candle_spectrum(recorded.candle))
    error = math.hypot(found.scale_error, REAL_SCALE_ERROR)
    scale = DetectorScale(
        six(found.scale**recorded.axis.power), six(recorded.axis.power * error), candles=(candle.name,)
    )
    return scale, _calibration(candle, scale, found.fit)


def _calibration(candle: Candle, scale: DetectorScale, fit: ResonanceFit) -> dict[str, Any]:
    """Return the public result of a fitted candle."""
    return {
        "candle": candle.name,
        "detector": candle.detector,
        "reference_gev": candle.mass_gev,
        "scale": scale.scale,
        "scale_error": scale.scale_error,
        "resolution_factor": scale.resolution,
        "resolution_factor_error": scale.resolution_error,
        "chi2": six(fit.chi2),
        "ndf": fit.ndf,
    }


def _broadening(lab: Laboratory) -> float:
    total = sum(run.luminosity_fb for run in lab.runs)
    return math.sqrt(sum(run.luminosity_fb * (1.0 + run.beam.pileup / 100.0) for run in lab.runs) / total)


def _combined(first: DetectorScale, second: DetectorScale) -> DetectorScale:
    """Return the weighted means.

    The drift dominates the errors, so they shrink as they should.
    """
    one, two = first.scale_error**-2, second.scale_error**-2
    three, four = first.resolution_error**-2, second.resolution_error**-2
    return DetectorScale(
        six((one * first.scale + two * second.scale) / (one + two)),
        six((one + two) ** -0.5),
        six((three * first.resolution + four * second.resolution) / (three + four)),
        six((three + four) ** -0.5),
        (*first.candles, *second.candles),
    )
