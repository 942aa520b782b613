from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.open_data import dimuon_spectrum
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance, fit_resonances
from spectator.environments.collider.analysis.shapes import design, gauss_bins, log_likelihood_gap, voigt_bins
from tests.environments.collider.analysis.toys import Toy


def pulls(toy: Toy, seeds: range, **options: object) -> Floats:
    """Of the mass; every fit has to converge."""
    fits = [fit_resonance(toy.edges, toy.draw(seed), **options) for seed in seeds]  # type: ignore[arg-type]
    assert all(fit.converged for fit in fits)
    return np.array([(fit.mass_gev - toy.mass) / fit.mass_error_gev for fit in fits])


def test_over_many_seeds_the_mass_has_pulls_of_mean_zero_and_width_one() -> None:
    found = pulls(Toy(z=8.0), range(10_000, 10_300), resolution_gev=1.6, resolution_error_gev=0.16)
    assert abs(found.mean()) < 0.1
    assert abs(found.std() - 1.0) < 0.1
    assert abs((np.abs(found) < 1).mean() - 0.6827) < 0.05


@pytest.mark.parametrize(
    "toy",
    [
        Toy(z=8.0),
        Toy(z=5.0),
        Toy(z=30.0),
        Toy(z=20.0, sigma=4.0),
        Toy(z=12.0, events_a_gev=3.0),
        Toy(z=6.0, events_a_gev=1.0),
        Toy(z=200.0, events_a_gev=1e6),
    ],
    ids=["plain", "faint", "clear", "wide", "few", "very few", "millions"],
)
def test_errors_cover_with_a_free_width_for_all_widths_and_counts(toy: Toy) -> None:
    found = pulls(toy, range(100))
    assert abs(found.mean()) < 0.25
    assert 0.75 < found.std() < 1.25
    assert (np.abs(found) < 1).mean() > 0.6
    assert (np.abs(found) < 2).mean() > 0.9


@pytest.mark.parametrize("mass", [106.0, 108.0, 142.0, 144.0])
def test_errors_cover_near_the_edge_of_the_window(mass: float) -> None:
    found = pulls(Toy(z=12.0, mass=mass), range(100))
    assert (np.abs(found) < 1).mean() > 0.6
    assert (np.abs(found) < 3).mean() > 0.97


@pytest.mark.parametrize("sigma", [0.1, 0.25, 0.45])
def test_a_peak_within_one_bin_gets_an_error_that_a_bin_allows(sigma: float) -> None:
    toy = Toy(z=40.0, sigma=sigma, mass=125.13)
    for seed in range(20):
        fit = fit_resonance(toy.edges, toy.draw(seed))
        assert fit.converged
        assert abs(fit.mass_gev - toy.mass) < 4 * fit.mass_error_gev
        assert fit.mass_error_gev < 0.5


def test_without_a_signal_the_fit_converges_and_claims_nothing() -> None:
    toy = Toy(z=0.0)
    fits = [fit_resonance(toy.edges, toy.draw(seed), resolution_gev=1.6) for seed in range(120)]
    assert all(fit.converged for fit in fits)
    assert all(fit.signal >= 0 for fit in fits)
    assert np.mean([fit.z_local > 4 for fit in fits]) < 0.01
    assert np.median([fit.mass_error_gev for fit in fits]) > 2.0
    flat = fit_resonance(toy.edges, toy.background)
    assert flat.converged
    assert flat.z_local < 0.5


@pytest.mark.parametrize("events", [1.0, 2.0, 5.0])
def test_a_handful_of_events_is_fitted_without_failing(events: float) -> None:
    edges = np.linspace(105, 145, 41)
    for seed in range(30):
        counts = np.random.default_rng(seed).multinomial(int(events), np.full(40, 1 / 40)).astype(float)
        fit = fit_resonance(edges, counts)
        assert np.isfinite([fit.mass_gev, fit.mass_error_gev, fit.signal, fit.z_local, fit.chi2]).all()
        assert fit.z_local < 5


def test_a_known_width_is_held_and_a_constrained_one_is_pulled() -> None:
    toy = Toy(z=10.0)
    counts = toy.draw(3)
    held = fit_resonance(toy.edges, counts, resolution_gev=2.0)
    assert held.width_gev == pytest.approx(2.0, rel=0.01)
    assert held.width_error_gev == 0.0
    free = fit_resonance(toy.edges, counts)
    tight = fit_resonance(toy.edges, counts, resolution_gev=2.0, resolution_error_gev=0.05)
    assert abs(tight.width_gev - 2.0) < abs(free.width_gev - 2.0)
    assert 0 < tight.width_error_gev < free.width_error_gev


def test_the_natural_width_is_told_from_the_resolution() -> None:
    edges = np.linspace(75, 107, 129)
    counts = np.random.default_rng(4).poisson(200 + 4e5 * voigt_bins(edges, 91.0, 1.2, 2.4955)).astype(float)
    fit = fit_resonance(edges, counts, natural_width_gev=2.4955)
    assert fit.model == "voigt"
    assert abs(fit.mass_gev - 91.0) < 4 * fit.mass_error_gev
    assert abs(fit.width_gev - 1.2) < 4 * fit.width_error_gev
    assert abs(fit.signal - 4e5) < 4 * fit.signal_error


