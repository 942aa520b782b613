"""Every class of failure is explained."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from spectator import errors
from spectator.errors import FAILURES, EndpointError, FailureClass, PolicyError, failure_of_end
from spectator.llm.faults import fault_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "failures.md"


def test_the_table_of_faults_on_the_page_is_that_of_the_code() -> None:
    assert fault_table() in PAGE.read_text(encoding="utf-8"), "run: python scripts/make_faults_doc.py"


def test_every_class_is_explained_in_the_code_and_on_its_page() -> None:
    assert tuple(FAILURES) == get_args(FailureClass)
    page = PAGE.read_text(encoding="utf-8")
    for name, sentence in FAILURES.items():
        assert f"| `{name}` | {sentence} |" in page, name


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
    ],
)
def test_the_class_of_an_end_follows_from_its_reason_where_no_other_is_given(
    reason: str, found: str | None
) -> None:
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
