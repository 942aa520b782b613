"""Every form of a tool call: what is read back is what was written, or the call is not carried out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spectator.llm import call_forms, lenient_json
from spectator.llm.call_forms import FORMS, CallForm, read_calls_in
from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.llm.lenient_json import MAX_OBJECT, MAX_REPAIRED, MAX_TRIES, ObjectReader
from spectator.llm.tool_calls import CallRejected, ParsedCall, check_call, find_calls
from spectator.observations import LegalAction

DOCS = Path(__file__).parents[2] / "docs" / "captains.md"

PROPERTIES = {
    "text": {"type": "string"},
    "n": {"type": "integer"},
    "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "on": {"type": "boolean"},
    "list": {"type": "array"},
    "id": {"type": "object"},
}
LEGAL: list[LegalAction] = [
    {"tool": tool, "arguments": {"type": "object", "properties": PROPERTIES, "additionalProperties": False}}
    for tool in ("make_plan", "say")
]

Arguments = Mapping[str, Any]


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def call(tool: str, given: Arguments, name: str = "name", arguments: str = "arguments") -> dict[str, Any]:
    return {name: tool, arguments: given}


def in_python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def parameters(arguments: Arguments, form: str) -> str:
    return "".join(form.format(key=key, value=raw(value)) for key, value in arguments.items())


def dsml(name: str, arguments: Arguments) -> str:
    body = "".join(
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">{raw(value)}'
        "</｜DSML｜parameter>\n"
        for key, value in arguments.items()
    )
    invoked = f'<｜DSML｜invoke name="{name}">\n{body}</｜DSML｜invoke>'
    return f"<｜DSML｜function_calls>\n{invoked}\n</｜DSML｜function_calls>"


def gemma(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return f"[{','.join(map(gemma, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{gemma(member)}' for key, member in value.items())}}}"
    return as_json(value)


WRITERS: dict[str, Callable[[str, Arguments], str]] = {
    "DeepSeek V3, R1": lambda name, arguments: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{as_json(arguments)}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "DeepSeek V3.1": lambda name, arguments: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{as_json(arguments)}<｜tool▁call▁end｜>"
    ),
    "DeepSeek V3.2": dsml,
    "MiniMax M2, Step 3": lambda name, arguments: (
        f'<minimax:tool_call>\n<invoke name="{name}">\n'
        + parameters(arguments, '<parameter name="{key}">{value}</parameter>\n')
        + "</invoke>\n</minimax:tool_call>"
    ),
    "Qwen3-Coder, Seed-OSS, Nemotron 3": lambda name, arguments: (
        f"<tool_call>\n<function={name}>\n"
        + parameters(arguments, "<parameter={key}>\n{value}\n</parameter>\n")
        + "</function>\n</tool_call>"
    ),
    "Llama 3.1": lambda name, arguments: f"<function={name}>{as_json(arguments)}</function>",
    "GLM 4.5 to 4.7": lambda name, arguments: (
        f"<tool_call>{name}\n"
        + parameters(arguments, "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n")
        + "</tool_call>"
    ),
    "Kimi K2": lambda name, arguments: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
        f"{as_json(arguments)}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "gpt-oss (harmony)": lambda name, arguments: (
        "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>commentary"
        f" to=functions.{name} <|constrain|>json<|message|>{as_json(arguments)}<|call|>"
    ),
    "Mistral Small 3.2 and later": lambda name, arguments: (
        f"[TOOL_CALLS]{name}[ARGS]{as_json(arguments)}</s>"
    ),
    "Mistral": lambda name, arguments: f"[TOOL_CALLS] [{as_json(call(name, arguments))}]</s>",
    "Gemma 4, FunctionGemma": lambda name, arguments: (
        f"<|tool_call>call:{name}{gemma(arguments)}<tool_call|>"
    ),
    "Llama 4, Olmo 3, LFM2": lambda name, arguments: (
        f"<|python_start|>[{in_python(name, arguments)}]<|python_end|>"
    ),
    "Llama 3": lambda name, arguments: (
        f"<|python_tag|>{as_json(call(name, arguments, arguments='parameters'))}<|eom_id|>"
    ),
    "Qwen, Hermes, Granite 4": lambda name, arguments: (
        f"<tool_call>\n{as_json(call(name, arguments))}\n</tool_call>"
    ),
    "Granite 3": lambda name, arguments: f"<|tool_call|>[{as_json(call(name, arguments))}]",
    "Hunyuan, MiniMax M1, Nemotron": lambda name, arguments: (
        f"<tool_calls>\n{as_json(call(name, arguments))}\n</tool_calls>"
    ),
    "Cohere Command": lambda name, arguments: (
        "<|START_ACTION|>[\n"
        + as_json({"tool_call_id": "0", **call(name, arguments, name="tool_name", arguments="parameters")})
        + "\n]<|END_ACTION|>"
    ),
    "InternLM": lambda name, arguments: (
        f"<|action_start|><|plugin|>\n{as_json(call(name, arguments, arguments='parameters'))}<|action_end|>"
    ),
    "Phi-4": lambda name, arguments: f"functools[{as_json(call(name, arguments))}]",
    "Llama 3.2 (Pythonic)": lambda name, arguments: f"[{in_python(name, arguments)}]",
    "any": lambda name, arguments: as_json({"reason": "so", **call(name, arguments, name="tool")}),
}
"""How the models' own chat templates write a call."""

