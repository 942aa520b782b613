"""The actions of an episode as a model is told them: all at the beginning, then what is legal now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import SettledTools
from spectator.llm.parsing import REASON
from spectator.observations import LegalAction
from spectator.policies.prompting import WHY

LEGAL_NOW: Final = "legal now"
"""Name of the line that lists what is legal."""

_NOISE: Final = frozenset({"additionalProperties", "title"})


class ActionCatalogue:
    """What may be done in an episode; it only grows, so that what was told of it stays true.

    Args:
        actions: What is known from the beginning.
    """

    def __init__(self, actions: Sequence[LegalAction] = ()) -> None:
        self._known: dict[str, Mapping[str, Any]] = {}
        self._said: set[str] = set()
        self._told: dict[str, Mapping[str, Any]] = {}
        self._tools: tuple[SettledTools, int] | None = None
        self._listed: list[str] = []
        self._last: tuple[Sequence[LegalAction], dict[str, str]] | None = None
        self.learn(actions)

    def learn(self, actions: Sequence[LegalAction]) -> dict[str, str]:
        """Take in actions; those that were not known yet, as named lines of text.

        Args:
            actions: With the JSON schemas of their arguments.
        """
        new = [action for action in actions if action["tool"] not in self._known]
        told: dict[str, str] = {}
        for action in new:
            name = action["tool"]
            self._known[name] = action["arguments"]
            self._told[name] = self._compact(action["arguments"])
            told[f"action {name}"] = encode_json(self._told[name])
        if new:
            self._tools = None
            self._listed += [f"- {name.removeprefix('action ')} {schema}" for name, schema in told.items()]
        return told

    @property
    def known(self) -> list[LegalAction]:
        """All actions in the order in which they were taken in; made of them, another one is the same."""
        return [{"tool": name, "arguments": arguments} for name, arguments in self._known.items()]

    @property
    def listed(self) -> str:
        """All that is known, an action a line, with the JSON schemas of its arguments."""
        return "\n".join(self._listed)

    def tools(self) -> tuple[SettledTools, int]:
        """All that is known in the endpoint's form, each with a reason to be given, and its characters."""
        if self._tools is None:
            made = SettledTools(
                _tool(name, schema, {"description": WHY} if place == 0 else {})
                for place, (name, schema) in enumerate(self._told.items())
            )
            self._tools = made, len(encode_json(made))
        return self._tools

    def lines(self, legal: Sequence[LegalAction]) -> dict[str, str]:
        """What is legal now, and where its arguments are narrower or wider than was told at the beginning."""
        if self._last is None or self._last[0] is not legal:
            told = {LEGAL_NOW: ", ".join(action["tool"] for action in legal)}
            for action in legal:
                if (differs := self._differs(action)) is not None:
                    told[f"{action['tool']} now"] = differs
            self._last = legal, told
        return self._last[1]

    def _differs(self, action: LegalAction) -> str | None:
        known, given = self._known[action["tool"]], action["arguments"]
        if known == given:
            return None
        mine, theirs = known.get("properties", {}), given.get("properties", {})
        told = [
            f"{name} is one of {' | '.join(map(str, rule['enum']))}"
            if "enum" in rule
            else f"{name} {encode_json(rule)}"
            for name, rule in theirs.items()
            if mine.get(name) != rule
        ]
        told += [f"without {name}" for name in mine if name not in theirs]
        required = given.get("required", ())
        if list(known.get("required", ())) != list(required):
            told.append(f"required: {', '.join(required) or 'nothing'}")
        return "; ".join(told) or None

    def _compact(self, node: Any, *, names: bool = False) -> Any:
        """A schema without noise and without descriptions that were given before."""
        if isinstance(node, list):
            return [self._compact(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        kept = {}
        for key, value in node.items():
            if not names and key in _NOISE:
                continue
            if not names and key == "description" and isinstance(value, str):
                if value in self._said:
                    continue
                self._said.add(value)
            kept[key] = self._compact(value, names=not names and key in ("properties", "$defs"))
        return kept


def _tool(name: str, schema: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Any]:
    about = str(schema.get("description", name))[:1024]
    asked = {key: rule for key, rule in schema.items() if key != "description"}
    properties = {REASON: {"type": "string", **why}, **schema.get("properties", {})}
    required = [REASON, *(one for one in schema.get("required", ()) if one != REASON)]
    parameters = {"type": "object", **asked, "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
