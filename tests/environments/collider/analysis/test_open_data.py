"""The analysis on real collisions: what the shipped CMS data hold is found and fitted as it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spectator.environments.collider.analysis.calibration import CANDLES, calibrate
from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.counting import template_fit
from spectator.environments.collider.analysis.mass_scan import scan
from spectator.environments.collider.analysis.open_data import (
    PDG,
    dimuon_spectrum,
    four_lepton_events,
    four_lepton_templates,
)
from spectator.environments.collider.analysis.resonance import fit_resonance, fit_resonances
from spectator.environments.collider.analysis.resonance_search import find_resonances

EDGES, COUNTS = dimuon_spectrum()


def histogram(masses: Floats, edges: Floats) -> Floats:
    return np.histogram(masses, edges)[0].astype(np.float64)


def dimuon_events(window: str) -> dict[str, Floats]:
    """Return muon pairs of 2010 and 2011 in a mass window, of equal and opposite charge (data/README.md)."""
    loaded = np.load(Path(__file__).with_name("dimuon_events.npz"))
    return {name: loaded[f"{window}__{name}"].astype(np.float64) for name in ("q1", "q2", "mass")}


@pytest.mark.parametrize(
    ("window", "mass", "tolerance"),
    [
        ((2.8, 3.4), 3.09320, 5e-4),
        ((3.5, 3.9), 3.6816, 5e-4),
        ((9.2, 9.75), 9.4473, 5e-4),
        ((9.75, 10.2), 10.0100, 1e-3),
        ((10.2, 10.7), 10.3400, 2e-3),
        ((86, 96), 90.868, 5e-4),
        ((75, 110), 90.895, 1e-3),
        ((0.95, 1.10), 1.0167, 3e-3),
        ((0.70, 0.86), 0.7793, 4e-3),
    ],
)
def test_a_peak_of_the_shipped_spectrum_is_fitted_with_only_a_window_given(
    window: tuple[float, float], mass: float, tolerance: float
) -> None:
    """Against fits made elsewhere with other shapes (data/README.md); 2S and 3S: the PDG's masses, scaled."""
    fit = fit_resonance(EDGES, COUNTS, window)
    assert fit.converged
    assert not fit.background_like
    assert fit.z_local > 20
    assert fit.mass_gev == pytest.approx(mass, rel=tolerance)
    assert 0.006 < fit.width_gev / fit.mass_gev < 0.025


def test_the_three_upsilons_are_fitted_together_in_one_window() -> None:
    fits = fit_resonances(EDGES, COUNTS, (8.6, 11.2))
    scale = fits[0].mass_gev / PDG["upsilon1s"].mass_gev
    assert [fit.mass_gev / scale for fit in fits] == pytest.approx(
        [PDG[name].mass_gev for name in ("upsilon1s", "upsilon2s", "upsilon3s")], rel=5e-4
    )
    assert fits[0].chi2 / fits[0].ndf < 1.6


def test_the_whole_spectrum_holds_eight_resonances_and_no_shoulder() -> None:
    names = ("omega", "phi", "jpsi", "psi2s", "upsilon1s", "upsilon2s", "upsilon3s", "z")
    found = find_resonances(EDGES, COUNTS)
    assert len(found) == len(names)
    for fit, name in zip(found, names, strict=True):
        assert fit.mass_gev == pytest.approx(PDG[name].mass_gev, rel=5e-3), name


@pytest.mark.parametrize("share", [0.3, 0.03])
def test_the_same_holds_for_a_part_of_the_events(share: float) -> None:
    counts = np.random.default_rng(11).binomial(COUNTS.astype(np.int64), share)
    found = find_resonances(EDGES, counts, (1.1, 200.0))
    expected = ("jpsi", "psi2s", "upsilon1s", "upsilon2s", "upsilon3s", "z")
    assert [fit.mass_gev for fit in found] == pytest.approx(
        [PDG[name].mass_gev * (0.9963 if name == "z" else 0.9988) for name in expected], rel=2e-3
    )


