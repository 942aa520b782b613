"""Find tool calls in a model's answer: parse leniently, check strictly.

JSON objects are found inside prose and repaired if they are almost JSON. The run time is linear in the length
of the text, or bounded, because this runs on the event loop.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.errors import FailureClass
from spectator.events import encode_json
from spectator.json_values import json_encoder
from spectator.llm.chat import ChatAnswer
from spectator.llm.schema import MAX_DEPTH, coerce, first_violation
from spectator.observations import LegalAction
from spectator.text import clean_text

MAX_TEXT: Final = 16 * 1024
"""Characters that are searched; of a longer text, the beginning and the end."""

MAX_TRIES: Final = 32
"""Opening braces at which parsing is tried."""

_FENCE: Final = re.compile(r"```[a-zA-Z]*\n?")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|$)'  # a string, possibly not closed
    r"|'(?:[^'\\]|\\.)*+(?:'|$)"  # a Python string
    r"|//[^\n]*|/\*.*?(?:\*/|$)"  # comments
    r"|[A-Za-z_][\w.-]*+",  # a bare word
    re.DOTALL,
)
_STRING: Final = r'"(?:[^"\\]|\\.)*+(?:"|$)'
_SURPLUS_COMMA: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)
_STRUCTURE: Final = re.compile(_STRING + r"|[{}\[\]]", re.DOTALL)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_QUOTES: Final = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
_DECODER: Final = json.JSONDecoder()
_LENIENT: Final = json.JSONDecoder(strict=False)
"""Accepts line breaks and tabs inside strings."""


def shorten(text: str) -> str:
    """Return ``text``; of one longer than :data:`MAX_TEXT`, the beginning and the end."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


def find_objects(text: str, decoder: json.JSONDecoder = _DECODER) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in ``text``, in order, without repairs.

    Args:
        text: Text of a model.
        decoder: Decides what is JSON; default: strict JSON.

    >>> list(find_objects('I pull: {"shot": "pull"}. Or {"shot": "cut"}?'))
    [{'shot': 'pull'}, {'shot': 'cut'}]
    """
    position = 0
    for _ in range(MAX_TRIES):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            yield value


def find_repaired(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in ``text``, repaired from the first brace to the last.

    >>> list(find_repaired("I pull: {shot: 'pull', aggression: 0.7,"))
    [{'shot': 'pull', 'aggression': 0.7}]
    """
    start, end = text.find("{"), text.rfind("}")
    if start >= 0:
        yield from find_objects(repair(text[start : end + 1] if end > start else text[start:]), _LENIENT)


def parse_object(text: str, *, repairing: bool = True) -> dict[str, Any] | None:
    """Parse ``text`` as one JSON object, repaired if allowed; empty text gives ``{}``."""
    text = shorten(text)
    if not text.strip():
        return {}
    start = text.find("{")
    try:
        return _DECODER.raw_decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return next(find_repaired(text), None) if repairing else None


def repair(text: str) -> str:
    """Fix Python literals, comments, bare keys, commas and missing brackets."""
    text = _TOKEN.sub(_repair_token, _FENCE.sub("", text.translate(_QUOTES)))
    text += _missing_closings(text)
    return _SURPLUS_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)


def _repair_token(found: re.Match[str]) -> str:
    token = found[0]
    match token[0]:
        case '"':
            return token if len(token) > 1 and token.endswith('"') else f'{token}"'
        case "'":
            inner = token[1:].removesuffix("'").replace("\\'", "'").replace('"', '\\"')
            return f'"{inner}"'
        case "/":
            return ""
    if token in _WORDS:
        return _WORDS[token]
    return token if token in ("true", "false", "null") or _in_number(found) else f'"{token}"'


def _in_number(found: re.Match[str]) -> bool:
    """Whether the word is the exponent of a number, as in ``1e5``."""
    before = found.string[found.start() - 1 : found.start()]
    return before.isdigit() and found[0][0] in "eE"


def _missing_closings(text: str) -> str:
    closings: list[str] = []
    for token in _STRUCTURE.finditer(text):
        match token[0]:
            case "{":
                closings.append("}")
            case "[":
                closings.append("]")
            case "}" | "]":
                if closings:
                    closings.pop()
    return "".join(reversed(closings[:MAX_TRIES]))


MAX_ARGUMENTS: Final = 32_768
"""Maximum length of a call's arguments as JSON, characters; events cannot hold much larger actions."""

REASON: Final = "reason"
"""Member in which a model is asked to give its reason."""

_written: Final = json_encoder(item=", ", member=": ")
_REASONS: Final = (REASON, "reasoning", "rationale", "thought", "explanation")
_NAMES: Final = ("tool", "name", "tool_name", "action", "function")
_ARGUMENTS: Final = ("arguments", "args", "parameters", "params", "input")
_LISTS: Final = ("tool_calls", "actions", "calls", "plan")