RAW = {"MiniMax M2, Step 3", "Qwen3-Coder, Seed-OSS, Nemotron 3", "GLM 4.5 to 4.7", "DeepSeek V3.2"}
"""Forms without escapes: a text that contains their own marks, or ends in line breaks, is ambiguous."""

REPAIRED = {form.models for form in FORMS if form.syntax == "calls"}
"""Forms whose missing brackets at the end of an answer are added, unless the answer was cut."""

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"]), max_size=12)
hostile = st.sampled_from([
    '"', "'", "’", "“a”", "\\", "\\'", "\n", "}", '{"tool": "say"}', "[say(n=1)]", "<tool_call>",
    '<tool_call>{"name": "say", "arguments": {}}</tool_call>', "[TOOL_CALLS]say{}", "</tool_call>",
    "// no", "/* no */", "a=1, b", "```",
])  # fmt: skip
words = st.lists(texts | hostile, max_size=3).map("".join)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
nested = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=6,
)
arguments_of_calls = st.fixed_dictionaries(
    {},
    optional={
        "text": words,
        "n": st.integers(),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "on": st.booleans(),
        "list": st.lists(nested, max_size=3),
        "id": st.dictionaries(st.sampled_from(["a", "name", "tool", "arguments"]), nested, max_size=3),
    },
)


def exactly(value: Any) -> str:
    """JSON in which 1 is not 1.0 and not true."""
    return json.dumps(value, sort_keys=True)


def written(form: CallForm, name: str, arguments: Arguments) -> str:
    return WRITERS[form.models](name, arguments)


def is_unambiguous(form: CallForm, arguments: Arguments) -> bool:
    if form.models == "Gemma 4, FunctionGemma":
        return '<|"|>' not in as_json(arguments)
    values = map(raw, arguments.values()) if form.models in RAW else ()
    return not any("</" in value or value[:1] == "\n" == value[-1:] for value in values)


def understood(text: str, finish_reason: str | None = "stop") -> list[ParsedCall]:
    """The calls that would be carried out."""
    calls = []
    for found in find_calls(ChatAnswer(text=text, finish_reason=finish_reason), LEGAL):
        try:
            calls.append(check_call(found, LEGAL))
        except CallRejected:
            continue
    return calls


forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.models)


@forms
def test_each_form_is_what_its_example_says(form: CallForm) -> None:
    assert form.models in WRITERS
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    legal: list[LegalAction] = [{"tool": "f", "arguments": schema}]
    [found] = find_calls(ChatAnswer(text=form.example), legal)
    assert check_call(found, legal) == ParsedCall("f", {"a": 1})


@forms
@settings(max_examples=50)
@given(arguments=arguments_of_calls)
def test_what_is_read_back_is_what_was_written(form: CallForm, arguments: Arguments) -> None:
    assume(is_unambiguous(form, arguments))
    [read] = understood(written(form, "make_plan", arguments))
    assert (read.tool, exactly(dict(read.arguments))) == ("make_plan", exactly(arguments))


@forms
@settings(max_examples=20)
@given(first=arguments_of_calls, second=arguments_of_calls)
def test_two_calls_keep_their_arguments(form: CallForm, first: Arguments, second: Arguments) -> None:
    assume(is_unambiguous(form, first) and is_unambiguous(form, second))
    text = f"{written(form, 'make_plan', first)}\n{written(form, 'say', second)}"
    assert [(read.tool, exactly(dict(read.arguments))) for read in understood(text)] == [
        ("make_plan", exactly(first)),
        ("say", exactly(second)),
    ]