@pytest.mark.parametrize(
    "window",
    [
        (15, 70),
        (11, 50),
        (15, 40),
        (20, 45),
        (22, 40),
        (25, 35),
        (15, 60),
        (10.7, 14),
        (4.2, 7.5),
        (110, 180),
    ],
)
def test_the_trigger_shoulder_and_other_smooth_stretches_hold_no_resonance(
    window: tuple[float, float],
) -> None:
    """By the local background shape test: a quartic background describes it as well."""
    assert find_resonances(EDGES, COUNTS, window) == ()
    fit = fit_resonance(EDGES, COUNTS, window)
    assert fit.background_like or fit.z_local < 3


@pytest.mark.parametrize(
    "window", [(2.74, 4.384), (61.516, 98.426), (3.05, 5.0), (91.0, 130.0), (30.0, 93.0), (9.8, 12.0)]
)
def test_a_window_that_begins_or_ends_in_a_peak_reports_none_there(window: tuple[float, float]) -> None:
    for fit in find_resonances(EDGES, COUNTS, window):
        assert window[0] + 2 * fit.width_gev < fit.mass_gev < window[1] - 2 * fit.width_gev
        nearest = min(PDG.values(), key=lambda known: abs(known.mass_gev - fit.mass_gev))
        assert fit.mass_gev == pytest.approx(nearest.mass_gev, rel=5e-3)


@pytest.mark.parametrize(
    "window",
    [(100, 200), (91, 150), (10.7, 60), (12, 60), (20, 80), (3.2, 9.0), (92.1, 119.517), (3.166, 10.167)],
)
def test_a_fit_at_an_end_of_its_window_is_background(window: tuple[float, float]) -> None:
    fit = fit_resonance(EDGES, COUNTS, window)
    assert fit.at_edge and fit.background_like


@pytest.mark.parametrize(
    "window", [(0.3489, 0.387), (0.4036, 0.4404), (11.1518, 25.8105), (20.81, 39.777), (87.824, 185.984)]
)
def test_an_uncertain_peak_of_a_poor_or_wide_fit_is_background(window: tuple[float, float]) -> None:
    """Bins that scatter by more than Poisson's error, the trigger's turn-on, and a tail of the Z."""
    fit = fit_resonance(EDGES, COUNTS, window)
    assert fit.z_local > 5 and not fit.at_edge
    assert fit.background_like


@pytest.mark.parametrize("half", [0, 1])
def test_either_half_of_the_events_holds_the_same_resonances(half: int) -> None:
    first = np.random.default_rng(5).binomial(COUNTS.astype(np.int64), 0.5)
    found = find_resonances(EDGES, first if half == 0 else COUNTS - first, (1.1, 200.0))
    names = ("jpsi", "psi2s", "upsilon1s", "upsilon2s", "upsilon3s", "z")
    assert [fit.mass_gev for fit in found] == pytest.approx([PDG[name].mass_gev for name in names], rel=5e-3)


def test_a_scan_over_the_shoulder_says_that_its_background_fails() -> None:
    first, last = np.searchsorted(EDGES, (20, 45))
    found = scan(EDGES[first : last + 1], COUNTS[first:last], lambda m: 0.013 * m, background="quadratic")
    assert found.best_z > 5
    assert found.background_p_value < 1e-6


def test_calibrated_on_jpsi_upsilon_has_the_mass_of_the_tables() -> None:
    jpsi, upsilon = calibrate("jpsi", EDGES, COUNTS), calibrate("upsilon1s", EDGES, COUNTS)
    assert upsilon.scale == pytest.approx(0.9987, abs=3e-4)
    assert upsilon.fit.mass_gev / jpsi.scale == pytest.approx(PDG["upsilon1s"].mass_gev, rel=5e-4)
    assert abs(upsilon.scale - jpsi.scale) < 2 * np.hypot(upsilon.scale_error, jpsi.scale_error)


