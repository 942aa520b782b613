from __future__ import annotations

import numpy as np
import pytest

from spectator.environments.collider.analysis import SPIN_HYPOTHESES, angular_density, angular_llr
from spectator.environments.collider.analysis.checks import Floats

FINE = np.linspace(-1, 1, 20_001)


def accepted(c: Floats) -> Floats:
    return np.clip(1.1 - c * c, 0.0, 1.0)


def draw(name: str, events: int, seed: int, acceptance: Floats | None = None) -> Floats:
    density = angular_density(name, FINE) * (1.0 if acceptance is None else acceptance)
    running = np.cumsum(density)
    return np.interp(np.random.default_rng(seed).random(events), running / running[-1], FINE)


@pytest.mark.parametrize("name", SPIN_HYPOTHESES)
def test_densities_are_normalised_and_never_negative(name: str) -> None:
    density = angular_density(name, FINE)
    assert density.mean() * 2 == pytest.approx(1.0, abs=1e-3)
    assert density.min() >= -1e-12


@pytest.mark.parametrize(
    ("first", "second", "two", "three"),
    [
        ("spin0", "spin1_ll", 85, 190),
        ("spin0", "spin2_gg_diphoton", 8, 19),
        ("spin0", "spin2_gg_ll", 9, 20),
        ("spin0", "spin2_qq_ll", 28, 62),
        ("spin1_ll", "spin2_gg_ll", 4, 10),
        ("spin1_ll", "spin2_qq_ll", 25, 56),
    ],
)
def test_the_events_that_tell_hypotheses_apart(first: str, second: str, two: int, three: int) -> None:
    """Events for two and three sigma in the median, as in the project's notes."""
    for events, sigma in ((two, 2.0), (three, 3.0)):
        found = [
            max(angular_llr(draw(first, events, seed), [first, second]).expected_separation.values())
            for seed in range(5)
        ]
        assert np.median(found) == pytest.approx(sigma, abs=0.9)


@pytest.mark.parametrize("name", SPIN_HYPOTHESES)
def test_with_many_events_the_truth_is_found(name: str) -> None:
    assert angular_llr(draw(name, 800, 3)).best == name


def test_half_the_experiments_at_the_median_separate_by_it() -> None:
    excluded = []
    for seed in range(200):
        found = angular_llr(draw("spin0", 85, seed), ["spin0", "spin1_ll"])
        excluded.append(found.best == "spin0" and found.cls["spin1_ll"] < 0.05)
    assert 0.35 < np.mean(excluded) < 0.75


def test_an_acceptance_that_is_not_told_misleads_and_one_that_is_told_does_not() -> None:
    share = accepted(FINE)
    wrong, right = 0, 0
    for seed in range(60):
        angles = draw("spin0", 150, seed, share)
        wrong += angular_llr(angles, ["spin0", "spin2_gg_ll"]).best != "spin0"
        right += angular_llr(angles, ["spin0", "spin2_gg_ll"], acceptance=accepted).best == "spin0"
    assert right >= 50
    assert wrong >= 60 - right + 10


def test_the_background_is_taken_out_by_weights() -> None:
    rng = np.random.default_rng(5)
    signal, under = draw("spin1_ll", 2000, 1), draw("spin2_gg_ll", 2000, 2)
    beside = draw("spin2_gg_ll", 4000, 3)
    angles = np.concatenate([signal, under, beside])
    weights = np.concatenate([np.ones(4000), np.full(4000, -0.5)])
    order = rng.permutation(len(angles))
    assert angular_llr(angles[order], ["spin0", "spin1_ll"]).best == "spin0"
    found = angular_llr(angles[order], ["spin0", "spin1_ll"], weights=weights[order])
    assert found.best == "spin1_ll"
    assert found.events == pytest.approx(2000)


def test_spin_one_cannot_be_two_photons() -> None:
    found = angular_llr(
        draw("spin1_ll", 500, 1), ["spin0", "spin1_ll", "spin2_gg_diphoton"], channel="diphoton"
    )
    assert "Landau" in found.impossible["spin1_ll"]
    assert "spin1_ll" not in found.log_likelihood
    assert angular_llr(draw("spin1_ll", 500, 1), channel="dilepton").best == "spin1_ll"
