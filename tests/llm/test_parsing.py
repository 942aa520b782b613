"""What models write is read leniently, judged strictly, and can neither stall nor poison the episode."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.events import encode_json
from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.llm.lenient_json import ObjectReader, parse_object, repair
from spectator.llm.tool_calls import (
    MAX_TEXT,
    CallRejected,
    ParsedCall,
    WrittenCall,
    check_call,
    find_calls,
    written_form,
)
from spectator.observations import LegalAction

LEGAL: tuple[LegalAction, ...] = (
    {
        "tool": "plan_shot",
        "arguments": {
            "type": "object",
            "properties": {
                "shot": {"type": "string", "enum": ["pull", "cut"]},
                "aggression": {"type": "number", "minimum": 0, "maximum": 1},
                "note": {"type": "string"},
            },
            "additionalProperties": False,
        },
    },
    {
        "tool": "play_delivery",
        "arguments": {"type": "object", "properties": {}, "additionalProperties": False},
    },
)


def understood(text: str) -> list[ParsedCall]:
    return [check_call(call, LEGAL) for call in find_calls(ChatAnswer(text=text), LEGAL)]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}',
        '{"name": "plan_shot", "parameters": {"shot": "pull", "aggression": 0.7}}',
        '{"action": "plan_shot", "args": {"shot": "pull", "aggression": 0.7}}',
        '{"tool": "plan_shot", "shot": "pull", "aggression": 0.7}',
        '{"plan_shot": {"shot": "pull", "aggression": 0.7}}',
        '{"tool": "plan_shot", "arguments": "{\\"shot\\": \\"pull\\", \\"aggression\\": 0.7}"}',
        '{"type": "function",'
        ' "function": {"name": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}}',
        '{"tool_calls": [{"name": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}]}',
        '[{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}]',
        'Right.\n```json\n{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}\n```\nGo!',
        "{'tool': 'plan_shot', 'arguments': {'shot': 'pull', 'aggression': 0.7}}",
        '{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7,},} // short ball',
        '{"tool": "plan_shot", // one\n "arguments": {"shot": "pull", /* two */ "aggression": 0.7}}',
        '{tool: "plan_shot", arguments: {shot: "pull", aggression: 0.7}}',
        '{"tool": "plan_shot", "id": "one\ntwo\t", "arguments": {"shot": "pull", "aggression": 0.7}}',
        '{"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7',
        "{“tool”: “plan_shot”, “arguments”: {“shot”: “pull”, “aggression”: 0.7}}",
        '{"tool": "PLAN-SHOT", "arguments": {"shot": "Pull", "aggression": "0.7", "note": null}}',
        '{"tool": "functions.plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}',
        'if {x} then {"tool": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}',
        '<tool_call>\n{"name": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}\n</tool_call>',
        '<tool_call>{"name": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}}',
        '<tool_call>{"name": "plan_shot", "arguments": {"shot": "pull", "aggression": 0.7}\n</tool_call>',
        "<function=plan_shot><parameter=shot>\npull\n</parameter><parameter=aggression>0.7</parameter></function>",
        '<invoke name="plan_shot"><parameter name="shot">pull</parameter>'
        '<parameter name="aggression">0.7</parameter></invoke>',
        '<tool name="plan_shot"><shot>pull</shot><aggression>0.7</aggression></tool>',
        "<tool_call><function=plan_shot><parameter=shot>pull</parameter>"
        "<parameter=aggression>0.7</parameter></function></tool_call>",
    ],
)
def test_every_usual_way_of_writing_a_call_is_understood(text: str) -> None:
    assert understood(text) == [ParsedCall("plan_shot", {"shot": "pull", "aggression": 0.7})]


@pytest.mark.parametrize("text", ["play_delivery", "I wait.\n\n**play_delivery()**", "`play_delivery`"])
def test_a_bare_name_as_the_last_line_is_a_call(text: str) -> None:
    assert understood(text) == [ParsedCall("play_delivery", {})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would rather not.",
        "{}",
        "[]",
        '{"shot": "pull"}',
        "play_delivery is nice",
        "plan_shot?!",
        "{{{",
    ],
)
def test_no_call_is_found_where_there_is_none(text: str) -> None:
    assert find_calls(ChatAnswer(text=text), LEGAL) == []


def test_several_calls_keep_their_order() -> None:
    text = '{"tool": "plan_shot", "arguments": {"shot": "cut"}}\nthen\n{"tool": "play_delivery"}'
    assert [call.tool for call in understood(text)] == ["plan_shot", "play_delivery"]


def test_calls_in_the_endpoints_form_come_first() -> None:
    answer = ChatAnswer(
        text='{"tool": "play_delivery"}', tool_calls=[ToolCall("c1", "plan_shot", '{"shot": "cut", }')]
    )
    assert find_calls(answer, LEGAL) == [WrittenCall("plan_shot", {"shot": "cut"}, id="c1")]
    assert json.loads(written_form(answer).splitlines()[1]) == {
        "tool": "plan_shot",
        "arguments": '{"shot": "cut", }',
    }


def test_half_a_number_is_not_taken_for_a_whole_one() -> None:
    half = '{"tool": "plan_shot", "arguments": {"aggression": 0'
    marked = "<function=plan_shot><parameter=aggression>0"
    for text in (half, f"<tool_call>{half}", marked):
        assert find_calls(ChatAnswer(text=text, finish_reason="length"), LEGAL) == []
        assert find_calls(ChatAnswer(text=text, finish_reason="stop"), LEGAL) != []
    native = ChatAnswer(
        text="", tool_calls=[ToolCall("c", "plan_shot", '{"aggression": 0')], finish_reason="length"
    )
    assert find_calls(native, LEGAL) == [WrittenCall("plan_shot", None, id="c")]


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "{ }"])
def test_missing_arguments_are_none(arguments: str) -> None:
    answer = ChatAnswer(text="", tool_calls=[ToolCall("c1", "play_delivery", arguments)])
    assert [check_call(call, LEGAL) for call in find_calls(answer, LEGAL)] == [
        ParsedCall("play_delivery", {}, id="c1")
    ]


@pytest.mark.parametrize("where", ["reason", "reasoning", "rationale"])
def test_the_reason_is_taken_out_of_the_arguments(where: str) -> None:
    outside = f'{{"{where}": "it is short", "tool": "plan_shot", "arguments": {{"shot": "pull"}}}}'
    inside = f'{{"tool": "plan_shot", "arguments": {{"{where}": "it is short", "shot": "pull"}}}}'
    for text in (outside, inside):
        assert understood(text) == [ParsedCall("plan_shot", {"shot": "pull"}, "it is short")]


def test_a_reason_that_is_the_worlds_own_argument_stays() -> None:
    schema = {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}
    call = check_call(WrittenCall("claim", {"reason": "seen"}), [{"tool": "claim", "arguments": schema}])
    assert call == ParsedCall("claim", {"reason": "seen"})


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (WrittenCall("fly", {}), "'fly' is not legal now; legal: plan_shot, play_delivery"),
        (WrittenCall("", {}), "'' is not legal now"),
        (WrittenCall("plan_shot", None), "the arguments of plan_shot are not a JSON object"),
        (WrittenCall("plan_shot", {"shot": "hook"}), "plan_shot: shot: must be one of"),
        (WrittenCall("plan_shot", {"aggression": float("inf")}), "not finite"),
        (
            WrittenCall("play_delivery", {"x": 1}),
            "play_delivery: the arguments: 'x' is not known; it takes none",
        ),
    ],
)
def test_a_broken_rule_is_quoted(call: WrittenCall, rule: str) -> None:
    with pytest.raises(CallRejected) as refused:
        check_call(call, LEGAL)
    assert rule in str(refused.value)


def test_whatever_passes_can_be_recorded() -> None:
    anything: LegalAction = {"tool": "note", "arguments": {"type": "object"}}
    text = (
        '{"tool": "note", "arguments": {"a\\ud800": "lone \\udfff, bell \\u0007, bidi \\u202e",'
        ' "b": [1, {"c": null}]}}'
    )
    [written] = find_calls(ChatAnswer(text=text), [anything])
    arguments = check_call(written, [anything]).arguments
    assert encode_json(dict(arguments)).encode()
    assert arguments == {"a": "lone , bell , bidi ", "b": [1, {"c": None}]}
    for hostile in ("NaN", "Infinity", "1e999", '{"x": ' * 60 + "1" + "}" * 60):
        [written] = find_calls(
            ChatAnswer(text=f'{{"tool": "note", "arguments": {{"a": {hostile}}}}}'), [anything]
        )
        with pytest.raises(CallRejected):
            check_call(written, [anything])


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_mending_does_not_change_what_is_json(value: Any) -> None:
    """Typographic quotes inside strings apart: they are how some models write the real ones."""
    text = json.dumps({"v": value})
    assert json.loads(repair(text)) == json.loads(text)


@settings(max_examples=400)
@given(st.text(alphabet="{}[]\"'\\,:/*<>=ab1 \ntool_call", max_size=80))
def test_no_text_breaks_the_reading(text: str) -> None:
    for call in find_calls(ChatAnswer(text=text), LEGAL):
        assert isinstance(call.tool, str)
    assert parse_object(text) is None or isinstance(parse_object(text), dict)
    if "{" in text:
        assert isinstance(ObjectReader(text).read(text.index("{"), unclosed=True)[0], dict | None)


HOSTILE = {
    "braces": "{" * 200_000,
    "nested": '{"a":' * 40_000,
    "open string": '"' + '\\"' * 100_000,
    "open string in braces": "{" + '\\"' * 100_000 + "}",
    "brackets": "{" + "[" * 200_000 + "}",
    "comments": "{" + "/*" * 100_000 + "}",
    "commas": "{" + "," * 200_000 + "}",
    "spaces": "{," + " " * 200_000 + "x}",
    "functions": "<function=a>" * 20_000,
    "parameters": "<tool_call><function=a>" + "<parameter=b>" * 20_000,
    "objects": '{"a":1} ' * 30_000,
    "marks": "<tool_call>" * 20_000,
    "words": "word " * 40_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_does_not_stall_the_event_loop(name: str) -> None:
    """Work that grows with the square of these would take hours; the general limit of a test ends it."""
    text = HOSTILE[name]
    native = ChatAnswer(text="", tool_calls=[ToolCall("c", "plan_shot", text)])
    for answer in (ChatAnswer(text=text), native):
        find_calls(answer, LEGAL)
    assert len(text) > 10 * MAX_TEXT or len(text) > 100_000


def test_arguments_that_no_episode_would_take_are_refused_by_their_size() -> None:
    """They grow when they are written again: 1e5 becomes 100000.0."""
    numbers = {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}}}}
    legal: list[LegalAction] = [{"tool": "sum", "arguments": numbers}]
    assert check_call(WrittenCall("sum", {"numbers": [1e5] * 3000}), legal).tool == "sum"
    with pytest.raises(CallRejected, match="more than 32768 characters"):
        check_call(WrittenCall("sum", {"numbers": [1e5] * 9000}), legal)
