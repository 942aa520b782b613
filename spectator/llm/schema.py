"""JSON Schema for tool arguments (a subset of draft 2020-12): violations and safe coercions.

Unknown keywords are rejected, never ignored: otherwise an invalid argument could pass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly",
    "$schema", "$id", "$comment", "$defs", "definitions", "discriminator",
})  # fmt: skip
_ASSERTIONS: Final = frozenset({
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "prefixItems", "items",
    "properties", "required", "additionalProperties", "minProperties", "maxProperties",
    "anyOf", "oneOf", "allOf", "not", "$ref",
})  # fmt: skip

_COMBINING: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

MAX_DEPTH: Final = 32
"""Maximum nesting of a schema and of a value."""


class UnsupportedSchema(ValueError):
    """The schema is invalid or uses an unsupported keyword; the message names it."""


def first_violation(value: Any, schema: Schema | bool, *, root: Schema | None = None) -> str | None:
    """Return the first violation of ``schema``, or ``None`` if ``value`` is valid.

    Args:
        value: Decoded JSON.
        schema: A schema; ``true`` accepts everything, ``false`` nothing.
        root: Schema that contains the targets of ``$ref``; default: ``schema``.

    Raises:
        UnsupportedSchema: The schema uses an unsupported keyword.

    >>> first_violation({"share": 1.5}, {"type": "object", "properties": {"share": {"maximum": 1}}})
    'share: must be at most 1, not 1.5'
    """
    whole = schema if root is None and isinstance(schema, Mapping) else root
    return next(_violations(value, schema, whole or {}, "", 0), None)


def _violations(value: Any, schema: Any, root: Schema, path: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        yield f"{path or 'the arguments'}: nested more than {MAX_DEPTH} deep"
        return
    if schema is True:
        return
    if schema is False:
        yield f"{path or 'the arguments'}: nothing is allowed here"
        return
    where = path or "the arguments"
    if not isinstance(schema, Mapping):
        raise UnsupportedSchema(f"a schema must be an object, not {_type_of(schema)}")
    if unknown := [one for one in schema if one not in _ASSERTIONS and one not in _ANNOTATIONS]:
        raise UnsupportedSchema(f"the keyword {unknown[0]!r} is not supported")
    if "$ref" in schema:
        yield from _violations(value, resolve(schema["$ref"], root), root, path, depth + 1)
    if "type" in schema and not _is_of(value, schema["type"]):
        yield f"{where}: must be of type {_names(schema['type'])}, not {_type_of(value)}"
        return
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        yield f"{where}: must be one of {_listed(schema['enum'])}, not {_shown(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{where}: must be {_shown(schema['const'])}, not {_shown(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(value, schema, where)
    elif isinstance(value, str):
        yield from _of_string(value, schema, where)
    elif isinstance(value, list):
        yield from _of_array(value, schema, root, path, depth)
    elif isinstance(value, dict):
        yield from _of_object(value, schema, root, path, depth)
    if not _COMBINING.isdisjoint(schema):
        yield from _combined(value, schema, root, path, depth)


def resolve(reference: Any, root: Schema) -> Any:
    """Return the target of a local ``$ref``.

    Raises:
        UnsupportedSchema: The reference is not local, or has no target.
    """
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise UnsupportedSchema(f"the reference {reference!r} is not local")
    target: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or name not in target:
            raise UnsupportedSchema(f"the reference {reference!r} has no target")
        target = target[name]
    return target


def _of_number(value: float, schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where}: must be finite"
        return
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where}: must be at least {schema['minimum']}, not {_shown(value)}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{where}: must be at most {schema['maximum']}, not {_shown(value)}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{where}: must be more than {schema['exclusiveMinimum']}, not {_shown(value)}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{where}: must be less than {schema['exclusiveMaximum']}, not {_shown(value)}"
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield f"{where}: must be a multiple of {schema['multipleOf']}, not {_shown(value)}"


def _is_multiple(value: float, unit: float) -> bool:
    if isinstance(value, int) and isinstance(unit, int):
        return value % unit == 0
    try:
        return float(value / unit).is_integer()
    except OverflowError:  # an integer too large for a float
        return False


def _of_string(value: str, schema: Schema, where: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"{where}: must have at least {schema['minLength']} characters"
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield f"{where}: must have at most {schema['maxLength']} characters, not {len(value)}"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield f"{where}: must match {schema['pattern']!r}"


def _of_array(value: list[Any], schema: Schema, root: Schema, path: str, depth: int) -> Iterator[str]:
    where = path or "the arguments"
    if len(value) < schema.get("minItems", 0):
        yield f"{where}: must have at least {schema['minItems']} items, not {len(value)}"
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield f"{where}: must have at most {schema['maxItems']} items, not {len(value)}"
    if schema.get("uniqueItems") and any(
        _same(item, other) for number, item in enumerate(value) for other in value[:number]
    ):
        yield f"{where}: items must differ"
    first = schema.get("prefixItems", ())
    for number, item in enumerate(value):
        rule = first[number] if number < len(first) else schema.get("items", True)
        yield from _violations(item, rule, root, f"{path}[{number}]", depth + 1)


def _of_object(value: dict[str, Any], schema: Schema, root: Schema, path: str, depth: int) -> Iterator[str]:
    where = path or "the arguments"
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}: {name!r} is missing"
    if len(value) < schema.get("minProperties", 0):
        yield f"{where}: must have at least {schema['minProperties']} members"
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        yield f"{where}: must have at most {schema['maxProperties']} members"
    others = schema.get("additionalProperties", True)
    for name, member in value.items():
        inner = f"{path}.{name}" if path else str(name)
        if name in properties:
            yield from _violations(member, properties[name], root, inner, depth + 1)
        elif others is False:
            known = f"; known: {', '.join(properties)}" if properties else "; it takes none"
            yield f"{where}: {str(name)[:60]!r} is not known{known}"
        else:
            yield from _violations(member, others, root, inner, depth + 1)


def _combined(value: Any, schema: Schema, root: Schema, path: str, depth: int) -> Iterator[str]:
    where = path or "the arguments"
    for part in schema.get("allOf", ()):
        yield from _violations(value, part, root, path, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            broken = [next(_violations(value, part, root, path, depth + 1), None) for part in schema[keyword]]
            fitting = broken.count(None)
            if fitting == 0 or (keyword == "oneOf" and fitting > 1):
                why = "; or ".join(rule for rule in broken if rule) if not fitting else "more than one fits"
                yield f"{where}: must fit {'one' if keyword == 'oneOf' else 'any'} of the choices: {why}"
    if "not" in schema and next(_violations(value, schema["not"], root, path, depth + 1), None) is None:
        yield f"{where}: {_shown(value)} is ruled out"


def coerce(value: Any, schema: Any, *, root: Schema | None = None, depth: int = 0) -> Any:
    """Convert numbers given as text, the case of a choice, and surplus nulls.

    Everything else is unchanged; check the result with :func:`first_violation`.

    >>> coerce({"share": "0.5"}, {"type": "object", "properties": {"share": {"type": "number"}}})
    {'share': 0.5}
    """
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return value
    whole = schema if root is None else root
    if "$ref" in schema:
        return coerce(value, resolve(schema["$ref"], whole), root=whole, depth=depth + 1)
    kind = schema.get("type")
    if isinstance(value, str):
        value = _from_text(value, schema, whole)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        properties, required = schema.get("properties", {}), schema.get("required", ())
        return {
            name: coerce(member, properties.get(name), root=whole, depth=depth + 1)
            for name, member in value.items()
            if member is not None
            or name in required
            or name not in properties
            or _takes_null(properties[name])
        }
    if isinstance(value, list):
        return [coerce(item, schema.get("items"), root=whole, depth=depth + 1) for item in value]
    return value


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if "type" not in schema and ("enum" in schema or "const" in schema):
        return None in schema.get("enum", ()) or schema.get("const", "") is None
    kinds = schema.get("type", "null")
    return kinds == "null" or "null" in kinds or "anyOf" in schema or "oneOf" in schema


def _from_text(text: str, schema: Schema, root: Schema) -> Any:
    kind, choices = schema.get("type"), schema.get("enum")
    if isinstance(choices, list | tuple) and text not in choices:
        meant = [c for c in choices if isinstance(c, str) and c.casefold() == text.strip().casefold()]
        if len(meant) == 1:
            return meant[0]
    if kind in ("number", "integer", "boolean", "array", "object"):
        value = _decoded(text.strip().lower() if kind == "boolean" else text)
        return value if _is_of(value, kind) else text
    if isinstance(kind, str) or first_violation(text, schema, root=root) is None:
        return text
    value = _decoded(text)
    return value if first_violation(value, schema, root=root) is None else text


def _decoded(text: str) -> Any:
    """Return the JSON value of a text, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_of(value: Any, kinds: Any) -> bool:
    own = _type_of(value)
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            raise UnsupportedSchema(f"the type {kind!r} is not supported")
        if kind == own:
            return True
        if kind == "integer" and own == "number" and (isinstance(value, int) or value.is_integer()):
            return True
    return False


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _same(one: Any, other: Any) -> bool:
    """Return JSON equality: 1 equals 1.0, but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other)


def _names(kinds: Any) -> str:
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _listed(choices: Any) -> str:
    shown = [_shown(choice) for choice in choices]
    return ", ".join(shown[:40]) + (", …" if len(shown) > 40 else "")