def test_all_candles_can_be_fitted_and_those_of_low_mass_agree() -> None:
    found = {name: calibrate(name, EDGES, COUNTS) for name in CANDLES}
    assert found["z"].scale == pytest.approx(0.9965, abs=5e-4)
    assert all(0.005 < one.fit.width_gev / one.fit.mass_gev < 0.02 for one in found.values())
    low = [found[name] for name in ("jpsi", "psi2s", "upsilon1s")]
    assert np.ptp([one.scale for one in low]) < 3 * max(one.scale_error for one in low)
    assert found["jpsi"].scale - found["z"].scale > 5 * found["z"].scale_error


REFERENCE = {
    "psi2s": (3.6816, 0.0020, (3.5, 3.9)),
    "upsilon1s": (9.4510, 0.0021, (9.0, 9.7)),
    "phi": (1.0167, 0.0009, (0.9, 1.13)),
    "rho_omega": (0.7793, 0.0009, (0.65, 0.90)),
    "z": (90.91, 0.04, (80.0, 102.0)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_single_events_give_the_masses_of_independent_fits(name: str) -> None:
    mass, error, window = REFERENCE[name]
    events = dimuon_events(name)
    opposite = events["q1"] * events["q2"] < 0
    edges = np.linspace(*window, 51)
    fit = fit_resonance(edges, histogram(events["mass"][opposite], edges))
    assert fit.converged
    assert fit.z_local > 8
    assert abs(fit.mass_gev - mass) < 2.5 * error
    assert 0.5 * error < fit.mass_error_gev < 3 * error


def test_two_halves_of_the_events_agree_within_their_errors() -> None:
    pulls = []
    for name in REFERENCE:
        events = dimuon_events(name)
        edges = np.linspace(*REFERENCE[name][2], 41)
        fits = []
        for half in (0, 1):
            chosen = (np.arange(len(events["mass"])) % 2 == half) & (events["q1"] * events["q2"] < 0)
            fits.append(fit_resonance(edges, histogram(events["mass"][chosen], edges)))
        spread = np.hypot(fits[0].mass_error_gev, fits[1].mass_error_gev)
        pulls.append((fits[0].mass_gev - fits[1].mass_gev) / spread)
    assert np.abs(pulls).max() < 3


def test_seventy_jpsi_are_enough() -> None:
    events = dimuon_events("jpsi")
    edges = np.linspace(2.5, 3.6, 56)
    opposite = events["q1"] * events["q2"] < 0
    fit = fit_resonance(edges, histogram(events["mass"][opposite], edges))
    assert abs(fit.mass_gev - 3.0932) < 3 * fit.mass_error_gev
    assert 40 < fit.signal < 100
    same = fit_resonance(edges, histogram(events["mass"][~opposite], edges))
    assert same.z_local < 4


def templates() -> tuple[Floats, Floats, Floats]:
    expected = four_lepton_templates()
    seen = histogram(four_lepton_events()["m"], expected.edges_gev)
    return seen, expected.higgs125, np.sum(list(expected.backgrounds.values()), axis=0)


def test_the_four_lepton_higgs_boson_stands_out_by_three_sigma() -> None:
    seen, higgs, background = templates()
    above = four_lepton_templates().edges_gev[:-1] >= 100
    fit = template_fit(seen[above], higgs[above], background[above], 0.10)
    assert fit.z_observed == pytest.approx(3.08, abs=0.05)
    assert fit.z_expected == pytest.approx(3.32, abs=0.05)
    assert fit.mu == pytest.approx(0.90, abs=0.03)


def test_the_four_lepton_higgs_boson_has_its_mass() -> None:
    edges = np.linspace(105, 150, 46)
    fit = fit_resonance(
        edges, histogram(four_lepton_events()["m"], edges), resolution_gev=2.0, background="exponential"
    )
    assert fit.mass_gev == pytest.approx(124.6, abs=0.3)
    assert fit.mass_error_gev == pytest.approx(1.3, abs=0.4)
    assert abs(fit.mass_gev - PDG["higgs"].mass_gev) < 2 * fit.mass_error_gev


def test_the_events_are_as_the_readme_says() -> None:
    assert COUNTS.sum() == 19_504_915
    assert len(four_lepton_events()["m"]) == 278
