from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis.shapes import (
    BACKGROUNDS,
    design,
    fit_background,
    goodness,
    poisson_regression,
)

EDGES = np.linspace(200.0, 2000.0, 91)
CENTRES = 0.5 * (EDGES[1:] + EDGES[:-1])
X = CENTRES / 13_000.0

TRUTHS = {
    "exponential": np.exp(-CENTRES / 250.0),
    "power_law": (CENTRES / 200.0) ** -4.5,
    "quadratic": np.exp(-CENTRES / 250.0 + (CENTRES / 1500.0) ** 2),
    "dijet": (1 - X) ** 8.0 * X ** -(4.0 + 0.2 * np.log(X)) / 1e7,
}


@pytest.mark.parametrize("name", TRUTHS)
def test_a_family_describes_its_own_and_is_found_from_no_starting_value(name: str) -> None:
    truth = TRUTHS[name] / TRUTHS[name].sum() * 2e5
    fit = fit_background(EDGES, np.random.default_rng(5).poisson(truth), background=name)
    assert fit.converged
    assert fit.p_value > 1e-3
    assert np.array(fit.expected) == pytest.approx(truth, rel=0.25)


@pytest.mark.parametrize("events", [1, 3, 30])
def test_few_events_leave_a_finite_background(events: int) -> None:
    for name in BACKGROUNDS:
        for seed in range(5):
            counts = np.random.default_rng(seed).multinomial(events, np.full(90, 1 / 90))
            fit = fit_background(EDGES, counts, background=name)
            assert fit.converged
            assert np.isfinite(fit.expected).all()
            assert sum(fit.expected) == pytest.approx(events, rel=0.05)


def test_a_blinded_stretch_is_interpolated() -> None:
    truth = TRUTHS["exponential"] / TRUTHS["exponential"].sum() * 1e6
    counts = np.random.default_rng(2).poisson(truth).astype(float)
    hidden = (CENTRES > 600) & (CENTRES < 800)
    lifted = np.where(hidden, 10 * counts, counts)
    fit = fit_background(EDGES, lifted, background="exponential", exclude_gev=[(600, 800)])
    assert np.array(fit.expected)[hidden] == pytest.approx(truth[hidden], rel=0.02)
    assert fit.ndf == int((~hidden).sum()) - 2


def test_the_lowest_sufficient_order_is_chosen() -> None:
    chosen = []
    for seed in range(20):
        truth = TRUTHS["exponential"] / TRUTHS["exponential"].sum() * 1e5
        chosen.append(fit_background(EDGES, np.random.default_rng(seed).poisson(truth)).background)
    assert chosen.count("exponential") >= 14
    bent = TRUTHS["quadratic"] / TRUTHS["quadratic"].sum() * 1e6
    assert fit_background(EDGES, np.random.default_rng(1).poisson(bent)).background != "exponential"


def test_the_p_value_is_even_at_low_counts() -> None:
    rng = np.random.default_rng(3)
    truth = np.full(60, 0.7)
    values = [goodness(rng.poisson(truth).astype(float), truth, 0)[2] for _ in range(1500)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(values) < level) == pytest.approx(level, abs=0.05)


def test_newton_reaches_the_point_where_the_score_vanishes() -> None:
    columns, counts = design("cubic", EDGES), np.random.default_rng(8).poisson(200 * TRUTHS["power_law"])
    fit = poisson_regression(columns, counts.astype(float), np.diff(EDGES))
    assert fit.converged
    assert np.abs(columns.T @ (fit.expected - counts)).max() < 0.05
