"""Constrain an answer to the legal actions of a turn, in the JSON Schema that endpoints accept.

Endpoints take a subset of JSON Schema: every object is closed, all of its members are required, and a member
that may be omitted is nullable instead. Rules outside the subset are dropped, so an answer that fits the
constraint is still checked against the world's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from spectator.llm.schema import MAX_DEPTH, Schema, UnsupportedSchema, resolve
from spectator.llm.tool_calls import REASON
from spectator.observations import LegalAction

Constraint = Literal["none", "json_object", "json_schema", "tools"]
"""What constrains an answer: nothing, JSON syntax, a schema of the legal actions, strict legal tools."""

ConstraintSetting = Literal["auto", "none", "json_object", "json_schema", "tools"]
"""A constraint, or ``auto``: the strongest that fits the style and that the endpoint accepts."""

Subset = Literal["local", "openai", "anthropic", "gemini"]
"""Who reads the schema: an inference server (llama.cpp, vLLM, SGLang, Ollama), or one of these APIs."""

REJECTED_STATUSES: Final = frozenset({400, 422})
"""Statuses of endpoints that do not accept a constraint."""

FAILED_STATUS: Final = 500
"""Status of a failure, and of vLLM and llama-cpp-python for a schema that they cannot read."""

_STRONGEST: Final[Mapping[str, Constraint]] = {"tools": "tools", "json": "json_schema", "xml": "none"}

REASON_CHARACTERS: Final = 200
"""Maximum characters of a reason, where the endpoint can limit them; otherwise small models write on."""

_STRUCTURE: Final = frozenset({"type", "enum"})
_BOUNDS: Final = frozenset({"minimum", "maximum"})
_ITEMS: Final = frozenset({"minItems", "maxItems"})
_OPENAI: Final = (
    _STRUCTURE | _BOUNDS | _ITEMS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"}
)
_KEPT: Final[Mapping[Subset, frozenset[str]]] = {
    "local": _OPENAI | {"minLength", "maxLength"},
    "openai": _OPENAI,
    "gemini": _STRUCTURE | _BOUNDS | _ITEMS,
    "anthropic": _STRUCTURE,
}
_CLASSES: Final = {r"\d": "[0-9]", r"\s": "[ ]", r"\w": "[A-Za-z0-9_]"}
_NULL: Final[Schema] = {"type": "null"}


def strongest(setting: ConstraintSetting, style: str) -> Constraint:
    """Return the constraint to try first.

    >>> strongest("auto", "json"), strongest("auto", "xml"), strongest("none", "json")
    ('json_schema', 'none', 'none')
    """
    return _STRONGEST[style] if setting == "auto" else setting


def weaker(constraint: Constraint, subset: Subset) -> Constraint:
    """Return the next constraint to try after one that an endpoint rejected.

    >>> weaker("json_schema", "local"), weaker("json_schema", "anthropic")
    ('json_object', 'none')
    """
    return "json_object" if constraint == "json_schema" and subset != "anthropic" else "none"


def fits_style(setting: ConstraintSetting, style: str) -> bool:
    """Whether answers in ``style`` can be constrained in this way."""
    return setting in ("auto", "none") or style == ("tools" if setting == "tools" else "json")


def in_list(subset: Subset, most: int) -> bool:
    """Whether answers hold a list of actions: for several, and for APIs that reject a choice at the root."""
    return most > 1 or subset != "local"


def answer_schema(legal: Sequence[LegalAction], subset: Subset, most: int = 1) -> dict[str, Any]:
    """Return the schema of an answer in JSON that names a legal action, its reason first.

    Args:
        subset: Who reads the schema.
        most: Maximum number of actions.

    Raises:
        UnsupportedSchema: A schema is recursive.

    >>> answer_schema([{"tool": "wait", "arguments": {}}], "openai")["required"]
    ['actions']
    """
    reason: dict[str, Any] = {"type": "string"}
    if subset == "local":
        reason["maxLength"] = REASON_CHARACTERS
    answers = [
        _closed(
            {
                REASON: reason,
                "tool": {"type": "string", "enum": [action["tool"]]},
                "arguments": strict_schema(action["arguments"], subset),
            }
        )
        for action in legal
    ]
    answer = answers[0] if len(answers) == 1 else {"anyOf": answers}
    if not in_list(subset, most):
        return answer
    bounds = {"minItems": 1, "maxItems": most} if "maxItems" in _KEPT[subset] else {}
    return _closed({"actions": {"type": "array", "items": answer, **bounds}})


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def strict_schema(schema: Schema, subset: Subset, *, described: bool = False) -> dict[str, Any]:
    """Return the schema of a tool's arguments in the subset of an endpoint.

    Args:
        schema: The world's schema.
        subset: Who reads it.
        described: Whether to keep descriptions.

    Raises:
        UnsupportedSchema: It is recursive, or refers to something else.

    >>> strict_schema({"properties": {"shot": {"const": "cut"}}}, "openai")["properties"]
    {'shot': {'anyOf': [{'enum': ['cut']}, {'type': 'null'}]}}
    """
    return _Writer(schema, subset, described).object(schema, 0)


class _Writer:
    """Writes one schema in a subset."""

    def __init__(self, root: Schema, subset: Subset, described: bool) -> None:
        self._root = root
        self._subset = subset
        self._kept = _KEPT[subset] | ({"description"} if described else frozenset())

    def value(self, schema: Any, depth: int) -> dict[str, Any]:
        """Return the schema of any value."""
        if depth > MAX_DEPTH:
            raise UnsupportedSchema(f"the schema is recursive, or nested more than {MAX_DEPTH} deep")
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            target = resolve(schema["$ref"], self._root)
            rest = {name: rule for name, rule in schema.items() if name != "$ref"}
            return self.value({**target, **rest}, depth + 1)
        made = {name: rule for name, rule in schema.items() if name in self._kept}
        if "const" in schema:
            made["enum"] = [schema["const"]]
        if "pattern" in made:
            made["pattern"] = _anchored(made["pattern"])
        if options := schema.get("anyOf") or schema.get("oneOf"):
            about = {name: made[name] for name in ("description",) if name in made}
            return {**about, "anyOf": [self.value(option, depth + 1) for option in options]}
        if "properties" in schema or schema.get("type") == "object":
            made.pop("type", None)
            return {**made, **self.object(schema, depth)}
        if "items" in schema:
            made["items"] = self.value(schema["items"], depth + 1)
        return made

    def object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return the schema of a closed object; its optional members are nullable."""
        properties = schema.get("properties")
        if not properties:
            if depth and self._subset == "local" and schema.get("additionalProperties") is not False:
                return {"type": "object"}
            return _closed({})
        required = schema.get("required", ())
        written = {name: self.value(rule, depth + 1) for name, rule in properties.items()}
        members = {
            name: rule if name in required else _or_null(rule)
            for name, rule in written.items()
            if name in required or not self._is_open(properties[name])
        }
        if schema.get("minProperties", 0) < 1 or required:
            return _closed(members)
        return {"anyOf": [_closed({**members, name: written[name]}) for name in members]}

    def _is_open(self, rule: Any) -> bool:
        """Whether a value is an object with any members, which only inference servers accept."""
        return (
            self._subset != "local"
            and isinstance(rule, Mapping)
            and rule.get("type") == "object"
            and not rule.get("properties")
        )


def _or_null(rule: Mapping[str, Any]) -> dict[str, Any]:
    options = rule["anyOf"] if "anyOf" in rule else [rule]
    if any(option.get("type") == "null" for option in options):
        return dict(rule)
    return {"anyOf": [*options, _NULL]}


def _anchored(pattern: str) -> str:
    """Return a pattern for whole texts, without classes: inference servers accept no other.

    >>> _anchored(r"ACTION:\\s*-?\\d+")
    '^ACTION:[ ]*-?[0-9]+$'
    """
    for short, spelled in _CLASSES.items():
        pattern = pattern.replace(short, spelled)
    if "|" in pattern:
        return pattern if pattern.startswith("^") and pattern.endswith("$") else f"^({pattern})$"
    return f"{'' if pattern.startswith('^') else '^'}{pattern}{'' if pattern.endswith('$') else '$'}"
