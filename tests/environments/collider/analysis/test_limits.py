from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spectator.environments.collider.analysis.shapes import FWHM_OF_SIGMA, voigt_bins
from spectator.environments.collider.analysis.significance import (
    counting_interval,
    counting_limit,
    profile_significance,
    unified_interval,
    upper_limit,
)
from tests.environments.collider.analysis.toys import Toy


@pytest.mark.parametrize("true_z", [1.0, 3.0])
def test_limits_cover(true_z: float) -> None:
    """CLs covers the true signal at least as often as its level says."""
    toy = Toy(z=true_z, bins=30)
    limits = [
        upper_limit(toy.edges, toy.draw(seed), 125.0, 1.6, background="exponential") for seed in range(80)
    ]
    assert (np.array(limits) >= toy.signal).mean() >= 0.93


def test_limits_on_a_wide_resonance_cover_where_its_width_is_known() -> None:
    """A Gauss curve of the same width misses the tails of a Voigt curve, and its limits cover too seldom."""
    toy = Toy(z=0.0, bins=60, low=95.0, high=155.0)
    width, shape = 4.0, voigt_bins(toy.edges, 125.0, 1.6, 4.0)
    signal = 3.0 / np.sqrt(np.sum(shape * shape / toy.background))
    covered = {0.0: 0, width: 0}
    for seed in range(40):
        counts = np.random.default_rng(seed).poisson(toy.background + signal * shape)
        for natural in covered:
            sigma = 1.6 if natural else math.hypot(1.6, width / FWHM_OF_SIGMA)
            limit = upper_limit(
                toy.edges, counts, 125.0, sigma, background="exponential", natural_width_gev=natural
            )
            covered[natural] += limit >= signal
    assert covered[width] >= 37 and covered[0.0] < 34


def test_without_a_signal_the_median_limit_is_that_of_the_background() -> None:
    toy = Toy(z=0.0, bins=30)
    expected = upper_limit(toy.edges, toy.background, 125.0, 1.6, background="exponential")
    limits = [
        upper_limit(toy.edges, toy.draw(seed), 125.0, 1.6, background="exponential") for seed in range(100)
    ]
    assert np.median(limits) == pytest.approx(expected, rel=0.1)


def test_the_limit_is_that_of_pyhf() -> None:
    """The same likelihood with a background that is known but for its scale, by another program."""
    import pyhf

    from spectator.environments.collider.analysis.likelihood import YieldProblem
    from spectator.environments.collider.analysis.significance import limit_of

    signal, smooth, seen = (
        np.array([2.0, 8.0, 3.0]),
        np.array([60.0, 50.0, 40.0]),
        np.array([63.0, 58.0, 38.0]),
    )
    model = pyhf.Model(
        {
            "channels": [
                {
                    "name": "one",
                    "samples": [
                        {
                            "name": "signal",
                            "data": signal.tolist(),
                            "modifiers": [{"name": "mu", "type": "normfactor", "data": None}],
                        },
                        {
                            "name": "background",
                            "data": smooth.tolist(),
                            "modifiers": [{"name": "scale", "type": "normfactor", "data": None}],
                        },
                    ],
                }
            ]
        },
        poi_name="mu",
        validate=False,
    )
    observed, _ = pyhf.infer.intervals.upper_limits.upper_limit(
        [*seen, *model.config.auxdata], model, np.linspace(0, 8, 81)
    )
    problem = YieldProblem(seen, signal, np.ones((3, 1)), smooth)
    assert limit_of(problem, problem.fit(0.0).expected) == pytest.approx(float(observed), rel=0.02)


@pytest.mark.parametrize(
    ("n", "b", "expected"),
    [
        (0, 0.0, 2.996),
        (0, 3.0, 2.996),
        (0, 800.0, 2.996),
        (0, 1e6, 2.996),
        (3, 0.0, 7.754),
        (1, 2000.0, 2.997),
        (700, 1500.0, 5.602),
    ],
)
def test_exact_limits_of_counts(n: int, b: float, expected: float) -> None:
    assert counting_limit(n, b) == pytest.approx(expected, abs=0.01)


