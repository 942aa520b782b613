"""JSON Schema in the subset that Gemini's function declarations take; they refuse any other keyword.

What the subset cannot say is put into words for the model. Answers are judged by the world's own schema all
the same, so that nothing that is not legal gets through by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset({
    "type", "title", "description", "nullable", "maxItems", "minItems", "required", "minProperties",
    "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum",
})  # fmt: skip
_FORMATS: Final = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_DEPTH: Final = 12


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` in Gemini's subset.

    >>> gemini_schema({"enum": [1, 2], "additionalProperties": False})
    {'type': 'integer', 'description': 'One of 1, 2.'}
    """
    return _subset(schema, schema, 0)


def _subset(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return {"type": "string", "description": "Any value, as JSON."}
    schema = _without_reference(schema, root)
    made = {name: value for name, value in schema.items() if name in _KEPT}
    notes = [made["description"]] if made.get("description") else []
    _type(made, schema)
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    _choices(made, schema, notes)
    _bounds(made, schema, notes)
    if isinstance(properties := schema.get("properties"), Mapping) and properties:
        made["properties"] = {name: _subset(one, root, depth + 1) for name, one in properties.items()}
    if "items" in schema or made.get("type") == "array":
        made["items"] = _subset(schema.get("items") or {"type": "string"}, root, depth + 1)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        _options(made, [_subset(one, root, depth + 1) for one in options])
    if notes:
        made["description"] = " ".join(notes)
    return made


def _without_reference(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """``schema`` with what it refers to, and with all that must hold at once, in one."""
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/"):
        found: Any = root
        for name in target[2:].split("/"):
            found = (
                found.get(name.replace("~1", "/").replace("~0", "~"), {})
                if isinstance(found, Mapping)
                else {}
            )
        schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
    for part in schema.get("allOf") or ():
        schema = {**(part if isinstance(part, Mapping) else {}), **schema}
    return schema


def _type(made: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """One type, and apart whether there may be none."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        named = [kind for kind in kinds if kind != "null"]
        made["type"] = named[0] if named else "string"
        if "null" in kinds:
            made["nullable"] = True
    elif kinds is None and (choices := schema.get("enum") or [schema[k] for k in ("const",) if k in schema]):
        made["type"] = _type_of(choices[0])


def _type_of(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = ((bool, "boolean"), (int, "integer"), (float, "number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "string")


def _choices(made: dict[str, Any], schema: Mapping[str, Any], notes: list[str]) -> None:
    """Choices between texts as they are, others in words."""
    choices = list(schema.get("enum") or ([schema["const"]] if "const" in schema else ()))
    if choices and all(isinstance(choice, str) and choice for choice in choices):
        made["enum"] = choices
    elif choices:
        notes.append(f"One of {', '.join(json.dumps(choice) for choice in choices)}.")


def _bounds(made: dict[str, Any], schema: Mapping[str, Any], notes: list[str]) -> None:
    """Open bounds, steps and the like, in words."""
    for name, words in (
        ("exclusiveMinimum", "More than"),
        ("exclusiveMaximum", "Less than"),
        ("multipleOf", "A multiple of"),
    ):
        if name in schema:
            notes.append(f"{words} {schema[name]}.")
    if schema.get("uniqueItems"):
        notes.append("No item twice.")


def _options(made: dict[str, Any], options: list[dict[str, Any]]) -> None:
    """Alternatives; one that is nothing but null is said by ``nullable``."""
    real = [option for option in options if option.get("type") != "null"]
    if len(real) < len(options):
        made["nullable"] = True
    if len(real) == 1:
        made |= {**real[0], **made}
    elif real:
        made["anyOf"] = real
