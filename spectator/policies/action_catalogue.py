"""The actions of an episode, as prompts and requests show them."""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import FrozenTools
from spectator.llm.constraint import Subset, strict_schema
from spectator.llm.tool_calls import REASON
from spectator.observations import LegalAction
from spectator.policies.prompts import LEGAL_NOW, WHY, WITHOUT_REFERENCES


def strict_tools(legal: Sequence[LegalAction], subset: Subset) -> list[dict[str, Any]]:
    """Return the legal actions as strict tools, the reason first; see :mod:`spectator.llm.constraint`."""
    made = [
        _tool(
            action["tool"],
            {**strict_schema(action["arguments"], subset, described=True), "description": about}
            if (about := action["arguments"].get("description"))
            else strict_schema(action["arguments"], subset, described=True),
            {"description": WHY},
        )
        for action in legal
    ]
    for tool in made:
        tool["function"]["strict"] = True
    return made


_NOISE: Final = frozenset({"additionalProperties", "title", "examples"})


class ActionCatalogue:
    """The actions of an episode; they are only added, so earlier prompts stay correct.

    Args:
        actions: Actions known from the beginning.
    """

    def __init__(self, actions: Sequence[LegalAction] = ()) -> None:
        self._known: dict[str, Mapping[str, Any]] = {}
        self._described: set[str] = set()
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._tools: tuple[FrozenTools, int] | None = None
        self._listed: list[str] = []
        self._last: tuple[Sequence[LegalAction], dict[str, str]] | None = None
        self.learn(actions)

    def learn(self, actions: Sequence[LegalAction]) -> dict[str, str]:
        """Add actions; return the new ones as named lines of text.

        Args:
            actions: Actions with the JSON schemas of their arguments.
        """
        new = [action for action in actions if action["tool"] not in self._known]
        if not new:
            return {}
        first = None if self._known else _first_actions(new)
        if first is None:
            schemas = {action["tool"]: _compact(action["arguments"], self._described) for action in new}
            self._tools, texts = None, {name: encode_json(schema) for name, schema in schemas.items()}
        else:
            schemas, texts = first.schemas, first.texts
            self._tools, self._described = first.tools, set(first.described)
        self._known |= {action["tool"]: action["arguments"] for action in new}
        self._schemas |= schemas
        self._listed += [f"- {name} {schema}" for name, schema in texts.items()]
        return {f"action {name}": schema for name, schema in texts.items()}

    @property
    def known(self) -> list[LegalAction]:
        """All actions, in order; a catalogue made from them is equal."""
        return [{"tool": name, "arguments": arguments} for name, arguments in self._known.items()]

    @property
    def listed(self) -> str:
        """All actions, one per line, with the JSON schemas of their arguments."""
        return "\n".join(self._listed)

    def tools(self) -> tuple[FrozenTools, int]:
        """Return all actions as tools with a reason argument, and their characters."""
        if self._tools is None:
            self._tools = _as_tools(self._schemas)
        return self._tools

    def lines(self, legal: Sequence[LegalAction]) -> dict[str, str]:
        """Return the legal actions as lines, with changes of their known schemas."""
        if self._last is None or self._last[0] is not legal:
            lines = {LEGAL_NOW: ", ".join(action["tool"] for action in legal)}
            for action in legal:
                if (difference := self._difference(action)) is not None:
                    lines[f"{action['tool']} now"] = difference
            self._last = legal, lines
        return self._last[1]

    def _difference(self, action: LegalAction) -> str | None:
        known, current = self._known[action["tool"]], action["arguments"]
        if known == current:
            return None
        before, after = (_compact(one, set()).get("properties", {}) for one in (known, current))
        changed = [
            f"{name} is one of {' | '.join(map(str, rule['enum']))}"
            if "enum" in rule
            else f"{name} {encode_json(_changed_rule(before.get(name, {}), rule))}"
            for name, rule in after.items()
            if before.get(name) != rule
        ]
        changed += [f"without {name}" for name in before if name not in after]
        required = current.get("required", ())
        if list(known.get("required", ())) != list(required):
            changed.append(f"required: {', '.join(required) or 'nothing'}")
        return "; ".join(changed) or None


def _changed_rule(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of an argument's rule that differ, or the whole rule if any was removed."""
    whole = any(key not in after for key in before if key not in ("default", "description"))
    return {
        key: part
        for key, part in after.items()
        if key != "description" and (whole or before.get(key) != part)
    }


@dataclass(frozen=True, slots=True)
class _FirstActions:
    """The first actions of an episode, prepared once for all episodes with the same.

    Args:
        schemas: Compact schemas, by action.
        texts: The schemas as JSON.
        described: Descriptions in them.
        tools: All actions as tools, and their characters.
    """

    schemas: dict[str, Any]
    texts: dict[str, str]
    described: frozenset[str]
    tools: tuple[FrozenTools, int]


def _first_actions(actions: Sequence[LegalAction]) -> _FirstActions | None:
    """Prepare the first actions; ``None`` if they are not plain JSON."""
    plain: Any = [[action["tool"], action["arguments"]] for action in actions]
    try:
        return _prepare(marshal.dumps(plain, WITHOUT_REFERENCES))
    except ValueError:  # an instance of some class
        return None


@lru_cache(maxsize=64)
def _prepare(marshalled: bytes) -> _FirstActions:
    described: set[str] = set()
    schemas = {name: _compact(arguments, described) for name, arguments in marshal.loads(marshalled)}
    texts = {name: encode_json(schema) for name, schema in schemas.items()}
    return _FirstActions(schemas, texts, frozenset(described), _as_tools(schemas))


def _as_tools(schemas: Mapping[str, Mapping[str, Any]]) -> tuple[FrozenTools, int]:
    made = FrozenTools(
        _tool(name, schema, {"description": WHY} if index == 0 else {})
        for index, (name, schema) in enumerate(schemas.items())
    )
    return made, len(encode_json(made))


def _compact(node: Any, described: set[str], *, names: bool = False) -> Any:
    """Return a schema without noise and without descriptions given before."""
    if isinstance(node, list):
        return [_compact(item, described) for item in node]
    if not isinstance(node, Mapping):
        return node
    kept = {}
    for key, value in node.items():
        if not names and key in _NOISE:
            continue
        if not names and key == "description" and isinstance(value, str):
            if value in described:
                continue
            described.add(value)
        kept[key] = _compact(value, described, names=not names and key in ("properties", "$defs"))
    return kept


def _tool(name: str, schema: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Any]:
    about = str(schema.get("description", name))[:1024]
    asked = {key: rule for key, rule in schema.items() if key != "description"}
    properties = {REASON: {"type": "string", **why}, **schema.get("properties", {})}
    required = [REASON, *(one for one in schema.get("required", ()) if one != REASON)]
    parameters = {"type": "object", **asked, "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
