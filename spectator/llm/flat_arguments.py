"""Arguments that a glance shows to be in order: few, flat, plainly written, and within the rules of a schema.

Most are. What a glance does not show goes the long way, by :mod:`spectator.llm.schema`, with the same result.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Final

MAX_FLAT: Final = 8
"""Arguments beyond which no glance is taken."""

MAX_PLAIN: Final = 500
"""Characters of a text beyond which no glance is taken."""

MAX_WHOLE: Final = 2**53
"""Integers beyond it are not taken at a glance."""

_WITHOUT_REFERENCES: Final = 2
"""The newest version of ``marshal`` whose bytes depend on nothing but the value."""

_SAY_NOTHING: Final = frozenset({"title", "description", "default", "examples"})
_OF_OBJECT: Final = _SAY_NOTHING | {"type", "properties", "required", "additionalProperties"}
_OF_MEMBER: Final[Mapping[str, frozenset[str]]] = {
    "string": _SAY_NOTHING | {"type", "enum", "minLength", "maxLength", "pattern"},
    "integer": _SAY_NOTHING | {"type", "minimum", "maximum"},
    "number": _SAY_NOTHING | {"type", "minimum", "maximum"},
    "boolean": _SAY_NOTHING | {"type"},
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rules of one argument: of a text its lengths, choices and pattern, of a number its bounds."""

    kind: str
    least: float
    most: float
    choices: frozenset[str] | None
    pattern: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class _Rules:
    required: tuple[str, ...]
    by_name: Mapping[str, _Rule]


def flat_arguments(
    given: Mapping[str, Any], schema: Mapping[str, Any], aside: str
) -> tuple[dict[str, Any], str] | None:
    """``given`` without the member ``aside``, and that member; ``None`` where a glance does not show all.

    Args:
        given: Decoded JSON.
        schema: What the arguments must keep to; read only, and by its value, so that it may change.
        aside: A text that may stand among them though the schema does not know it; empty where it does not.

    >>> schema = {"type": "object", "properties": {"share": {"type": "number", "maximum": 1}}}
    >>> flat_arguments({"reason": "Safe.", "share": 0.5}, schema, "reason")
    ({'share': 0.5}, 'Safe.')
    >>> flat_arguments({"share": "0.5"}, schema, "reason") is flat_arguments({"share": 2}, schema, "reason")
    True
    """
    if len(given) > MAX_FLAT:
        return None
    try:
        whole: Any = schema
        rules = _rules_of(marshal.dumps(whole, _WITHOUT_REFERENCES))
    except ValueError:  # some class of its own
        return None
    if rules is None:
        return None
    kept, told = {}, ""
    for name, value in given.items():
        rule = rules.by_name.get(name)
        if rule is not None and _keeps_to(value, rule):
            kept[name] = value
        elif rule is None and name == aside and type(value) is str and _plain(value):
            told = value
        else:
            return None
    for name in rules.required:
        if name not in kept:
            return None
    return kept, told


def _plain(text: str) -> bool:
    return len(text) <= MAX_PLAIN and text.isascii() and text.isprintable()


def _keeps_to(value: Any, rule: _Rule) -> bool:
    kind = type(value)
    if rule.kind == "string":
        return (
            kind is str
            and _plain(value)
            and rule.least <= len(value) <= rule.most
            and (rule.choices is None or value in rule.choices)
            and (rule.pattern is None or rule.pattern.search(value) is not None)
        )
    if rule.kind == "boolean":
        return kind is bool
    if kind is int:
        return bool(-MAX_WHOLE < value < MAX_WHOLE and rule.least <= value <= rule.most)
    return rule.kind == "number" and kind is float and isfinite(value) and rule.least <= value <= rule.most


@lru_cache(maxsize=512)
def _rules_of(mark: bytes) -> _Rules | None:
    """The rules of a schema, by its bytes; ``None`` where it has others than are looked for here."""
    schema = marshal.loads(mark)
    if not isinstance(schema, dict) or not _OF_OBJECT.issuperset(schema) or schema.get("type") != "object":
        return None
    members, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(members, dict) or not isinstance(required, list | tuple):
        return None
    if not isinstance(schema.get("additionalProperties", True), bool):
        return None
    by_name = {name: _rule_of(rule) for name, rule in members.items() if isinstance(name, str)}
    known = {name: rule for name, rule in by_name.items() if rule is not None and _plain(name)}
    return _Rules(tuple(required), known) if len(known) == len(members) else None


def _rule_of(schema: Any) -> _Rule | None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _OF_MEMBER or not _OF_MEMBER[kind].issuperset(schema):
        return None
    low, high = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
    bounds = schema.get(low, float("-inf")), schema.get(high, float("inf"))
    choices, pattern = schema.get("enum"), schema.get("pattern")
    if not all(type(bound) in (int, float) for bound in bounds):
        return None
    if choices is not None and not (
        isinstance(choices, list | tuple) and {str}.issuperset(map(type, choices))
    ):
        return None
    try:
        compiled = None if pattern is None else re.compile(pattern)
    except (re.error, TypeError):
        return None
    return _Rule(kind, *bounds, None if choices is None else frozenset(choices), compiled)
