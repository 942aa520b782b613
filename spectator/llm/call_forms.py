"""The forms in which models write tool calls into their text, as one table, and its reader.

A form is found by its opening mark. Its arguments have one of a few syntaxes. They are read only if they are
complete and unambiguous; otherwise they are ``None``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from spectator.llm.lenient_json import ObjectReader, parse_object

Syntax = Literal["calls", "object", "parameters", "python"]
"""What follows a mark.

``calls``: JSON objects, each a call with its name. ``object``: the arguments as a JSON object.
``parameters``: each argument in marks of its own. ``python``: calls in Python's syntax.
"""

MAX_MARKS: Final = 64
"""Opening marks in a text; a text with more is not read."""

MAX_CLOSINGS: Final = 16
"""Closing marks that an argument may contain; one with more is not read."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One form of a tool call.

    Args:
        models: Models that write it.
        example: A call of ``f`` with the argument ``a`` = 1.
        opening: Regular expression of its opening mark; ``NAME`` stands for the tool's name.
        syntax: What follows the mark.
        marked: Whether the mark occurs in calls only, so that the call precedes unmarked ones.
    """

    models: str
    example: str
    opening: str
    syntax: Syntax
    marked: bool = True


_PREFIX: Final = r"(?:｜DSML｜\s?|[\w-]{1,16}:)?"
_QUOTED: Final = r"[\"']?NAME[\"']?"

FORMS: Final = (
    CallForm(
        "DeepSeek V3, R1",
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>',
        r"<｜tool▁call▁begin｜>\s*+function\s*+<｜tool▁sep｜>\s*+NAME(?=\s)",
        "object",
    ),
    CallForm(
        "DeepSeek V3.1",
        '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>',
        r"<｜tool▁call▁begin｜>\s*+NAME\s*+<｜tool▁sep｜>",
        "object",
    ),
    CallForm(
        "DeepSeek V3.2",
        '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>'
        "</｜DSML｜invoke>",
        rf"<｜DSML｜\s?invoke\s++name={_QUOTED}\s*+>",
        "parameters",
    ),
    CallForm(
        "MiniMax M2, Step 3",
        '<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>',
        rf"<(?:[\w-]{{1,16}}+:)?(?:invoke|tool|function)\s++name={_QUOTED}\s*+>",
        "parameters",
    ),
    CallForm(
        "Qwen3-Coder, Seed-OSS, Nemotron 3",
        "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
        rf"<function={_QUOTED}\s*+>",
        "parameters",
    ),
    CallForm("Llama 3.1", '<function=f>{"a": 1}</function>', rf"<function={_QUOTED}\s*+>", "parameters"),
    CallForm(
        "GLM 4.5 to 4.7",
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        r"<tool_call>\s*+NAME(?=\s*+(?:<arg_key>|</tool_call>))",
        "parameters",
    ),
    CallForm(
        "Kimi K2",
        '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
        r"<\|tool_call_begin\|>\s*+NAME\s*+<\|tool_call_argument_begin\|>",
        "object",
    ),
    CallForm(
        "gpt-oss (harmony)",
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
        r"(?<=to)=functions\.NAME(?:\s|json|code|commentary|<\|(?:channel|constrain|message)\|>){0,12}(?=[{\"])",
        "object",
    ),
    CallForm(
        "Mistral Small 3.2 and later",
        '[TOOL_CALLS]f[ARGS]{"a": 1}',
        r"\[TOOL_CALLS\]\s*+NAME(?:\[CALL_ID\][\w-]{1,64})?(?:\[ARGS\])?(?=\s*+\{)",
        "object",
    ),
    CallForm("Mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]', r"\[TOOL_CALLS\]", "calls"),
    CallForm(
        "Gemma 4, FunctionGemma",
        "<|tool_call>call:f{a:1}<tool_call|>",
        r"(?:<\|tool_call>|<start_function_call>)\s*+call:NAME(?=\{)",
        "object",
    ),
    CallForm(
        "Llama 4, Olmo 3, LFM2",
        "<|python_start|>[f(a=1)]<|python_end|>",
        r"<(?:\|python_start\||\|tool_call_start\||\|python_tag\||function_calls|tool_call)>\s*+\[?\s*+NAME(?=\()",
        "python",
    ),
    CallForm("Llama 3", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}', r"<\|python_tag\|>", "calls"),
    CallForm(
        "Qwen, Hermes, Granite 4",
        '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
        r"<(?:tool_call|tool_use|function_call)>",
        "calls",
    ),
    CallForm("Granite 3", '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]', r"<\|tool_call\|>", "calls"),
    CallForm(
        "Hunyuan, MiniMax M1, Nemotron",
        '<tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls>',
        r"<(?:tool_calls|TOOLCALL)>",
        "calls",
    ),
    CallForm(
        "Cohere Command",
        '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
        r"<\|START_ACTION\|>",
        "calls",
    ),
    CallForm(
        "InternLM",
        '<|action_start|><|plugin|>{"name": "f", "parameters": {"a": 1}}<|action_end|>',
        r"<\|action_start\|>\s*+<\|plugin\|>",
        "calls",
    ),
    CallForm("Phi-4", 'functools[{"name": "f", "arguments": {"a": 1}}]', r"(?<=functools)\[", "calls"),
    CallForm("Llama 3.2 (Pythonic)", "[f(a=1)]", r"\[\s*+NAME(?=\()", "python", marked=False),
    CallForm(
        "any",
        '{"tool": "f", "arguments": {"a": 1}}',
        r"\{(?=\s*+(?:[\"'\u201c\u201d\u2018}]|[A-Za-z_][\w-]*+\s*+:))",
        "calls",
        marked=False,
    ),
)
"""Every form; of several that fit at one place, the first is taken."""

_NAME: Final = r"[\w./:-]{1,80}+"
_START: Final = re.compile(r"[<\[{=]")
_OPENING: Final = re.compile(
    "|".join(
        f"(?P<form{number}>{form.opening.replace('NAME', f'(?P<name{number}>{_NAME})')})"
        for number, form in enumerate(FORMS)
    )
)
_NAMED: Final = _OPENING.groupindex.keys()
_BETWEEN: Final = re.compile(r"(?:[\s,;\[\]]|```(?:json)?)*+")
_SPACE: Final = re.compile(r"\s*+(?:```(?:json)?\s*+)?")
_CALL: Final = re.compile(rf"({_NAME})(?=\()")

_PARAMETER: Final = re.compile(
    rf"\s*+(?:<(?P<prefix>{_PREFIX})parameter(?:=|\s++name=)[\"']?(?P<tag>[\w.-]{{1,64}})[\"']?"
    r"(?:\s++string=[\"']?(?P<string>true|false)[\"']?)?\s*+>"
    r"|<arg_key>\s*+(?P<pair>[^<>]{1,64}?)\s*+</arg_key>\s*+<arg_value>"
    r"|<(?P<child>[A-Za-z_][\w-]{0,63})>)"
)
_LAST: Final = re.compile(rf"\s*+</{_PREFIX}(?:function|invoke|tool|tool_call|tool_use)>")


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call found in a text.

    Args:
        name: The tool's name as written; ``None`` if it is in ``value``.
        value: The arguments, or the whole call; ``None`` if they are incomplete or ambiguous.
        end: Where it ends.
    """

    name: str | None
    value: Mapping[str, Any] | None
    end: int


