"""The actions of an episode as a model is told them: all at the beginning, then what is legal now."""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spectator.events import encode_json
from spectator.llm.chat import SettledTools
from spectator.llm.parsing import REASON
from spectator.observations import LegalAction
from spectator.policies.prompting import WHY

LEGAL_NOW: Final = "legal now"
"""Name of the line that lists what is legal."""

_WITHOUT_REFERENCES: Final = 2
"""The newest version of ``marshal`` whose bytes depend on nothing but the value."""

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
        if not new:
            return {}
        lesson = None if self._known else _first_lesson(new)
        if lesson is None:
            told = {action["tool"]: _compact(action["arguments"], self._said) for action in new}
            self._tools, texts = None, {name: encode_json(schema) for name, schema in told.items()}
        else:
            told, texts = lesson.told, lesson.texts
            self._tools, self._said = lesson.tools, set(lesson.said)
        self._known |= {action["tool"]: action["arguments"] for action in new}
        self._told |= told
        self._listed += [f"- {name} {schema}" for name, schema in texts.items()]
        return {f"action {name}": schema for name, schema in texts.items()}

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
            self._tools = _as_tools(self._told)
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


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What the first actions of an episode come to; the same in all episodes of a world, as a rule.

    Args:
        told: Their schemas as they are told.
        texts: The same as JSON.
        said: Descriptions that were given.
        tools: All of them in the endpoint's form, and its characters.
    """

    told: dict[str, Any]
    texts: dict[str, str]
    said: frozenset[str]
    tools: tuple[SettledTools, int]


def _first_lesson(actions: Sequence[LegalAction]) -> _Lesson | None:
    """What they come to where nothing was known before; ``None`` where they are not plain JSON."""
    plain: Any = [[action["tool"], action["arguments"]] for action in actions]
    try:
        return _lesson_of(marshal.dumps(plain, _WITHOUT_REFERENCES))
    except ValueError:  # some class of its own
        return None


@lru_cache(maxsize=64)
def _lesson_of(mark: bytes) -> _Lesson:
    said: set[str] = set()
    told = {name: _compact(arguments, said) for name, arguments in marshal.loads(mark)}
    texts = {name: encode_json(schema) for name, schema in told.items()}
    return _Lesson(told, texts, frozenset(said), _as_tools(told))


def _as_tools(told: Mapping[str, Mapping[str, Any]]) -> tuple[SettledTools, int]:
    made = SettledTools(
        _tool(name, schema, {"description": WHY} if place == 0 else {})
        for place, (name, schema) in enumerate(told.items())
    )
    return made, len(encode_json(made))


def _compact(node: Any, said: set[str], *, names: bool = False) -> Any:
    """A schema without noise and without descriptions that were ``said`` before."""
    if isinstance(node, list):
        return [_compact(item, said) for item in node]
    if not isinstance(node, Mapping):
        return node
    kept = {}
    for key, value in node.items():
        if not names and key in _NOISE:
            continue
        if not names and key == "description" and isinstance(value, str):
            if value in said:
                continue
            said.add(value)
        kept[key] = _compact(value, said, names=not names and key in ("properties", "$defs"))
    return kept


def _tool(name: str, schema: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Any]:
    about = str(schema.get("description", name))[:1024]
    asked = {key: rule for key, rule in schema.items() if key != "description"}
    properties = {REASON: {"type": "string", **why}, **schema.get("properties", {})}
    required = [REASON, *(one for one in schema.get("required", ()) if one != REASON)]
    parameters = {"type": "object", **asked, "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
