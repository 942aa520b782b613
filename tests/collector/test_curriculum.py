"""The curriculum: promotion, demotion, and a state that survives a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spectator.collector.curriculum import Curriculum, CurriculumRules
from spectator.errors import ConfigurationError

TIERS = ["easy", "medium", "hard"]


def played(curriculum: Curriculum, results: str) -> list[str | None]:
    return [curriculum.record(result == "+") for result in results]


def test_enough_successes_promote_and_the_new_tier_begins_empty() -> None:
    curriculum = Curriculum(TIERS)
    assert played(curriculum, "+" * 11) == [None] * 11
    assert curriculum.record(True) == "promoted"
    assert curriculum.tier == "medium"


def test_failures_demote_but_not_below_the_first_tier() -> None:
    curriculum = Curriculum(TIERS, CurriculumRules(window=4, least=4))
    played(curriculum, "++++")
    assert played(curriculum, "----")[-1] == "demoted"
    assert curriculum.tier == "easy"
    assert played(curriculum, "-" * 20) == [None] * 20


def test_only_the_window_counts() -> None:
    curriculum = Curriculum(TIERS, CurriculumRules(window=12, least=12))
    assert "promoted" not in played(curriculum, "-" * 8 + "+" * 6)
    assert curriculum.record(True) == "promoted", "7 of the newest 12, whatever came before them"


def test_an_episode_without_a_verdict_changes_nothing() -> None:
    curriculum = Curriculum(TIERS, CurriculumRules(window=2, least=2))
    curriculum.record(True)
    before = curriculum.to_json()
    assert curriculum.record(None) is None
    assert curriculum.to_json() == before


@pytest.mark.parametrize("success", [0.7, "no", 2])
def test_what_is_neither_success_nor_failure_changes_nothing(success: Any) -> None:
    """A reward by mistake counted as a part of a success, and the state could not be saved any more."""
    curriculum = Curriculum(["easy", "hard"])
    before = curriculum.to_json()
    with pytest.raises(ValueError, match="success"):
        curriculum.record(success)
    assert curriculum.to_json() == before


@pytest.mark.parametrize("state", [None, [1], "x"])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(ConfigurationError, match="state"):
        Curriculum.from_json(state)


def test_the_last_tier_is_the_end() -> None:
    curriculum = Curriculum(["only"], CurriculumRules(window=1, least=1))
    assert played(curriculum, "+-+-") == [None] * 4


def test_the_state_survives_json() -> None:
    curriculum = Curriculum(TIERS, CurriculumRules(window=4, least=4))
    played(curriculum, "+++++-+")
    again = Curriculum.from_json(
        json.loads(json.dumps(curriculum.to_json())), CurriculumRules(window=4, least=4)
    )
    assert again.to_json() == curriculum.to_json()
    assert again.record(True) == curriculum.record(True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 2}, "version"),
        ({"tier": "impossible"}, "tiers"),
        ({"recent": "yes"}, "recent"),
        ({"episodes": -1}, "episodes"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_state_is_refused_by_field(change: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Curriculum.from_json({**Curriculum(TIERS).to_json(), **change})


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"window": 0}, "window"),
        ({"least": 25}, "least"),
        ({"promote": 0.1}, "promote"),
        ({"demote": -0.1}, "demote"),
    ],
)
def test_wrong_rules_are_refused(rules: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        CurriculumRules(**rules)  # type: ignore[arg-type]


def test_tiers_are_distinct() -> None:
    with pytest.raises(ValueError, match="tiers"):
        Curriculum(["easy", "easy"])