def read_calls_in(text: str, names: Collection[str]) -> tuple[list[FoundCall], bool]:
    """Return the calls in ``text``, in order: the marked ones, else the others.

    Args:
        text: What the model wrote.
        names: Names of the legal tools; unmarked Python is a call only with one of them.

    Returns:
        The calls, and whether there is a mark.

    >>> [found], marked = read_calls_in('[TOOL_CALLS]say[ARGS]{"text": "hi"}', ())
    >>> found.name, found.value, marked
    ('say', {'text': 'hi'}, True)
    """
    reader = ObjectReader(text)
    marked: list[FoundCall] = []
    unmarked: list[FoundCall] = []
    marks = position = unreadable_to = 0
    while not reader.exhausted and (start := _START.search(text, position)) is not None:
        position = start.end()
        opening = _OPENING.match(text, start.start())
        if opening is None or opening.lastgroup is None:
            continue
        number = opening.lastgroup.removeprefix("form")
        form, at = FORMS[int(number)], opening.end()
        name = opening[f"name{number}"] if f"name{number}" in _NAMED else None
        if form.marked:
            marks += 1
            if marks > MAX_MARKS:
                return [], True
        elif start.start() < unreadable_to or (name is not None and name not in names):
            continue  # part of something unreadable is not a call
        else:
            at = start.start() if name is None else at
        found = list(_READERS[form.syntax](reader, name, at))
        position = max(position, at)
        if found and found[-1].value is not None:
            position = found[-1].end
        elif found:
            unreadable_to = max(unreadable_to, found[-1].end)
        if form.syntax == "calls" or not form.marked:
            found = [one for one in found if one.value is not None]
        (marked if form.marked else unmarked).extend(found)
    return ([] if reader.exhausted else marked or unmarked), marks > 0


