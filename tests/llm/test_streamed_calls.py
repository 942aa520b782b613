"""Calls and tokens of an answer in pieces, whatever indexes, ids and names the pieces have."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatAnswer, ToolCall
from tests.llm.test_assembly import answer_in


def streamed(*messages: dict[str, Any]) -> list[tuple[str, str]]:
    assembly = Assembly()
    for message in messages:
        assembly.feed({"choices": [{"delta": message}]})
    answer = assembly.answer(latency_s=0.5, first_token_s=None, attempts=1)
    return [(call.name, call.arguments) for call in answer.tool_calls]


def piece(name: str | None = None, arguments: str | None = None, **about: Any) -> dict[str, Any]:
    return {**about, "function": {"name": name, "arguments": arguments}}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(pieces)}


TWO = [("first", '{"n": 1}'), ("second", '{"n": 2}')]
INDEXES: dict[str, list[dict[str, Any]]] = {
    "own": [{"index": 0}, {"index": 1}],
    "text": [{"index": "0"}, {"index": "1"}],
    "words": [{"index": "a"}, {"index": "b"}],
    "shared": [{"index": 0}, {"index": 0}],
    "null": [{"index": None}, {"index": None}],
    "missing": [{}, {}],
}


@pytest.mark.parametrize(("index", "with_id"), [*product(INDEXES, [True, False])])
def test_parallel_calls_are_told_apart(index: str, with_id: bool) -> None:
    about = [one | ({"id": name} if with_id else {}) for one, name in zip(INDEXES[index], "AB", strict=True)]
    (one, arguments), (other, others) = TWO
    whole = [piece(one, arguments, **about[0]), piece(other, others, **about[1])]
    assert streamed(calls(whole[0]), calls(whole[1])) == TWO
    assert streamed(calls(*whole)) == TWO
    later = [{key: value for key, value in each.items() if key == "index"} for each in about]
    halves = [
        calls(piece(one, arguments[:4], **about[0])), calls(piece(None, arguments[4:], **later[0])),
        calls(piece(other, others[:4], **about[1])), calls(piece(None, others[4:], **later[1])),
    ]  # fmt: skip
    assert streamed(*halves) == TWO
    message = {"message": {"tool_calls": whole}, "finish_reason": "tool_calls"}
    assert [(call.name, call.arguments) for call in answer_in({"choices": [message]}).tool_calls] == TWO


def test_calls_without_ids_that_repeat_a_name_are_told_apart() -> None:
    same = [("go", '{"n": 1}'), ("go", '{"n": 2}')]
    assert streamed(*(calls(piece(*one, index=0)) for one in same)) == same
    assert streamed(calls(*(piece(*one, index=0) for one in same))) == same


@pytest.mark.parametrize("index", [{"index": 0}, {"index": None}, {}])
def test_calls_with_ids_and_without_arguments_are_told_apart(index: dict[str, Any]) -> None:
    pieces = [piece("wait", "", id=name, **index) for name in "AB"]
    assert streamed(*map(calls, pieces)) == [("wait", ""), ("wait", "")]
    assert streamed(*map(calls, [*pieces, piece("wait", "{}", id="B", **index)])) == [
        ("wait", ""),
        ("wait", "{}"),
    ]


def test_pieces_that_come_together_belong_to_their_calls() -> None:
    begun = calls(piece("first", '{"n"', id="A"), piece("second", '{"n"', id="B"))
    assert streamed(begun, calls(piece(None, ": 1}"), piece(None, ": 2}"))) == TWO
    assert streamed(begun, calls(piece(None, ": 1}", id="A")), calls(piece(None, ": 2}", id="B"))) == TWO


@pytest.mark.parametrize(
    "names", ["plan_shot", "plan|_shot", "p|lan_s||hot", "plan_shot|plan_shot", "plan|plan_shot"]
)
@pytest.mark.parametrize("with_id", [True, False])
def test_a_name_may_come_in_parts(names: str, with_id: bool) -> None:
    about = {"id": "A"} if with_id else {}
    parts = [calls(piece(name, index=0, **about)) for name in names.split("|")]
    rest = [calls(piece(None, '{"n"', index=0)), calls(piece("plan_shot", ": 1}", index=0, **about))]
    assert streamed(*parts, *rest) == [("plan_shot", '{"n": 1}')]


def test_new_ids_in_each_piece_do_not_split_a_call() -> None:
    parts = [piece("go", '{"n"', index=0, id="A"), piece(None, ": 1}", index=0, id="B")]
    assert streamed(*map(calls, parts)) == [("go", '{"n": 1}')]


@pytest.mark.parametrize(
    ("given", "text"),
    [({"n": 1}, '{"n":1}'), ([1], "[1]"), (5, "5"), ({"n": 2**70}, f'{{"n":{2**70}}}'), (None, "")],
)
def test_arguments_of_any_type_are_kept(given: Any, text: str) -> None:
    """A list that was dropped became a call without arguments."""
    assert streamed(calls({"index": 0, "function": {"name": "go", "arguments": given}})) == [("go", text)]


def test_the_old_form_of_a_call_is_one() -> None:
    parts = [{"function_call": {"name": "go", "arguments": ""}}, {"function_call": {"arguments": '{"n": 1}'}}]
    assert streamed(*parts) == [("go", '{"n": 1}')]
    answer = answer_in({"choices": [{"message": {"function_call": {"name": "go", "arguments": "{}"}}}]})
    assert (answer.tool_calls, answer.verbatim) == ((ToolCall("", "go", "{}"),), {})


def test_a_call_without_a_function_is_read_from_its_own_members() -> None:
    answer = answer_in({"choices": [{"message": calls({"id": "A", "name": "go", "arguments": "{}"})}]})
    assert answer.tool_calls == (ToolCall("A", "go", "{}"),)


made_calls = st.tuples(st.sampled_from(["go", "stop"]), st.dictionaries(st.text(max_size=3), st.integers()))


@given(st.lists(made_calls, min_size=1, max_size=4), st.data())
def test_no_stream_glues_calls(made: list[tuple[str, dict[str, int]]], data: st.DataObject) -> None:
    """However calls with ids are cut into pieces, and whatever their indexes are."""
    messages: list[dict[str, Any]] = []
    index: dict[str, Any] = data.draw(st.sampled_from([{"index": 0}, {"index": "0"}, {"index": None}, {}]))
    for number, (name, arguments) in enumerate(made):
        text = json.dumps(arguments)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        messages.append(calls(piece(name, parts[0], id=f"call {number}", **index)))
        messages += [calls(piece(None, part, **index)) for part in parts[1:]]
    assert streamed(*messages) == [(name, json.dumps(arguments)) for name, arguments in made]


def choice_of(**more: Any) -> ChatAnswer:
    return answer_in({"choices": [{"message": {"content": "x"}, **more}]})


def test_an_unknown_log_probability_is_not_a_number_and_the_others_stay() -> None:
    for answer in (
        choice_of(logprobs={"content": [{"logprob": None}, {"logprob": -1}]}),
        choice_of(logprobs={"token_logprobs": [None, -1]}),
        choice_of(meta_info={"output_token_logprobs": [[None, 7, "a"], [-1, 8, "b"]]}),
    ):
        assert answer.logprobs is not None and math.isnan(answer.logprobs[0]) and answer.logprobs[1] == -1


def test_ids_of_llama_cpp_are_beside_its_log_probabilities() -> None:
    tokens = [{"id": 7, "token": "a", "logprob": -0.5}, {"id": 8, "token": "b", "logprob": None}]
    assert list(choice_of(logprobs={"content": tokens}).token_ids or ()) == [7, 8]
    for partly in ([*tokens, {"logprob": -1}], [{"id": "t-1", "logprob": -1}], [{"id": -1, "logprob": -1}]):
        assert choice_of(logprobs={"content": partly}).token_ids is None
    named = choice_of(logprobs={"content": tokens}, token_ids=[1, 2])
    assert list(named.token_ids or ()) == [1, 2], "vLLM's own field"