WHOLE = {"text": 'half a "text", 1', "n": 125, "share": 0.75, "list": [{"a": 1}, "b"], "id": {"name": "say"}}


@forms
def test_a_cut_answer_has_no_call(form: CallForm) -> None:
    text = written(form, "make_plan", WHOLE)
    for end in range(len(text) + 1):
        assert understood(text[:end], "length") == [], text[:end]


@forms
def test_part_of_a_call_is_not_carried_out(form: CallForm) -> None:
    text = written(form, "make_plan", WHOLE)
    for end in range(len(text)):
        read = understood(text[:end])
        if form.models not in REPAIRED:
            assert read in ([], [ParsedCall("make_plan", WHOLE)]), text[:end]
        else:  # brackets may be added, nothing else
            for one in read:
                assert one.tool == "make_plan" and list(WHOLE)[: len(one.arguments)] == list(one.arguments)
                assert one.arguments.get("text", WHOLE["text"]) == WHOLE["text"]


@pytest.mark.parametrize(
    "text",
    [
        '<invoke name="make_plan"><parameter name="n" form="x">1</parameter></invoke>',
        '<invoke name="make_plan"><parameter name="n" string="false">one</parameter></invoke>',
        "<function=make_plan><parameter=n>1</parameter> and <parameter=on>true</parameter></function>",
        "<function=make_plan><parameter=n>1</parameter><parameter=n>2</parameter></function>",
        "<function=make_plan><parameter=n>1</function>",
        "<function=make_plan>n: 1</function>",
        "<tool_call>make_plan\n<arg_key>n</arg_key>\n<arg_value>1</tool_call>",
        '[TOOL_CALLS]make_plan[ARGS]{"n": 1, "n": 2}',
        '<|tool_call_begin|>make_plan<|tool_call_argument_begin|>{"n": 1, text: half',
        "<|python_start|>[make_plan(1)]<|python_end|>",
        "[make_plan(n=1, n=2)]",
        "[make_plan(n=f(1))]",
        "[make_plan(n=1",
        '{"tool": "make_plan", "n": 1, "arguments": {"on": true}}',
        '{"tool": "make_plan", "arguments": {"n": 1}, "parameters": {"on": true}}',
        '{"tool": "make_plan", "arguments": [{"tool": "say"}], bad json}',
        '{"tool": "make_plan", "arguments": {"n": 1, "list": [{"tool": "say"}',
        '{"make_plan": {"n": 1}, "on": true}',
    ],
)  # fmt: skip
def test_arguments_are_never_left_out(text: str) -> None:
    assert [one for one in understood(text) if one.arguments != {"n": 1, "list": [{"tool": "say"}]}] == []


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"tool": "make_plan", "id": {"a": 1}, "n": 1}', {"id": {"a": 1}, "n": 1}),
        ('{"tool": "make_plan", "arguments": "\\"{\\\\\\"n\\\\\\": 1}\\""}', {"n": 1}),
        ('{"function_call": {"name": "make_plan", "arguments": "{\\"n\\": 1}"}}', {"n": 1}),
        ("<tool_call>make_plan(n=1)</tool_call>", {"n": 1}),
        ("I go.\n```tool_code\nmake_plan(n=1, text='it’s \"so\"')\n```", {"n": 1, "text": 'it’s "so"'}),
        ("assistantcommentary to=functions.make_plan json{\"n\": 1}", {"n": 1}),
        ("{'tool': 'make_plan', 'arguments': {'n': 1, 'text': '“best”'}}", {"n": 1, "text": "“best”"}),
    ],
)  # fmt: skip
def test_further_ways_of_writing_a_call(text: str, arguments: Arguments) -> None:
    assert understood(text) == [ParsedCall("make_plan", arguments)]