def _read_calls(reader: ObjectReader, name: str | None, at: int) -> Iterator[FoundCall]:
    found = _BETWEEN.match(reader.text, at)
    while found is not None and reader.text.startswith("{", found.end()):
        value, end = reader.read(found.end(), unclosed=True)
        yield FoundCall(None, value, end)
        if value is None:
            return
        found = _BETWEEN.match(reader.text, end)


def _read_object(reader: ObjectReader, name: str | None, at: int) -> Iterator[FoundCall]:
    space = _SPACE.match(reader.text, at)
    start = at if space is None else space.end()
    if reader.text.startswith("{", start):
        value, end = reader.read(start)
        yield FoundCall(name, value, end)
        return
    try:
        text, end = json.JSONDecoder().raw_decode(reader.text, start)
    except (ValueError, RecursionError):
        yield FoundCall(name, None, start)
    else:
        twice = parse_object(text) if isinstance(text, str) and text.strip() else None
        yield FoundCall(name, twice, end)


def _read_parameters(reader: ObjectReader, name: str | None, at: int) -> Iterator[FoundCall]:
    text, arguments, count = reader.text, dict[str, Any](), 0
    space = _SPACE.match(text, at)
    if space is not None and text.startswith("{", space.end()):
        yield from _read_object(reader, name, at)
        return
    while (opening := _PARAMETER.match(text, at)) is not None:
        key = opening["tag"] or opening["pair"] or opening["child"]
        closing = f"</{opening['child']}>" if opening["child"] else "</arg_value>"
        if opening["tag"]:
            closing = f"</{opening['prefix']}parameter>"
        end = text.find(closing, opening.end())
        tries = 0
        while end >= 0 and tries <= MAX_CLOSINGS and not _follows_a_value(text, end + len(closing)):
            end, tries = text.find(closing, end + 1), tries + 1
        if end < 0 or tries > MAX_CLOSINGS:
            yield FoundCall(name, None, at)
            return
        at, count = end + len(closing), count + 1
        try:
            arguments[key] = _value(text[opening.end() : end], opening["string"])
        except (ValueError, RecursionError):
            count = -1
            break
    last = _LAST.match(text, at)
    complete = last is not None and count == len(arguments)
    yield FoundCall(name, arguments if complete else None, at if last is None else last.end())


def _follows_a_value(text: str, at: int) -> bool:
    return _PARAMETER.match(text, at) is not None or _LAST.match(text, at) is not None


def _value(text: str, is_string: str | None) -> Any:
    """Return an argument's value; without a statement of its type, as text for the schema to convert."""
    if is_string == "true":
        return text
    if is_string == "false":
        return json.loads(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "\n" else text


def _read_python(reader: ObjectReader, name: str | None, at: int) -> Iterator[FoundCall]:
    while name is not None:
        value, end = reader.read_keywords(at)
        yield FoundCall(name, value, end)
        between = _BETWEEN.match(reader.text, end)
        call = None if between is None or value is None else _CALL.match(reader.text, between.end())
        name, at = (None, end) if call is None else (call[1], call.end())


_READERS: Final = {
    "calls": _read_calls,
    "object": _read_object,
    "parameters": _read_parameters,
    "python": _read_python,
}