def test_three_peaks_in_one_window_are_fitted_together_from_its_own_start() -> None:
    edges = np.linspace(8.6, 11.2, 105)
    masses, yields = (9.46, 10.02, 10.355), (20_000, 6_000, 4_000)
    expected = np.full(104, 300.0)
    for mass, events in zip(masses, yields, strict=True):
        expected += events * gauss_bins(edges, mass, 0.009 * mass)
    fits = fit_resonances(edges, np.random.default_rng(6).poisson(expected).astype(float))
    assert len(fits) == 3
    for fit, mass, events in zip(fits, masses, yields, strict=True):
        assert abs(fit.mass_gev - mass) < 4 * fit.mass_error_gev
        assert abs(fit.signal - events) < 4 * fit.signal_error
        assert fit.z_local > 15


def test_a_shoulder_is_the_shape_of_a_background_and_a_peak_is_not() -> None:
    edges = np.linspace(20, 45, 126)
    shoulder = 20_000 * np.exp(-0.5 * ((edges[:-1] - 31) / 11) ** 2)
    assert fit_resonance(edges, np.random.default_rng(1).poisson(shoulder).astype(float)).background_like
    peak = shoulder + 40_000 * gauss_bins(edges, 33.0, 0.5)
    fit = fit_resonance(edges, np.random.default_rng(1).poisson(peak).astype(float), (28.0, 38.0))
    assert not fit.background_like
    assert fit.mass_gev == pytest.approx(33.0, abs=0.1)


def iminuit_fit(toy: Toy, counts: Floats) -> tuple[Floats, Floats, float]:
    """Values and errors of mass and yield, and the minimum, by MIGRAD and HESSE on the same likelihood."""
    from iminuit import Minuit

    columns, widths = design("exponential", toy.edges), np.diff(toy.edges)

    def cost(signal: float, mass: float, ratio: float, first: float, second: float) -> float:
        smooth = widths * np.exp(columns @ np.array([first, second]))
        expected = smooth + signal * gauss_bins(toy.edges, mass, mass * np.exp(ratio))
        constraint = 0.5 * ((ratio - np.log(1.6 / 125)) / 0.1) ** 2
        return float(log_likelihood_gap(counts, np.maximum(expected, 1e-9)) + constraint)

    start = [toy.signal, 125.0, float(np.log(1.6 / 125)), float(np.log(counts.mean() / widths[0])), 0.0]
    minuit = Minuit(cost, *start)
    minuit.errordef = Minuit.LIKELIHOOD
    minuit.migrad()
    minuit.hesse()
    assert minuit.valid
    return np.array(minuit.values[:2]), np.array(minuit.errors[:2]), float(minuit.fval or 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_values_and_errors_are_those_of_iminuit(seed: int) -> None:
    toy = Toy(z=12.0)
    counts = toy.draw(seed)
    fit = fit_resonance(
        toy.edges,
        counts,
        background="exponential",
        mass_gev=125.0,
        resolution_gev=1.6,
        resolution_error_gev=0.16,
    )
    values, errors, minimum = iminuit_fit(toy, counts)
    assert fit.mass_gev == pytest.approx(values[1], abs=0.02 * errors[1])
    assert fit.signal == pytest.approx(values[0], abs=0.02 * errors[0])
    assert fit.mass_error_gev == pytest.approx(errors[1], rel=0.03)
    assert fit.signal_error == pytest.approx(errors[0], rel=0.03)
    reached = log_likelihood_gap(counts, np.array(fit.expected))
    assert reached <= minimum + 1e-3


def test_the_yield_is_unbiased_at_low_counts_where_a_chi_square_fit_is_not() -> None:
    toy = Toy(z=15.0, events_a_gev=4.0)
    ratios = [
        fit_resonance(toy.edges, toy.draw(seed), resolution_gev=1.6).signal / toy.signal
        for seed in range(120)
    ]
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


def test_a_fit_is_the_same_each_time_and_with_lists_for_arrays() -> None:
    toy = Toy()
    counts = toy.draw(1)
    first: ResonanceFit = fit_resonance(toy.edges, counts)
    assert fit_resonance(toy.edges.tolist(), counts.tolist(), (105, 145)) == first
    assert len(first.expected) == first.bins[1] - first.bins[0] == 50
    gap = np.array(first.expected) - np.array(first.expected_background)
    assert gap.sum() == pytest.approx(first.signal, rel=1e-6)


def test_the_errors_of_statistics_and_model_are_given_apart() -> None:
    toy = Toy(z=60.0)
    good = fit_resonance(toy.edges, toy.draw(1), model="gauss")
    assert good.mass_model_error_gev == 0.0 < good.mass_error_gev
    poor = fit_resonance(*dimuon_spectrum(), (2.8, 3.4))  # with a million events no shape describes J/psi
    assert poor.p_value < 0.01 and 0.0 < poor.mass_model_error_gev < poor.mass_error_gev
