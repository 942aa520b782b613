"""Bad input is rejected by field and rule, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spectator.environments.collider.analysis import (
    calibration,
    counting,
    mass_scan,
    resonance,
    resonance_search,
    shapes,
    significance,
)
from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.errors import InvalidRequest

EDGES = np.linspace(100.0, 160.0, 61)
COUNTS = np.full(60, 100.0)


def nan_at(index: int) -> np.ndarray:
    counts = COUNTS.copy()
    counts[index] = np.nan
    return counts


SPECTRA: dict[str, tuple[Any, Any, str, str]] = {
    "masses in MeV": (EDGES * 1000, COUNTS, "edges_gev", "MeV"),
    "negative counts": (EDGES, COUNTS - 200, "counts", "zero or more"),
    "a NaN among the counts": (EDGES, nan_at(7), "counts", "finite"),
    "an infinite edge": (np.append(EDGES[:-1], np.inf), COUNTS, "edges_gev", "finite"),
    "edges that fall": (EDGES[::-1], COUNTS, "edges_gev", "ascend"),
    "two equal edges": (np.sort(np.append(EDGES[:-1], EDGES[3])), COUNTS, "edges_gev", "ascend"),
    "negative edges": (EDGES - 120, COUNTS, "edges_gev", "0 GeV or more"),
    "one edge too few": (EDGES[:-1], COUNTS, "edges_gev", "one value more"),
    "an empty spectrum": (EDGES, COUNTS * 0, "counts", "at least one event"),
    "no bins": ([100.0], [], "edges_gev", "at least two"),
    "a matrix": (EDGES, COUNTS.reshape(6, 10), "counts", "one dimension"),
    "words": (EDGES, ["many"] * 60, "counts", "numbers only"),
    "one bin": ([100.0, 160.0], [6000.0], "", "at least"),
}

CALLS: dict[str, Callable[[Any, Any], object]] = {
    "fit_resonance": resonance.fit_resonance,
    "fit_resonances": resonance.fit_resonances,
    "find_resonances": resonance_search.find_resonances,
    "fit_background": shapes.fit_background,
    "scan": lambda e, n: mass_scan.scan(e, n, 1.6),
    "global_significance": lambda e, n: mass_scan.global_significance(e, n, 4.0, 1.6),
    "profile_significance": lambda e, n: significance.profile_significance(e, n, 125.0, 1.6),
    "upper_limit": lambda e, n: significance.upper_limit(e, n, 125.0, 1.6),
    "unified_interval": lambda e, n: significance.unified_interval(e, n, 125.0, 1.6),
    "spurious_signal": lambda e, n: significance.spurious_signal(e, n, 125.0, 1.6),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("case", SPECTRA)
def test_a_bad_spectrum_is_rejected_everywhere(call: str, case: str) -> None:
    edges, counts, field, rule = SPECTRA[case]
    with pytest.raises(InvalidAnalysis) as rejected:
        CALLS[call](edges, counts)
    assert field in rejected.value.fields[0].field
    assert rule in rejected.value.fields[0].rule


BAD_CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "a window in MeV": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (110_000, 140_000)),
        "window_gev",
        "divide by 1000",
    ),
    "a window outside": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (20, 40)),
        "window_gev",
        "within the data",
    ),
    "a window that reaches out": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (110, 200)),
        "window_gev",
        "within the data",
    ),
    "a window of one bin": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (120.0, 121.0)),
        "window_gev",
        "at least 5 bins, not 1",
    ),
    "a window that falls": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (140, 110)),
        "window_gev",
        "must ascend",
    ),
    "three ends of a window": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, (110, 120, 130)),
        "window_gev",
        "a pair",
    ),
    "a window without events": (
        lambda: resonance.fit_resonance(EDGES, np.where(EDGES[:-1] < 130, 9.0, 0.0), (140, 150)),
        "counts",
        "in the window",
    ),
    "an unknown model": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, model="lorentz"),
        "model",
        "gauss, voigt, crystal_ball",
    ),
    "an unknown background": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, background="flat"),
        "background",
        "power_law",
    ),
    "voigt without its width": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, model="voigt"),
        "natural_width_gev",
        "must be given",
    ),
    "a natural width for gauss": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, model="gauss", natural_width_gev=1.0),
        "model",
        "voigt",
    ),
    "a resolution of zero": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, resolution_gev=0.0),
        "resolution_gev",
        "above 0",
    ),
    "an error without its value": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, resolution_error_gev=0.1),
        "resolution_gev",
        "must be given",
    ),
    "a start in MeV": (
        lambda: resonance.fit_resonance(EDGES, COUNTS, mass_gev=125_000.0),
        "mass_gev",
        "divide by 1000",
    ),
    "a mass that is not a number": (
        lambda: significance.profile_significance(EDGES, COUNTS, "heavy", 1.6),  # type: ignore[arg-type]
        "mass_gev",
        "must be a number",
    ),
    "masses outside the scan": (
        lambda: mass_scan.scan(EDGES, COUNTS, 1.6, masses_gev=[90.0]),
        "masses_gev",
        "within the data",
    ),
    "a resolution that asks for too many masses": (
        lambda: mass_scan.scan(EDGES, COUNTS, 1e-6),
        "resolution_gev",
        "at most",
    ),
    "a NaN significance": (
        lambda: mass_scan.global_significance(EDGES, COUNTS, float("nan"), 1.6),
        "z_local",
        "finite",
    ),
    "too few toys": (
        lambda: mass_scan.global_significance(EDGES, COUNTS, 4.0, 1.6, toys=3),
        "toys",
        "at least 50",
    ),
    "half an event": (lambda: significance.counting_limit(2.5, 1.0), "observed", "whole number"),
    "too many events": (lambda: significance.counting_interval(10_001, 1.0), "observed", "at most 10000"),
    "a negative signal": (lambda: counting.discovery_significance(-1.0, 10.0), "signal", "at least 0"),
    "no background": (lambda: counting.discovery_significance(1.0, 0.0), "background", "above 0"),
    "an unknown candle": (lambda: calibration.calibrate("top", EDGES, COUNTS), "candle", "jpsi"),
    "a candle outside the data": (
        lambda: calibration.calibrate("z", EDGES, COUNTS),
        "edges_gev",
        "91.1879 GeV",
    ),
    "a candle in MeV": (
        lambda: calibration.calibrate("jpsi", np.linspace(2800, 3400, 61), COUNTS),
        "edges_gev",
        "divide by 1000",
    ),
    "a candle that is not there": (
        lambda: calibration.calibrate("z", np.linspace(80, 102, 61), COUNTS),
        "candle",
        "must stand out by at least 5",
    ),
    "templates of two lengths": (
        lambda: counting.template_fit([1, 2], [1.0], [1.0, 1.0]),
        "signal",
        "one value for each",
    ),
    "events where none can be": (
        lambda: counting.template_fit([1, 2], [1.0, 0.0], [1.0, 0.0]),
        "background",
        "in every bin that has counts",
    ),
    "everything excluded": (
        lambda: shapes.fit_background(EDGES, COUNTS, exclude_gev=[(100, 160)]),
        "exclude_gev",
        "must leave at least",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_bad_argument_is_rejected_by_field_and_rule(case: str) -> None:
    call, field, rule = BAD_CALLS[case]
    with pytest.raises(InvalidAnalysis) as rejected:
        call()
    assert rejected.value.fields[0].field == field
    assert rule in rejected.value.fields[0].rule


def test_an_error_is_an_invalid_request_and_a_value_error_and_leaves_the_data_alone() -> None:
    counts = COUNTS - 200
    before = counts.copy()
    with pytest.raises(InvalidRequest):
        resonance.fit_resonance(EDGES, counts)
    with pytest.raises(ValueError, match="counts: must be zero or more"):
        resonance.fit_resonance(EDGES, counts)
    assert (counts == before).all()


def test_analysis_changes_none_of_its_arguments() -> None:
    edges, counts = EDGES.copy(), np.random.default_rng(1).poisson(COUNTS).astype(float)
    before = counts.copy()
    for call in CALLS.values():
        call(edges, counts)
    assert (edges == EDGES).all()
    assert (counts == before).all()