@pytest.mark.parametrize(
    "name", ["functions.make_plan", "make_plan:0", "functions.make_plan:12", "Make-Plan"]
)
def test_a_name_with_a_prefix_or_a_counter_is_legal(name: str) -> None:
    answer = ChatAnswer(text="", tool_calls=[ToolCall("c", name, "{}")])
    assert check_call(find_calls(answer, LEGAL)[0], LEGAL).tool == "make_plan"


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('"{\\"n\\": 1}"', {"n": 1}),
        ('"\\"{\\\\\\"n\\\\\\": 1}\\""', {"n": 1}),
        ('{"n":1}{"n":2}', None),
        ("[1]", None),
        ('"one"', None),
        ('{"n": 1, "text": "half', None),
        ('{"text": "' + "x" * MAX_OBJECT + '"}', None),
    ],
)
def test_native_arguments_are_read_whole_or_not_at_all(arguments: str, read: Arguments | None) -> None:
    answer = ChatAnswer(text="", tool_calls=[ToolCall("c", "make_plan", arguments)])
    assert [one.arguments for one in find_calls(answer, LEGAL)] == [read]


def test_an_answer_in_the_thoughts_is_read_if_there_is_no_other() -> None:
    thought = 'Is {"tool": "say"} better? No.\n{"tool": "make_plan", "arguments": {"n": 1}}'
    for end, count in (("", 2), ("\n```</answer>", 2), (" Or not.", 0)):
        assert len(find_calls(ChatAnswer(text="", thought=thought + end), LEGAL)) == count
    assert find_calls(ChatAnswer(text="I pass.", thought=thought), LEGAL) == []
    assert find_calls(ChatAnswer(text="", thought=thought, finish_reason="length"), LEGAL) == []
    assert find_calls(ChatAnswer(text="", thought="make_plan"), LEGAL) == []


def test_a_call_after_a_long_text_is_read_and_one_in_a_runaway_is_not() -> None:
    call_at_end = '{"tool": "make_plan", "arguments": {"n": 1}}'
    assert understood("word {x} <b> " * 4_000 + call_at_end) == [ParsedCall("make_plan", {"n": 1})]
    assert understood(call_at_end + "word " * 20_000) == []


HOSTILE = {
    "objects": "<tool_call>{",
    "half objects": '<tool_call>{"a": {',
    "braces": "{a:",
    "strings": '{"a": "',
    "quotes": "{'",
    "comments": "{a: /*",
    "gemma": '<|tool_call>call:say{a:<|"|>',
    "python": "[say(",
    "marked python": "<|python_start|>[say((",
    "parameters": "<function=say><parameter=a>1</parameter>",
    "pairs": "<tool_call>say<arg_key>a</arg_key><arg_value>",
    "prefixes": "<a:a:a:",
    "channels": "to=functions.say json json ",
    "lists": "[TOOL_CALLS][[[",
    "spaces": "<tool_call>" + " " * 500,
    "one space": "<tool_call>" + " " * MAX_OBJECT,
    "names": "[" + "a" * 200,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("size", [MAX_OBJECT, 100_000])
def test_the_work_is_bounded(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that are repaired, objects and marks that are tried."""
    repaired, tries, marks = 0, 0, 0
    repair, read, match = lenient_json.repair, ObjectReader.read, call_forms._OPENING.match

    def counted_repair(text: str) -> str:
        nonlocal repaired
        repaired += len(text)
        return repair(text)

    def counted_read(reader: ObjectReader, start: int, *, unclosed: bool = False) -> Any:
        nonlocal tries
        tries += 1
        return read(reader, start, unclosed=unclosed)

    class Opening:
        def match(self, text: str, start: int) -> re.Match[str] | None:
            nonlocal marks
            marks += 1
            return match(text, start)

    monkeypatch.setattr(lenient_json, "repair", counted_repair)
    monkeypatch.setattr(ObjectReader, "read", counted_read)
    monkeypatch.setattr(call_forms, "_OPENING", Opening())
    text = (HOSTILE[name] * (size // len(HOSTILE[name]) + 1))[:size]
    read_calls_in(text, {"say"})
    assert repaired <= 2 * MAX_REPAIRED and tries <= 2 * MAX_TRIES + call_forms.MAX_MARKS and marks <= size
    assert size <= MAX_OBJECT or marks == 0


def test_the_documentation_lists_every_form() -> None:
    row = "| {} | `{}` |"
    rows = [row.format(form.models, form.example.replace("\n", "⏎").replace("|", "\\|")) for form in FORMS]
    page = DOCS.read_text(encoding="utf-8")
    table = page.partition("| models | a call of `f` with `a` = 1 |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows, "\n".join(rows)
