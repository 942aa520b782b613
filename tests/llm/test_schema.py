"""The validator agrees with the reference implementation, says which rule is broken, and mends little."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.llm.schema import UnsupportedSchema, coerce, first_violation

numbers = st.integers(-5, 5) | st.sampled_from([0.0, 0.5, 1.0, -2.5])
texts = st.sampled_from(["", "a", "ab", "abc", "pull", "1"])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def rules(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
            | st.just(["string", "null"]),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "minimum": numbers,
            "exclusiveMaximum": numbers,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "pattern": st.sampled_from(["^a", "b$", "."]),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": names,
            "additionalProperties": st.booleans() | inner,
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    )


schemas = st.recursive(st.booleans() | rules(st.booleans()), rules, max_leaves=4)


@settings(max_examples=250, deadline=None)
@given(values, schemas)
def test_it_agrees_with_the_reference(value: Any, schema: Any) -> None:
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (first_violation(value, schema) is None) == valid


@settings(max_examples=100, deadline=None)
@given(values, schemas)
def test_what_is_valid_is_left_alone(value: Any, schema: Any) -> None:
    """Nulls of left-out members apart, nothing valid is changed, and coercing twice changes nothing more."""
    if first_violation(value, schema) is None and "null" not in str(schema) and "None" not in str(value):
        assert coerce(value, schema) == value
    once = coerce(value, schema)
    assert coerce(once, schema) == once


POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}},
    "required": ["x"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["shot"],
    "properties": {
        "shot": {"type": "string", "enum": ["pull", "cut"]},
        "aggression": {"type": "number", "minimum": 0, "maximum": 1},
        "balls": {"type": "integer", "exclusiveMinimum": 0},
        "note": {"type": "string", "maxLength": 5},
        "sure": {"type": "boolean"},
        "field": {"type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1, "maxItems": 2},
    },
    "$defs": {"point": POINT},
}


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({}, "the arguments: 'shot' is missing"),
        ({"shot": "hook"}, 'shot: must be one of "pull", "cut", not "hook"'),
        ({"shot": "pull", "aggression": 1.5}, "aggression: must be at most 1, not 1.5"),
        ({"shot": "pull", "aggression": "high"}, "aggression: must be of type number, not string"),
        ({"shot": "pull", "aggression": True}, "aggression: must be of type number, not boolean"),
        ({"shot": "pull", "aggression": float("nan")}, "aggression: must be finite"),
        ({"shot": "pull", "balls": 0}, "balls: must be more than 0, not 0"),
        ({"shot": "pull", "note": "too long"}, "note: must have at most 5 characters, not 8"),
        ({"shot": "pull", "field": []}, "field: must have at least 1 items, not 0"),
        ({"shot": "pull", "field": [{"x": 1}, {"x": "?"}]}, "field[1].x: must be of type number, not string"),
        ({"shot": "pull", "field": [{}]}, "field[0]: 'x' is missing"),
        (
            {"shot": "pull", "spin": 1},
            "the arguments: 'spin' is not known; known: shot, aggression, balls, note",
        ),
    ],
)
def test_the_rule_that_is_broken_is_named(arguments: dict[str, Any], rule: str) -> None:
    broken = first_violation(arguments, SCHEMA)
    assert broken is not None and broken.startswith(rule)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"shot": "PULL "}, {"shot": "pull"}),
        ({"shot": "pull", "aggression": "0.7"}, {"shot": "pull", "aggression": 0.7}),
        ({"shot": "pull", "balls": 3.0}, {"shot": "pull", "balls": 3}),
        ({"shot": "pull", "balls": "3"}, {"shot": "pull", "balls": 3}),
        ({"shot": "pull", "sure": "True"}, {"shot": "pull", "sure": True}),
        ({"shot": "pull", "aggression": None}, {"shot": "pull"}),
        ({"shot": "pull", "field": '[{"x": "1"}]'}, {"shot": "pull", "field": [{"x": 1}]}),
        ({"shot": "pull", "field": [{"x": "1"}]}, {"shot": "pull", "field": [{"x": 1}]}),
        ({"shot": "pull", "aggression": "high"}, {"shot": "pull", "aggression": "high"}),
        ({"shot": "pull", "aggression": "true"}, {"shot": "pull", "aggression": "true"}),
        ({"shot": "p"}, {"shot": "p"}),
    ],
)
def test_only_what_is_sure_is_mended(sent: dict[str, Any], meant: dict[str, Any]) -> None:
    mended = coerce(sent, SCHEMA)
    assert mended == meant
    assert [type(value) for value in mended.values()] == [type(value) for value in meant.values()]


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {}},
        {"type": "decimal"},
        {"patternProperties": {}},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/none"},
        {"properties": {"a": "text"}},
    ],
)
def test_a_schema_that_is_not_understood_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSchema):
        first_violation({"a": 1}, schema)


def test_a_reference_to_itself_ends() -> None:
    tree: dict[str, Any] = {"$ref": "#"}
    assert "deep" in (first_violation({}, tree) or "")
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    nested = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert "deep" in (first_violation(deep, nested) or "")
    assert coerce(deep, nested) == deep
