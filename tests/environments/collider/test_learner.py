"""The tunable physicist, the learner over its decisions, and the sections that tools write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

from tests.environments.collider.campaigns import play
from tools.collider_campaigns import NullClaims, null_section, upper_limit
from tools.collider_learner import ELITE, Belief, LearningPoint, chart_of, section, table_of
from tools.collider_physicists import (
    RANGES,
    SIZE,
    SWITCHES,
    TUNABLE_FUNCTIONS,
    TunablePhysicist,
    decisions_of,
)
from tools.collider_skill import section_of, with_section

SENSIBLE = {"first_share": 1.0, "threshold": -0.85, "cut": -0.4, "channels": 5.0, "evidence_z": -0.4,
            "discovery_z": 0.0, "error_factor": -1.6, "null_probability": -2.0}  # fmt: skip


def numbers(
    switches: float = 1.0, function: str = "dijet", changed: Mapping[str, float] = MappingProxyType({})
) -> list[float]:
    continuous = [changed.get(name, 0.0) for name in RANGES]
    weights = [1.0 if name == function else 0.0 for name in TUNABLE_FUNCTIONS]
    return [*continuous, *(changed.get(name, switches) for name in SWITCHES), *weights]


def test_numbers_of_any_size_stand_for_decisions_within_their_ranges() -> None:
    for size in (-1e6, 0.0, 1e6):
        decided = decisions_of([size] * SIZE)
        for name, (low, high) in RANGES.items():
            assert low <= getattr(decided, name) <= high
    assert decisions_of(numbers(function="quartic")).function == "quartic"
    assert decisions_of(numbers(switches=-1.0, changed={"calibrate": 1.0})).calibrate
    assert not decisions_of(numbers(switches=-1.0)).calibrate


def test_too_few_numbers_are_rejected() -> None:
    with pytest.raises(ValueError, match=f"numbers must have {SIZE} values, not 3"):
        decisions_of([0.0] * 3)


@pytest.mark.parametrize("seed", range(6))
def test_any_decisions_end_the_campaign(seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(0.0, 3.0, SIZE)
    environment, end = play(TunablePhysicist(decisions_of(drawn.tolist())), seed, difficulty="hard")
    assert end.done and 0.0 <= end.reward <= 1.0
    assert environment.state["result"]


def test_decisions_matter() -> None:
    """A trigger that suits the masses, a mild cut and sober thresholds beat a trigger set blindly."""
    good, bad = numbers(changed=SENSIBLE), numbers(changed=SENSIBLE | {"threshold": 4.0})
    scores = [
        [play(TunablePhysicist(decisions_of(each)), seed, difficulty="easy")[1].reward for seed in range(8)]
        for each in (good, bad)
    ]
    assert np.mean(scores[0]) > np.mean(scores[1]) + 0.2


def test_a_claim_waits_for_the_significance_that_is_asked_for() -> None:
    """5.7 sigma global are a discovery, evidence or nothing, by the thresholds."""

    def claim(**changed: float) -> str:
        decided = decisions_of(numbers(changed=SENSIBLE | {"cross_check": -1.0} | changed))
        found = play(TunablePhysicist(decided), 0, difficulty="easy")[0].laboratory.claim
        assert found is not None
        return str(found["kind"])

    assert claim() == "discovery"
    assert claim(discovery_z=30.0) == "evidence"
    assert claim(discovery_z=30.0, evidence_z=30.0) == "null"


def test_the_learner_finds_the_top_of_a_hill() -> None:
    source, top = np.random.default_rng(3), np.linspace(-1.0, 1.0, 4)
    belief = Belief(np.zeros(4), np.ones(4))
    for _ in range(30):
        tried = belief.drawn(20, source)
        belief = belief.learnt(tried, [-float(np.sum((row - top) ** 2)) for row in tried])
    assert np.abs(belief.mean - top).max() < 0.25
    assert (belief.spread < 0.5).all() and (belief.spread > 0.0).all()


def test_the_learner_goes_towards_its_best() -> None:
    tried = np.arange(10.0).reshape(10, 1)
    learnt = Belief(np.zeros(1), np.ones(1)).learnt(tried, list(range(10)))
    assert learnt.mean[0] == pytest.approx(0.6 * np.mean(range(10 - ELITE, 10)))


def test_curve_table_and_section_tell_what_was_measured() -> None:
    marks = [LearningPoint(0, 0, math.nan, [0.1, 0.3]), LearningPoint(5, 500, 0.35, [0.5, 0.7])]
    others = {"random": [0.0, 0.1], "heuristic": [0.4, 0.6], "reference": [0.7, 0.9]}
    rows = table_of(marks, others)
    assert rows[2].startswith("| learner | 0 | 0 | - | 0.200") and "| 5 | 500 | 0.350 | 0.600" in rows[3]
    assert rows[-1].startswith("| reference") and "0.800" in rows[-1]
    drawn = chart_of(marks, others, "medium")
    assert drawn.startswith("<svg") and all(name in drawn for name in ("learner", "random", "reference"))
    words = section(rows, decisions_of(numbers(changed={"set_limits": -1.0})), "`this test`.")
    assert "`set_limits` no" in words and "`first_share` 0.5," in words
    assert "`function` left to the library" in section(rows, decisions_of(numbers(function="")), "")
    assert "`function` dijet" in words and "`calibrate` yes" in words and "Written by `this test`." in words


PAGE = "# Page\n\nWords.\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n"


def test_a_section_takes_the_place_of_the_one_with_its_heading() -> None:
    assert with_section(PAGE, "One", "New.\n") == PAGE.replace("First.", "New.")
    assert with_section(PAGE, "Two", "New.") == PAGE.replace("Second.", "New.")
    assert with_section(PAGE, "Three", "New.") == PAGE + "\n## Three\n\nNew.\n"
    assert section_of(PAGE, "One") == "First." and section_of(PAGE, "Two") == "Second."
    assert section_of(PAGE, "Three") == ""


def test_claims_of_nulls_are_told_with_their_upper_limits() -> None:
    counted = [NullClaims("null", 0, 3, 1000), NullClaims("trigger_bump", 2, 10, 1000)]
    rows = null_section(counted, "`this test`.").splitlines()[-3:]
    assert rows[0].startswith("| null | 1,000 | 0 | 0.299 % | 3 (0.30 %) |")
    assert rows[2].startswith("| all three | 2,000 | 2 | 0.314 % | 13 (0.65 %) |")
    assert upper_limit(0, 4500) == pytest.approx(3 / 4500, rel=0.01) and upper_limit(5, 5) == 1.0
