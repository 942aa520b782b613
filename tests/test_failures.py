"""Failures have a class, whatever version of the record is read, and every class is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from spectator import errors
from spectator.errors import EndpointError, PolicyError
from spectator.failures import FAILURES, FailureClass, failure_of_decision, failure_of_end

PAGE = Path(__file__).resolve().parent.parent / "docs" / "failures.md"


def test_every_class_is_explained_in_the_code_and_on_its_page() -> None:
    assert tuple(FAILURES) == get_args(FailureClass)
    page = PAGE.read_text(encoding="utf-8")
    for name, sentence in FAILURES.items():
        assert f"| `{name}` | {sentence} |" in page, name


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("busy: the endpoint asks to wait", "rate_limited"),
        ("refused: the endpoint does not accept the key", "model_rejected"),
        ("refused: 2 actions in a row by the world's rules", "illegal_action"),
        ("unavailable: no connection", "model_infra"),
        ("malformed: that is no completion", "model_infra"),
        ("timeout: no answer within 5 s", "timeout"),
        ("timeout: nobody decided within 60 s", "timeout"),
        ("resting: the endpoint is left alone after failing: no connection", "model_resting"),
        ("unusable: the answer is empty", "unparsable"),
        ("unusable: the answer names no action in the form asked for", "unparsable"),
        ("unusable: the model declined to answer", "declined"),
        ("unusable: the answer was cut at the longest length before it named an action", "truncated"),
        ("unusable: 'fly' is not legal now; legal: say", "illegal_action"),
        ("unusable: plan: level: 3 is more than 1", "illegal_action"),
        ("spent: the day's cap of 900 tokens is reached", "spent"),
        ("it rained", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_record_from_before_the_field_tells_its_class_by_its_words(reason: str | None, found: str) -> None:
    assert failure_of_decision({"source": "fallback", "fallback_reason": reason}) == found
    told: dict[str, Any] = {"source": "fallback", "fallback_reason": reason, "failure_class": "env_infra"}
    assert failure_of_decision(told) == "env_infra", "the field wins over the words"


@pytest.mark.parametrize("source", ["model", "heuristic", "human", "remote"])
def test_who_decided_did_not_fail(source: str) -> None:
    assert failure_of_decision({"source": source, "fallback_reason": None}) is None


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("finished", None),
        ("step_cap", "truncated"),
        ("stopped", "cancelled"),
        ("policy_error", "policy_fault"),
        ("environment_error", "env_infra"),
        ("timeout", "timeout"),
        ("interrupted", "killed"),
        ("of another age", "unknown"),
    ],
)
def test_an_end_from_before_the_field_tells_its_class_by_its_reason(reason: str, found: str | None) -> None:
    assert failure_of_end({"reason": reason}) == found
    assert failure_of_end({"reason": reason, "failure_class": "spent"}) == "spent"


def test_an_error_carries_its_class() -> None:
    assert PolicyError("no").failure_class == "policy_fault"
    assert PolicyError("no", failure_class="spent").failure_class == "spent"
    kinds = {one.kind: one("no").failure_class for one in EndpointError.__subclasses__()}
    assert kinds == {
        "unavailable": "model_infra",
        "malformed": "model_infra",
        "timeout": "timeout",
        "busy": "rate_limited",
        "refused": "model_rejected",
        "resting": "model_resting",
    }
    assert errors.StepTimeout("no").failure_class == "env_infra"
    assert errors.DecisionTimeout("no").failure_class == "timeout"
    assert errors.JournalUnavailable("no").failure_class == "journal"
