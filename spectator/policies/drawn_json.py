"""Draws JSON in the shape of a schema, for policies that play any world without knowing it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

WORDS: Final = ("yes", "no", "wait", "look", "north", "open", "answer", "42")
"""What free text is drawn from."""

MAX_DEPTH: Final = 8
"""Levels of nesting beyond which nothing more is drawn."""


def draw_json(schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """An object in the shape of ``schema``: every required member, and each optional one half the time.

    Types, bounds, ``enum``, ``const``, ``$ref``, ``anyOf`` and ``oneOf`` are kept; patterns are not.

    >>> schema = {"properties": {"bet": {"type": "integer", "minimum": 5, "maximum": 5}}, "required": ["bet"]}
    >>> draw_json(schema, random.Random(1))
    {'bet': 5}
    """
    drawn: dict[str, Any] = _draw({**schema, "type": "object"}, schema, rng, 0)
    return drawn


def _draw(schema: Any, root: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        return _draw(_target(str(schema["$ref"]), root), root, rng, depth + 1)
    if "const" in schema:
        return schema["const"]
    for choice in ("enum", "anyOf", "oneOf"):
        if schema.get(choice):
            drawn = rng.choice(schema[choice])
            return drawn if choice == "enum" else _draw(drawn, root, rng, depth + 1)
    kind = schema.get("type")
    return _draw_kind(rng.choice(kind) if isinstance(kind, list) and kind else kind, schema, root, rng, depth)


def _draw_kind(
    kind: Any, schema: Mapping[str, Any], root: Mapping[str, Any], rng: random.Random, depth: int
) -> Any:
    match kind:
        case "object":
            required = schema.get("required") or ()
            members = (schema.get("properties") or {}).items()
            return {
                name: _draw(one, root, rng, depth + 1)
                for name, one in members
                if name in required or (depth < MAX_DEPTH // 2 and rng.random() < 0.5)
            }
        case "array":
            least = schema.get("minItems", 0)
            count = rng.randint(least, min(schema.get("maxItems", least + 2), least + 2))
            return [_draw(schema.get("items", {}), root, rng, depth + 1) for _ in range(count)]
        case "integer":
            low, high = _bounds(schema)
            return rng.randint(int(low), int(high))
        case "number":
            return round(rng.uniform(*_bounds(schema)), 3)
        case "boolean":
            return rng.random() < 0.5
        case "string":
            text = rng.choice(WORDS)[: schema.get("maxLength")]
            return text.ljust(schema.get("minLength", 0), ".")
    return None


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = 0 if high is None else high - 10
    return low + ("exclusiveMinimum" in schema), (low + 10 if high is None else high) - (
        "exclusiveMaximum" in schema
    )


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
