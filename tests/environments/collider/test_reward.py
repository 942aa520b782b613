"""The score: proper, in [0, 1], once, and nothing for a false discovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.reward import ALPHA, _brier, grade
from tests.environments.collider.campaigns import play


def claimed(**changes: Any) -> tuple[Any, dict[str, Any]]:
    """A campaign that ended with a true discovery, and its claim."""
    for seed in range(1000, 1030):
        environment, _ = play(ReferencePhysicist(), seed, difficulty="easy")
        lab = environment.laboratory
        if environment.state["discovered"]:
            assert lab.claim is not None
            lab.claim.update(changes)
            return lab, lab.claim
    raise AssertionError("no discovery")


def test_an_interval_is_best_quoted_as_wide_as_it_is() -> None:
    """The interval score of the mass is proper: over many errors, the true width loses least."""
    misses = np.abs(np.random.default_rng(1).normal(0.0, 1.0, 20_000))
    scores = {
        width: float((2 * width + 2 / ALPHA * np.maximum(0, misses - width)).mean())
        for width in (0.3, 0.6, 1.0, 1.5, 3.0)
    }
    assert min(scores, key=lambda width: scores[width]) == 1.0


def test_chances_are_best_told_as_they_are() -> None:
    truth = {"a": 0.7, "b": 0.3}
    scores = {
        p: sum(q * _brier({"a": p, "b": 1 - p}, name) for name, q in truth.items()) for p in (0.5, 0.7, 1.0)
    }
    assert max(scores, key=lambda p: scores[p]) == 0.7


def test_a_false_discovery_scores_nothing() -> None:
    lab, claim = claimed()
    assert grade(lab).score > 0.6
    claim["mass_gev"] *= 1.5
    graded = grade(lab)
    assert graded.score == 0.0 and graded.verdict == "claimed what is not there"
    assert not (graded.discovered or graded.correct_mass)


@pytest.mark.parametrize("measured", [2.0, 4.0])
def test_a_discovery_below_five_sigma_is_none(measured: float) -> None:
    lab, claim = claimed()
    whole = grade(lab)
    claim["measured"] = {"z_local": measured + 1, "z_global": measured}
    claim["z_global"] = measured
    graded = grade(lab)
    assert not graded.discovered and graded.score < 0.8 * whole.score
    assert (graded.verdict == "evidence confirmed") is (measured >= 3.0)


def test_each_dishonesty_costs() -> None:
    lab, claim = claimed()
    claim["mass_gev"] = lab.nature.particles[0].mass_gev
    whole = grade(lab).score
    for changes in (
        {"z_global": claim["z_global"] + 1.0},
        {"mass_error_gev": 20 * claim["mass_error_gev"]},
        {"mass_error_gev": 1e-5, "mass_gev": 1.008 * lab.nature.particles[0].mass_gev},
        {"probability": 0.5},
    ):
        before = {name: claim[name] for name in changes}
        claim.update(changes)
        assert grade(lab).score < whole
        claim.update(before)
    lab.soft.append("overclaimed_z")
    assert grade(lab).score < whole


def test_a_wide_enough_claim_with_an_incredible_error_has_no_right_mass() -> None:
    lab, claim = claimed()
    claim["mass_error_gev"] = 0.2 * claim["mass_gev"]
    assert grade(lab).correct_mass is False