_CALL: Final = re.compile(r"<tool_call>|<tool_use>")
_FUNCTION: Final = re.compile(
    r"<(?:function=|(?:invoke|tool|function) name=[\"']?)([\w.-]{1,64})[\"']?\s*/?>"
)
_PARAMETER: Final = re.compile(
    r"<(?:parameter=|parameter name=[\"']?)([\w.-]{1,64})[\"']?>"
    r"|<(?!/)([A-Za-z_][\w-]{0,63})>"
)


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

    An answer that was cut at its maximum length is not repaired: half a number is another number.

    >>> schema = {"type": "object", "properties": {"mass": {"type": "number"}}}
    >>> legal = [{"tool": "claim", "arguments": schema}]
    >>> answer = ChatAnswer(text="I am sure. {'tool': 'claim', 'arguments': {'mass': '125.3'}}")
    >>> [call] = find_calls(answer, legal)
    >>> call.tool, call.arguments
    ('claim', {'mass': '125.3'})
    """
    whole = answer.finish_reason != "length"
    if answer.tool_calls:
        return [
            WrittenCall(
                call.name, parse_object(call.arguments, repairing=whole), id=call.id, verbatim=call.verbatim
            )
            for call in answer.tool_calls
        ]
    names = {action["tool"] for action in legal}
    text = shorten(answer.text)
    if not whole:
        return list(_from_values(find_objects(text), names))
    tagged = list(_in_tags(text, names)) if "<" in text else []
    return tagged or list(_in_json(text, names)) or list(_bare_name(text, names))


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
        rule = f"the arguments of {action['tool']} are not a JSON object"
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
    plain = name.strip().strip("`\"'").rpartition(".")[2].casefold().replace("-", "_")
    for action in legal:
        if plain == action["tool"].casefold():
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


def _in_tags(text: str, names: Iterable[str]) -> Iterator[WrittenCall]:
    """Yield calls in ``<tool_call>``, ``<function=...>`` or ``<invoke name=...>``."""
    blocks = list(_between(text, _CALL, ("</tool_call>", "</tool_use>")))
    for _, block in blocks:
        yield from _in_functions(block) if _FUNCTION.search(block) else _in_json(block, names)
    if not blocks:
        yield from _in_functions(text)


def _in_functions(text: str) -> Iterator[WrittenCall]:
    for opening, body in _between(text, _FUNCTION, ("</function>", "</invoke>", "</tool>")):
        arguments: dict[str, Any] = {}
        for parameter, value in _between(body, _PARAMETER, ("</",)):
            arguments[parameter[1] or parameter[2]] = value.strip()
        written = arguments or parse_object(body)
        yield WrittenCall(opening[1], written if written is not None else {})


def _between(
    text: str, opening: re.Pattern[str], closings: Sequence[str]
) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the text from each ``opening`` to a closing, the next opening or the end."""
    openings = list(opening.finditer(text))
    for number, found in enumerate(openings):
        after = openings[number + 1].start() if number + 1 < len(openings) else len(text)
        body = text[found.end() : after]
        ends = [end for closing in closings if (end := body.find(closing)) >= 0]
        yield found, body[: min(ends)] if ends else body


def _in_json(text: str, names: Iterable[str]) -> Iterator[WrittenCall]:
    yield from list(_from_values(find_objects(text), names)) or _from_values(find_repaired(text), names)


def _from_values(values: Iterable[Any], names: Iterable[str]) -> Iterator[WrittenCall]:
    known = set(names)
    for value in values:
        yield from _from_value(value, known, "")


def _from_value(value: Any, names: set[str], reason: str, depth: int = 0) -> Iterator[WrittenCall]:
    """Yield the calls that a decoded object represents, in any of the usual shapes."""
    if not isinstance(value, dict) or depth > 3:
        return
    reason = _stated_reason(value) or reason
    if isinstance(function := value.get("function"), dict):
        yield from _from_value(function, names, reason, depth + 1)
        return
    for key in _LISTS:
        if isinstance(steps := value.get(key), list):
            for step in steps:
                yield from _from_value(step, names, reason, depth + 1)
            return
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if name is not None:
        yield WrittenCall(name, _arguments(value), reason)
    elif len(value) <= 2:
        for key, inner in value.items():
            if key in names and (inner is None or isinstance(inner, dict)):
                yield WrittenCall(key, inner or {}, reason)


def _arguments(value: dict[str, Any]) -> Mapping[str, Any] | None:
    for key in _ARGUMENTS:
        if key in value:
            given = value[key]
            if isinstance(given, str):
                return parse_object(given)
            return {} if given is None else given if isinstance(given, dict) else None
    others = (*_NAMES, *_REASONS, "type", "id")
    return {key: member for key, member in value.items() if key not in others}


def _stated_reason(value: Mapping[str, Any]) -> str:
    return next((value[key].strip() for key in _REASONS if isinstance(value.get(key), str)), "")


def _bare_name(text: str, names: Iterable[str]) -> Iterator[WrittenCall]:
    """Yield a call without arguments if the last line is only a tool's name."""
    lines = text.strip().splitlines()
    word = lines[-1].strip().strip("`*\"'.()[]{} ") if lines else ""
    if word in set(names):
        yield WrittenCall(word, {})


def written_form(answer: ChatAnswer) -> str:
    """Return everything the model wrote except its thoughts, as one text for display."""
    calls = [_written({"tool": call.name, "arguments": call.arguments}) for call in answer.tool_calls]
    return "\n".join([part for part in (answer.text, answer.refusal or "", *calls) if part])