def test_limits_far_below_the_background_agree_with_sums_of_many_digits() -> None:
    """The same ratio in exact integers."""
    for n, b in ((0, 800), (5, 900), (40, 1200)):
        limit = Fraction(counting_limit(n, b))

        def terms(mean: Fraction, n: int = n) -> Fraction:
            return sum((mean**k / math.factorial(k) for k in range(n + 1)), Fraction(0))

        ratio = math.exp(-limit) * float(terms(b + limit) / terms(Fraction(b)))
        assert ratio == pytest.approx(0.05, rel=1e-4)


def test_an_uncertain_background_far_above_gives_a_finite_limit() -> None:
    assert counting_limit(0, 800.0, 50.0) == pytest.approx(2.996, abs=0.01)
    assert 2.9 < counting_limit(3, 5000.0, 100.0) < 3.1


def test_counting_limits_cover_exactly() -> None:
    rng = np.random.default_rng(7)
    seen = rng.poisson(6.0 + 4.0, 400)
    limits = {int(n): counting_limit(int(n), 4.0) for n in np.unique(seen)}
    assert np.mean([limits[int(n)] >= 6.0 for n in seen]) >= 0.93


def test_an_uncertain_background_weakens_a_limit() -> None:
    assert counting_limit(10, 5.0, 2.0) > counting_limit(10, 5.0)


@pytest.mark.parametrize(("n", "b"), [(5, 5.0), (2, 6.0), (40, 31.5)])
def test_an_exact_limit_is_where_the_ratio_of_poisson_sums_falls_to_five_per_cent(n: int, b: float) -> None:
    from scipy.stats import poisson

    limit = counting_limit(n, b)
    assert poisson.cdf(n, limit + b) / poisson.cdf(n, b) == pytest.approx(0.05, rel=1e-4)


def test_counting_intervals_are_those_of_feldman_and_cousins() -> None:
    """The 95 % table of the Particle Data Group's review of statistics, without background."""
    ends = "0 3.09, .05 5.14, .36 6.72, .82 8.25, 1.37 9.76, 1.84 11.26, 2.21 12.75, 2.58 13.81, 2.94 15.29"
    for n, pair in enumerate(ends.split(", ")):
        assert counting_interval(n, 0.0) == pytest.approx([*map(float, pair.split())], abs=0.011), n
    assert counting_interval(0, 3.0)[1] < 3.09 and counting_interval(0, 800.0)[1] > 0.5


def test_unified_intervals_of_many_events_are_those_of_a_bounded_gauss_curve() -> None:
    toy = Toy(z=0.0, bins=30, events_a_gev=1e6)
    shape: dict[str, Any] = {"mass_gev": 125.0, "resolution_gev": 1.6, "background": "exponential"}
    error = profile_significance(toy.edges, toy.background, **shape).signal_error
    x = np.linspace(-8.0, 12.0, 4001)
    means = np.linspace(0.0, 6.0, 601)
    for seen in (-1.0, 0.0, 2.0):
        accepted = []
        for mean in means:
            rank = -0.5 * (x - mean) ** 2 + 0.5 * np.minimum(x, 0.0) ** 2
            own = -0.5 * (seen - mean) ** 2 + 0.5 * min(seen, 0.0) ** 2
            chance = np.exp(-0.5 * (x - mean) ** 2)
            accepted.append(chance[rank <= own + 1e-9].sum() >= 0.05 * chance.sum())
        expected = means[accepted][[0, -1]]
        counts = toy.background + seen * error * voigt_bins(toy.edges, 125.0, 1.6, 0.0)
        assert np.array(unified_interval(toy.edges, counts, **shape)) / error == pytest.approx(
            expected, abs=0.02
        )
