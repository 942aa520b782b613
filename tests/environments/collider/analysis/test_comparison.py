from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis import (
    ChannelSpectrum,
    InvalidAnalysis,
    combine,
    combine_calibrations,
    combine_masses,
    compatibility,
    expected_significance,
    profile_significance,
    spurious_signal,
    template_fit,
)
from tests.environments.collider.analysis.toys import Toy


def channel(name: str, toy: Toy, seed: int) -> ChannelSpectrum:
    return ChannelSpectrum(name, toy.edges, toy.draw(seed), toy.sigma, toy.signal, background="exponential")


def test_one_channel_combined_is_that_channel() -> None:
    toy = Toy(z=6.0)
    alone = profile_significance(toy.edges, toy.draw(1), 125.0, 1.6, background="exponential")
    found = combine([channel("one", toy, 1)], 125.0)
    assert found.z_local == pytest.approx(alone.z_local, abs=1e-3)
    assert found.strength * toy.signal == pytest.approx(alone.signal, rel=1e-3)
    assert found.p_compatible == 1.0


def test_two_channels_add_in_square_and_agree() -> None:
    toys = Toy(z=5.0), Toy(z=5.0, sigma=2.2, events_a_gev=80.0, bins=40)
    z, chances = [], []
    for seed in range(40):
        found = combine([channel("first", toys[0], seed), channel("second", toys[1], seed + 99)], 125.0)
        z.append((found.z_local, sum(one**2 for one in found.z_by_channel.values()) ** 0.5))
        chances.append(found.p_compatible)
    together, apart = np.mean(z, axis=0)
    assert together == pytest.approx(apart, rel=0.05)
    assert np.mean(np.array(chances) < 0.1) < 0.3


def test_channels_that_disagree_are_reported() -> None:
    toy = Toy(z=15.0)
    empty = ChannelSpectrum("empty", toy.edges, toy.background, 1.6, toy.signal, background="exponential")
    assert combine([channel("full", toy, 1), empty], 125.0).p_compatible < 1e-6


def test_the_strength_covers() -> None:
    toy = Toy(z=6.0)
    found = [combine([channel("one", toy, seed)], 125.0) for seed in range(150)]
    pulls = np.array([(one.strength - 1.0) / one.strength_error for one in found])
    assert abs(pulls.mean()) < 0.25
    assert pulls.std() == pytest.approx(1.0, abs=0.2)


def test_masses_combine_with_a_common_scale() -> None:
    found = combine_masses([(125.0, 0.4), (126.0, 0.3)], scale_error=0.003)
    assert found.mass_gev == pytest.approx(125.64)
    assert found.error_gev == pytest.approx(np.hypot(0.24, 0.003 * 125.64))
    assert found.chi2 == pytest.approx(4.0)
    assert found.p_value == pytest.approx(0.0455, abs=1e-4)


def test_two_values_are_compared() -> None:
    found = compatibility((126.0, 0.4), (125.3, 0.4))
    assert (found.difference, found.z) == pytest.approx((0.7, 1.237), abs=1e-3)
    assert found.p_value == pytest.approx(0.216, abs=1e-3)


def test_a_wrong_background_makes_up_a_signal_and_it_is_reported() -> None:
    edges = np.linspace(100, 160, 61)
    centres = 0.5 * (edges[1:] + edges[:-1])
    bent = 5000 * (centres / 100) ** -4 * (1 + 0.02 * np.sin(centres / 12))
    wide = spurious_signal(edges, np.random.default_rng(3).poisson(bent), 130.0, 3.0, background="cubic")
    assert set(wide.by_background) >= {"cubic"}
    flat = spurious_signal(edges, np.full(61 - 1, 500.0), 130.0, 1.5)
    assert set(flat.by_background) == {"exponential", "power_law", "quadratic", "cubic"}
    assert flat.relative_to_error < 0.2


def test_templates_reach_the_counting_formula_in_one_bin() -> None:
    assert expected_significance([50.0], [100.0]) == pytest.approx(4.652, abs=1e-3)
    assert expected_significance([50.0], [100.0], 0.10) == pytest.approx(3.173, abs=0.15)


def test_a_template_fit_returns_what_was_put_in() -> None:
    rng = np.random.default_rng(2)
    signal, background = np.array([1.0, 9.0, 30.0, 9.0, 1.0]), np.full(5, 40.0)
    fits = [
        template_fit(rng.poisson(1.3 * signal + 1.05 * background), signal, background, 0.1)
        for _ in range(200)
    ]
    assert np.mean([fit.mu for fit in fits]) == pytest.approx(1.3, abs=0.12)
    assert np.mean([fit.background_pull for fit in fits]) == pytest.approx(0.35, abs=0.2)
    pulls = np.array([(fit.mu - 1.3) / fit.mu_error for fit in fits])
    assert 0.7 < pulls.std() < 1.2


def test_a_template_fit_of_a_deficit_claims_nothing() -> None:
    fit = template_fit([4, 2, 4], [0.5, 6.0, 0.5], [5.0, 5.0, 5.0])
    assert fit.mu < 0
    assert fit.z_observed == 0.0


def test_calibrations_are_compared_only_when_there_are_some() -> None:
    with pytest.raises(ValueError, match="at least one"):
        combine_calibrations([])


def test_a_spurious_signal_without_events_under_the_peak_is_rejected() -> None:
    counts = np.zeros(60)
    counts[:20] = 100.0
    for mass in (130.0, 155.0):
        with pytest.raises(InvalidAnalysis, match=r"counts.*events under the peak"):
            spurious_signal(np.linspace(100.0, 160.0, 61), counts, mass, 1.5)
