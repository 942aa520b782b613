from __future__ import annotations

import math

import numpy as np
import pytest

from spectator.environments.collider.analysis.counting import (
    counting_significance,
    discovery_significance,
    expected_significance,
)
from spectator.environments.collider.analysis.mass_scan import scan
from spectator.environments.collider.analysis.shapes import p_of_z, z_of_p
from spectator.environments.collider.analysis.significance import profile_significance
from tests.environments.collider.analysis.toys import Toy


@pytest.mark.parametrize(("error", "expected"), [(0, 4.652), (5, 4.099), (10, 3.173), (20, 1.968)])
def test_z_of_fifty_over_a_hundred(error: float, expected: float) -> None:
    """The table of G. Cowan's formula, as in the project's notes."""
    assert discovery_significance(50, 100, error) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("background", "exact"),
    [(100, 4.97), (50, 4.93), (20, 4.91), (10, 4.81), (5, 4.96), (1, 4.73), (0.5, 4.75)],
)
def test_a_formula_of_five_sigma_against_the_exact_median(background: float, exact: float) -> None:
    """The signal that the formula gives five sigma, and the exact significance of the median count."""
    from scipy.optimize import brentq
    from scipy.stats import poisson

    signal = brentq(lambda s: float(discovery_significance(s, background)) - 5, 0.01, 500)
    median = int(poisson.median(signal + background))
    assert counting_significance(median, background) == pytest.approx(exact, abs=0.02)


def test_the_formula_is_one_of_arrays_and_falls_with_the_error() -> None:
    values = discovery_significance(np.array([5.0, 50.0]), 100.0, np.array([[0.0], [10.0]]))
    assert values.shape == (2, 2)
    assert (values[0] > values[1]).all()
    assert discovery_significance(50, 100, 1e-4) == pytest.approx(discovery_significance(50, 100), abs=1e-3)


@pytest.mark.parametrize("n", [0, 3, 8, 12, 30])
def test_counts_without_error_are_exact(n: int) -> None:
    from scipy.stats import poisson

    above, below = float(poisson.sf(n - 1, 8.3)), float(poisson.cdf(n, 8.3))
    expected = z_of_p(above) if above < 0.5 else -z_of_p(below) if below < 0.5 else 0.0
    assert counting_significance(n, 8.3) == pytest.approx(expected, abs=1e-6)


def test_no_events_are_a_deficit_of_as_much_as_they_are_unlikely() -> None:
    found = [counting_significance(0, background) for background in (0.1, 0.69, 1.5, 10.0, 600.0, 2000.0)]
    assert found[:2] == [0.0, 0.0]
    assert found[2:4] == pytest.approx([-z_of_p(math.exp(-b)) for b in (1.5, 10.0)], abs=1e-6)
    assert found == sorted(found, reverse=True) and found[-1] > -70.0


def test_a_deficit_is_negative_and_counts_and_formula_agree_far_above() -> None:
    assert counting_significance(60, 100, 10) < -2
    assert counting_significance(100, 100, 10) == pytest.approx(0.0)
    assert counting_significance(150, 100) == pytest.approx(4.652, abs=0.08)


def test_significance_and_chance_are_inverse() -> None:
    for z in (-1.0, 0.0, 2.0, 5.0, 8.0, 20.0):
        assert z_of_p(p_of_z(z)) == pytest.approx(z, abs=1e-6)
    assert p_of_z(5.0) == pytest.approx(2.8665e-7, rel=1e-4)


def test_q0_has_its_asymptotic_distribution_without_a_signal() -> None:
    """P(q0 > z^2) = 1 - Phi(z), within the error of the toys (Cowan et al., arXiv:1007.1727)."""
    toy = Toy(z=0.0, bins=40)
    z = np.array(
        [
            profile_significance(toy.edges, toy.draw(seed), 125.0, 1.6, background="exponential").z_local
            for seed in range(1500)
        ]
    )
    for level in (1.0, 1.5, 2.0):
        chance = p_of_z(level)
        assert (z > level).mean() == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / len(z)))
    assert (z == 0).mean() == pytest.approx(0.5, abs=0.06)


def test_the_score_is_the_likelihood_ratio_for_small_signals() -> None:
    toy = Toy(z=2.0)
    for seed in range(10):
        counts = toy.draw(seed)
        found = scan(toy.edges, counts, 1.6, masses_gev=[125.0], background="exponential")
        profile = profile_significance(toy.edges, counts, 125.0, 1.6, background="exponential")
        assert found.z[0] == pytest.approx(profile.z_local, abs=0.12) or found.z[0] < 0.1
        assert found.signal[0] == pytest.approx(profile.signal, rel=0.15) or abs(found.z[0]) < 0.3


def test_a_scan_finds_the_mass_and_says_when_its_background_fails() -> None:
    toy = Toy(z=7.0)
    found = scan(toy.edges, toy.draw(5), 1.6, window_gev=(110, 140))
    assert found.best_mass_gev == pytest.approx(125.0, abs=0.8)
    assert found.best_z > 4.5
    assert found.background_p_value > 1e-3
    assert np.diff(found.masses_gev) == pytest.approx(0.4, abs=0.01)
    bent = 1000 * (1.3 + np.sin(toy.edges[:-1] / 3.0))
    assert scan(toy.edges, bent, 1.6, background="exponential").background_p_value < 1e-6


def test_a_scan_takes_a_resolution_that_grows_with_the_mass() -> None:
    toy = Toy(z=7.0, sigma=1.25)
    by_function = scan(toy.edges, toy.draw(5), lambda masses: 0.01 * masses)
    steps = np.diff(by_function.masses_gev)
    assert steps[-1] > steps[0]


def test_a_spurious_signal_takes_from_the_significance() -> None:
    toy = Toy(z=6.0)
    counts = toy.draw(1)
    clean = profile_significance(toy.edges, counts, 125.0, 1.6)
    spoilt = clean.allowing_for(clean.signal_error)
    assert spoilt.z_local == pytest.approx(clean.z_local / np.sqrt(2), rel=1e-6)
    assert spoilt.q0 == clean.q0


def test_published_expectations_of_the_two_photon_channel_are_met() -> None:
    """ATLAS 2012: 79.6 and 110.5 events over 23 788 and 35 251 in 100-160 GeV, sigma 1.63: 2.5 expected."""
    from spectator.environments.collider.analysis.shapes import gauss_bins

    edges = np.linspace(100, 160, 121)
    centres = 0.5 * (edges[1:] + edges[:-1])
    smooth = np.exp(-centres / 33.0) / np.exp(-centres / 33.0).sum()
    squares = sum(
        expected_significance(signal * gauss_bins(edges, 126.5, 1.63), total * smooth) ** 2
        for signal, total in ((79.6, 23_788), (110.5, 35_251))
    )
    assert np.sqrt(squares) == pytest.approx(2.54, abs=0.1)
