from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis.shapes import (
    crystal_ball_bins,
    gauss_bins,
    gauss_slopes,
    voigt_bins,
)

EDGES = np.linspace(80.0, 100.0, 41)
TAILS = (1.2, 3.0, 1.6, 4.0)


def test_shapes_hold_one_event_over_a_wide_range() -> None:
    wide = np.linspace(0.0, 2000.0, 40_001)
    assert gauss_bins(wide, 91.0, 2.0).sum() == pytest.approx(1.0)
    assert crystal_ball_bins(wide, 91.0, 2.0, TAILS).sum() == pytest.approx(1.0, abs=1e-3)
    assert voigt_bins(wide, 91.0, 1.5, 2.5).sum() == pytest.approx(1.0, abs=5e-3)


def test_rows_of_shares_are_those_of_each_curve_alone() -> None:
    random = np.random.default_rng(7)
    masses, sigmas = random.uniform(80, 100, 12), random.uniform(0.5, 3, 12)
    tails = np.array(TAILS) * random.uniform(0.8, 1.3, (12, 4))
    start, power, upper, upper_power = tails.T[:, :, None]
    rows = crystal_ball_bins(EDGES, masses[:, None], sigmas[:, None], (start, power, upper, upper_power))
    alone = [
        crystal_ball_bins(EDGES, mass, sigma, tuple(tail))
        for mass, sigma, tail in zip(masses, sigmas, tails, strict=True)
    ]
    assert np.array_equal(rows, alone)


def test_a_voigt_curve_is_the_convolution_of_its_parts() -> None:
    fine = np.linspace(-60, 60, 24_001)
    step = fine[1] - fine[0]
    natural = 1.25 / np.pi / (fine**2 + 1.25**2)
    kernel = np.exp(-0.5 * (np.arange(-12, 12 + step / 2, step) / 1.4) ** 2)
    kernel /= kernel.sum()
    smeared = np.convolve(natural, kernel, mode="same")
    direct = np.array(
        [smeared[(fine >= low - 91) & (fine < low + 0.5 - 91)].sum() * step for low in EDGES[:-1]]
    )
    assert voigt_bins(EDGES, 91.0, 1.4, 2.5) == pytest.approx(direct, rel=5e-3)


def test_a_voigt_curve_is_integrated_over_bins_wider_than_the_peak() -> None:
    coarse = np.linspace(70.0, 110.0, 3)
    fine = np.linspace(70.0, 110.0, 4001)
    whole = voigt_bins(fine, 91.0, 0.3, 0.2)
    assert voigt_bins(coarse, 91.0, 0.3, 0.2) == pytest.approx(
        [whole[:2000].sum(), whole[2000:].sum()], rel=1e-3
    )


def test_a_voigt_curve_without_natural_width_is_a_gauss_curve() -> None:
    assert voigt_bins(EDGES, 91.0, 1.4, 0.0) == pytest.approx(gauss_bins(EDGES, 91.0, 1.4))


def test_the_crystal_ball_is_smooth_where_its_tails_begin() -> None:
    fine = np.linspace(85.0, 97.0, 24_001)
    density = crystal_ball_bins(fine, 91.0, 2.0, TAILS) / np.diff(fine)
    slope = np.diff(density) / np.diff(fine)[:-1]
    assert np.abs(np.diff(slope)).max() < 1e-3 * np.abs(slope).max()


def test_the_derivatives_of_a_gauss_curve_are_right() -> None:
    shares, by_mass, by_sigma = gauss_slopes(EDGES, 91.2, 1.7)
    assert shares == pytest.approx(gauss_bins(EDGES, 91.2, 1.7))
    step = 1e-5
    assert by_mass == pytest.approx(
        (gauss_bins(EDGES, 91.2 + step, 1.7) - gauss_bins(EDGES, 91.2 - step, 1.7)) / (2 * step), abs=1e-8
    )
    assert by_sigma == pytest.approx(
        (gauss_bins(EDGES, 91.2, 1.7 + step) - gauss_bins(EDGES, 91.2, 1.7 - step)) / (2 * step), abs=1e-8
    )
