"""A glance at arguments comes to what the long way comes to, or to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.llm import parsing
from spectator.llm.flat_arguments import flat_arguments
from spectator.llm.parsing import CallRefused, ParsedCall, WrittenCall, check_call
from spectator.llm.schema import UnsupportedSchema
from spectator.observations import LegalAction

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "shot": {"type": "string", "enum": ["pull", "cut"]},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "overs": {"type": "integer", "minimum": 1},
        "ring": {"type": "boolean"},
        "text": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^a"},
    },
    "required": ["shot"],
    "additionalProperties": False,
}


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema = {name: value for name, value in SCHEMA.items() if draw(st.integers(0, 4))}
    odd = {
        "text": {"type": ["string", "null"]},
        "share": {"type": "number", "exclusiveMinimum": 0},
        "overs": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "ring": {"type": "boolean", "const": True},
        "reason": {"type": "string"},
    }
    changed = draw(st.dictionaries(st.sampled_from(sorted(odd)), st.just(None), max_size=2))
    properties = {**SCHEMA["properties"], **{name: odd[name] for name in changed}}
    return {**schema, "properties": properties} if "properties" in schema else schema


arguments = st.fixed_dictionaries(
    {"shot": st.sampled_from(["pull", "cut", "PULL", "hook", "", None, 3])},
    optional={
        "share": st.sampled_from(
            [0, 1, 0.5, 2, -0.0, "0.5", float("nan"), float("inf"), True, None, 10**400]
        ),
        "overs": st.sampled_from([1, 0, 2.0, 2.5, "3", True, 2**70, None]),
        "ring": st.sampled_from([True, False, "true", 1, None]),
        "text": st.sampled_from(["ab", "a", "a" * 10, "b", "a\x1b[0m", "aé", "a\ud800", ["a"], {"a": 1}]),
        "reason": st.sampled_from(["It is due.", "", "x" * 600, "\u2028", 5, None]),
        "thought": st.sampled_from(["So.", 5]),
        "other": st.sampled_from(["x", 5]),
    },
)


def came_to(given_arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> ParsedCall | tuple[str, str]:
    legal = [LegalAction(tool="bat", arguments=schema)]
    try:
        return check_call(WrittenCall("bat", given_arguments, id="c"), legal)
    except (CallRefused, UnsupportedSchema) as error:
        return type(error).__name__, str(error)


@given(given_arguments=arguments, schema=schemas())
@settings(deadline=None, max_examples=300)
def test_a_glance_changes_nothing(given_arguments: dict[str, Any], schema: dict[str, Any]) -> None:
    short = came_to(given_arguments, schema)
    with patch.object(parsing, "flat_arguments", return_value=None):
        long = came_to(given_arguments, schema)
    assert repr(short) == repr(long)  # 1 is 1.0 and True, but neither is written like the other


@pytest.mark.parametrize(
    ("given_arguments", "seen"),
    [
        ({"shot": "pull", "share": 0.5, "overs": 2, "ring": True, "text": "ab", "reason": "So."}, True),
        ({"shot": "hook"}, False),
        ({"shot": "pull", "thought": "So."}, False),
        ({"share": 0.5}, False),
        ({"shot": "pull", "overs": True}, False),
    ],
)
def test_what_a_glance_shows(given_arguments: dict[str, Any], seen: bool) -> None:
    assert (flat_arguments(given_arguments, SCHEMA, "reason") is not None) is seen


def test_a_schema_that_changed_is_seen_as_it_is_now() -> None:
    schema = {"type": "object", "properties": {"shot": {"type": "string", "enum": ["pull"]}}}
    assert flat_arguments({"shot": "pull"}, schema, "") == ({"shot": "pull"}, "")
    schema["properties"]["shot"]["enum"][0] = "cut"  # type: ignore[index]
    assert flat_arguments({"shot": "pull"}, schema, "") is None
