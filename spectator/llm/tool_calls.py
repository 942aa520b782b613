"""Find tool calls in a model's answer: parse leniently, check strictly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.errors import FailureClass
from spectator.events import encode_json
from spectator.json_values import json_encoder
from spectator.llm.call_forms import FoundCall, read_calls_in
from spectator.llm.chat import ChatAnswer
from spectator.llm.faults import CUT_REASONS
from spectator.llm.lenient_json import parse_object
from spectator.llm.schema import MAX_DEPTH, coerce, first_violation
from spectator.observations import LegalAction
from spectator.text import clean_text

MAX_TEXT: Final = 16 * 1024
"""Maximum length of a text argument."""

MAX_ARGUMENTS: Final = 32_768
"""Maximum length of a call's arguments as JSON, characters; events cannot hold much larger actions."""

REASON: Final = "reason"
"""Member in which a model is asked to give its reason."""

_written: Final = json_encoder(item=", ", member=": ")
_REASONS: Final = (REASON, "reasoning", "rationale", "thought", "explanation")
_NAMES: Final = ("tool", "name", "tool_name", "action", "function")
_ABOUT: Final = ("type", "id", "index", "tool_call_id")
_ARGUMENTS: Final = ("arguments", "args", "parameters", "params", "input")
_NESTED: Final = ("function", "function_call")
_LISTS: Final = ("tool_calls", "actions", "calls", "plan")
_COUNTER: Final = re.compile(r":\d+$")
_MARK: Final = re.compile(r"<[^<>]{1,40}>")

Known = Mapping[str, Mapping[str, Any]]
"""Properties of the arguments of each legal tool."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call found in an answer, not yet checked.

    Args:
        tool: The tool's name as written.
        arguments: The arguments as written; ``None`` if they are not an object.
        reason: The model's reason.
        id: The endpoint's id; empty for calls found in text.
        verbatim: See :class:`spectator.llm.chat.ToolCall`.
    """

    tool: str
    arguments: Mapping[str, Any] | None
    reason: str = ""
    id: str = ""
    verbatim: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call of a legal tool with valid arguments.

    Args:
        tool: Name of a legal tool.
        arguments: Arguments that fit its schema.
        reason: The model's reason.
        id: See :class:`WrittenCall`.
        verbatim: See :class:`WrittenCall`.
    """

    tool: str
    arguments: Mapping[str, Any]
    reason: str = ""
    id: str = ""
    verbatim: Mapping[str, Any] = field(default_factory=dict)


class CallRejected(ValueError):
    """A call breaks a rule.

    Args:
        rule: The rule; the error's message.
        failure_class: The kind of failure.
    """

    def __init__(self, rule: str, *, failure_class: FailureClass = "illegal_action") -> None:
        self.failure_class: FailureClass = failure_class
        super().__init__(rule)


def find_calls(answer: ChatAnswer, legal: Sequence[LegalAction]) -> list[WrittenCall]:
    """Return the native tool calls of ``answer``, otherwise those in its text.

    Thoughts are only read if there is nothing else and they end with a call. An answer that was cut at its
    maximum length has no calls that can be carried out: half a number is another number.

    >>> schema = {"type": "object", "properties": {"mass": {"type": "number"}}}
    >>> legal = [{"tool": "claim", "arguments": schema}]
    >>> answer = ChatAnswer(text="I am sure. {'tool': 'claim', 'arguments': {'mass': '125.3'}}")
    >>> [call] = find_calls(answer, legal)
    >>> call.tool, call.arguments
    ('claim', {'mass': '125.3'})
    """
    cut = answer.finish_reason in CUT_REASONS
    if answer.tool_calls:
        return [
            WrittenCall(
                call.name, None if cut else parse_object(call.arguments), id=call.id, verbatim=call.verbatim
            )
            for call in answer.tool_calls
        ]
    if cut:
        return []
    known = {action["tool"]: action["arguments"].get("properties", {}) for action in legal}
    if answer.text or answer.refusal:
        found, marked = read_calls_in(answer.text, known)
        return list(_calls(found, known)) if found or marked else _last_line(answer.text, known)
    found, _ = read_calls_in(answer.thought, known)
    ends = bool(found) and not re.search(r"\w", _MARK.sub("", answer.thought[found[-1].end :]))
    return list(_calls(found, known)) if ends else []


def check_call(written: WrittenCall, legal: Sequence[LegalAction]) -> ParsedCall:
    """Check a call against the legal tools, and return it with converted arguments.

    Raises:
        CallRejected: It breaks a rule.
        UnsupportedSchema: The world's schema uses an unsupported keyword.
    """
    action = _legal(written.tool, legal)
    if action is None:
        known = ", ".join(action["tool"] for action in legal)
        raise CallRejected(f"{written.tool[:60]!r} is not legal now; legal: {known}")
    if written.arguments is None:
        rule = f"the arguments of {action['tool']} are not a JSON object that is complete and unambiguous"
        raise CallRejected(rule, failure_class="unparsable")
    schema = action["arguments"]
    arguments = coerce(dict(written.arguments), schema)
    reason, arguments = _take_reason(_plain(arguments), schema)
    if not _surely_short(arguments) and len(encode_json(arguments)) > MAX_ARGUMENTS:
        raise CallRejected(f"{action['tool']}: the arguments have more than {MAX_ARGUMENTS} characters")
    broken = first_violation(arguments, schema)
    if broken is not None:
        raise CallRejected(f"{action['tool']}: {broken}")
    return ParsedCall(action["tool"], arguments, written.reason or reason, written.id, written.verbatim)


def _surely_short(arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments are a few short texts and numbers, surely allowed."""
    return len(arguments) <= 8 and all(
        len(name) < 100 and (isinstance(value, float) or (isinstance(value, str) and len(value) < 500))
        for name, value in arguments.items()
    )


def unchecked_call(written: WrittenCall) -> ParsedCall:
    """Return a call, legal or not, without arguments that cannot be encoded."""
    try:
        arguments = _plain(dict(written.arguments or {}))
    except CallRejected:
        arguments = {}
    tool = clean_text(written.tool, MAX_TEXT)
    return ParsedCall(tool, arguments, written.reason, written.id, written.verbatim)


def _plain(value: Any, depth: int = 0) -> Any:
    """Return ``value`` with encodable texts, after checking numbers and nesting.

    Raises:
        CallRejected: A number is not finite, or the nesting is too deep.
    """
    if depth > MAX_DEPTH:
        raise CallRejected(f"the arguments are nested more than {MAX_DEPTH} deep")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise CallRejected(f"a text in the arguments has more than {MAX_TEXT} characters")
        return clean_text(value, MAX_TEXT)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallRejected("the arguments hold a number that is not finite")
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain(name, depth + 1): _plain(member, depth + 1) for name, member in value.items()}
    return value


def _legal(name: str, legal: Sequence[LegalAction]) -> LegalAction | None:
    for action in legal:
        if name == action["tool"]:
            return action
    plain = _COUNTER.sub("", name.strip().strip("`\"'")).removeprefix("functions.")
    for wanted in (plain, plain.rpartition(".")[2]):
        for action in legal:
            if wanted.casefold().replace("-", "_") == action["tool"].casefold().replace("-", "_"):
                return action
    return None


def _take_reason(arguments: dict[str, Any], schema: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Remove the reason from the arguments, unless the schema has such an argument."""
    properties = schema.get("properties", {})
    for name in _REASONS:
        if name in arguments and name not in properties and isinstance(arguments[name], str):
            rest = {key: value for key, value in arguments.items() if key != name}
            return arguments[name], rest
    return "", arguments


def _calls(found: Iterable[FoundCall], known: Known) -> Iterator[WrittenCall]:
    for one in found:
        if one.name is None:
            yield from _in_value(one.value, known, "")
        else:
            yield WrittenCall(one.name, one.value)


def _in_value(value: Any, known: Known, reason: str, depth: int = 0) -> Iterator[WrittenCall]:
    """Yield the calls that a decoded object represents, in any of the usual shapes."""
    if not isinstance(value, dict) or depth > 3:
        return
    reason = _stated_reason(value) or reason
    nested = next((value[key] for key in _NESTED if isinstance(value.get(key), dict)), None)
    if nested is not None:
        yield from _in_value(nested, known, reason, depth + 1)
        return
    key = next((key for key in _NAMES if isinstance(value.get(key), str)), None)
    steps = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
    if key is not None and (steps is None or value[key] in known):
        yield WrittenCall(value[key], _arguments(value, key, known.get(value[key], {})), reason)
    elif steps is not None:
        for step in steps:
            yield from _in_value(step, known, reason, depth + 1)
    elif known.keys() | set(_REASONS) >= value.keys():
        for name, inner in value.items():
            if name in known and (inner is None or isinstance(inner, dict)):
                yield WrittenCall(name, inner or {}, reason)


def _arguments(value: Mapping[str, Any], key: str, properties: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the arguments of a call whose name is at ``key``; ``None`` if some may be lost."""
    given = [name for name in _ARGUMENTS if name in value and name not in properties]
    others = {
        name: member
        for name, member in value.items()
        if name != key and name not in given and (name in properties or name not in (*_REASONS, *_ABOUT))
    }
    if not given:
        return others
    if len(given) > 1 or not properties.keys().isdisjoint(others):
        return None
    arguments = value[given[0]]
    if isinstance(arguments, str):
        return parse_object(arguments)
    return {} if arguments is None else arguments if isinstance(arguments, dict) else None


def _stated_reason(value: Mapping[str, Any]) -> str:
    return next((value[key].strip() for key in _REASONS if isinstance(value.get(key), str)), "")


def _last_line(text: str, known: Known) -> list[WrittenCall]:
    """Return the call whose name is all that the last line says, or that it writes in Python."""
    lines = text.rstrip("`*\"'. \n").rsplit("\n", 1)
    line = lines[-1].lstrip("`*\"' ").removesuffix("()")
    if line in known:
        return [WrittenCall(line, {})]
    found, _ = read_calls_in(f"[{line}]", known) if line.endswith(")") else ([], False)
    return list(_calls(found, known))


def written_form(answer: ChatAnswer) -> str:
    """Return everything the model wrote except its thoughts, as one text for display."""
    calls = [_written({"tool": call.name, "arguments": call.arguments}) for call in answer.tool_calls]
    return "\n".join([part for part in (answer.text, answer.refusal or "", *calls) if part])
