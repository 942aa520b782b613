"""Bodies that are sent, and answers put together from whatever endpoints send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointOverflow,
    EndpointRefused,
    EndpointUnavailable,
)
from spectator.llm.answers import MAX_DELTA, Assembly
from spectator.llm.chat import ChatAnswer, ChatRequest, ToolCall, Usage
from spectator.llm.endpoints import ApiKey
from spectator.llm.message_parts import MAX_TOOL_CALLS
from spectator.llm.retry import error_of
from spectator.llm.wire_forms import decode_json, encode_request

CANARY = "sk-canary-4711-do-not-print"


def assembled(*pieces: Any, **more: Any) -> ChatAnswer:
    assembly = Assembly(**more)
    for piece in pieces:
        assembly.feed(piece)
    return assembly.answer(latency_s=1.0, first_token_s=None, attempts=1)


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def test_only_what_is_set_is_sent() -> None:
    messages = [{"role": "user", "content": "ä\u2028"}]
    assert json.loads(encode_request(ChatRequest(model="m", messages=messages))) == {
        "model": "m",
        "messages": messages,
    }


def test_everything_that_is_set_is_sent() -> None:
    request = ChatRequest(
        model="m",
        messages=[],
        tools=[{"type": "function"}],
        tool_choice="required",
        temperature=0.0,
        top_p=0.9,
        max_tokens=5,
        max_tokens_field="max_completion_tokens",
        stop=("END",),
        seed=0,
        logprobs=True,
        token_ids=True,
        stream=True,
        extra={"top_k": 4, "model": "mine wins not", "stream_options": {"x": 1}},
    )
    assert json.loads(encode_request(request)) == {
        "model": "m",
        "messages": [],
        "tools": [{"type": "function"}],
        "tool_choice": "required",
        "temperature": 0.0,
        "top_p": 0.9,
        "max_completion_tokens": 5,
        "stop": ["END"],
        "seed": 0,
        "logprobs": True,
        "return_token_ids": True,
        "return_prompt_token_ids": True,
        "return_meta_info": True,
        "stream": True,
        "stream_options": {"include_usage": True, "x": 1},
        "top_k": 4,
    }


def test_a_prompt_with_text_that_has_no_utf8_can_still_be_sent() -> None:
    body = encode_request(ChatRequest(model="m", messages=[{"role": "user", "content": "lone \ud800"}]))
    assert b"\\ud800" in body


def test_a_whole_answer() -> None:
    answer = assembled({
        "model": "qwen",
        "metadata": {"weight_version": 12},
        "prompt_token_ids": [1, 2],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "choices": [{
            "finish_reason": "tool_calls",
            "token_ids": [7, 8],
            "logprobs": {"content": [{"logprob": -0.25}, {"logprob": -1}]},
            "message": {
                "content": "<think>inline</think> said",
                "reasoning_content": "field",
                "tool_calls": [{"id": "c1", "function": {"name": "go", "arguments": {"x": 1}}}],
            },
        }],
    })  # fmt: skip
    assert (answer.text, answer.thought, answer.finish_reason) == ("said", "field\n\ninline", "tool_calls")
    assert answer.tool_calls == (ToolCall("c1", "go", '{"x":1}'),)
    assert answer.usage == Usage(9, 4, 3, 2)
    assert (answer.model, answer.weight_version) == ("qwen", "12")
    assert list(answer.logprobs or ()) == [-0.25, -1.0]
    assert list(answer.token_ids or ()) == [7, 8]
    assert list(answer.prompt_token_ids or ()) == [1, 2]


def versioned(version: Any, *ids: int) -> dict[str, Any]:
    piece: dict[str, Any] = {"choices": [{"delta": {"content": "x"}, "token_ids": list(ids)}]}
    return piece if version is None else {**piece, "metadata": {"weight_version": version}}


@pytest.mark.parametrize(
    ("pieces", "runs"),
    [
        ([versioned(1, 7, 8), versioned(1, 9)], [("1", 3)]),
        ([versioned(1, 7, 8), versioned(2, 9), versioned(2, 10)], [("1", 2), ("2", 2)]),
        ([versioned(None, 7), versioned(2, 8), versioned(3, 9)], [("2", 2), ("3", 1)]),
        ([versioned(None, 7), versioned(5)], [("5", 1)]),
        ([versioned(1), versioned(2)], [("2", 0)]),
        ([versioned(None, 7)], []),
    ],
)
def test_each_token_has_the_version_of_the_weights_that_made_it(pieces: list[Any], runs: list[Any]) -> None:
    assert list(assembled(*pieces).weight_versions) == runs


def test_a_streamed_answer_is_the_whole_one() -> None:
    heard: list[tuple[str, str]] = []
    answer = assembled(
        delta(role="assistant", content=""),
        delta(reasoning="why "),
        delta(reasoning="not"),
        delta(content="<thi"),
        delta(content="nk>more</think>sa"),
        delta(content="id"),
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "go", "arguments": ""}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "stop", "arguments": "{}"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"x":'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}, "model": "m"},
        on_delta=lambda kind, text: heard.append((kind, text)),
    )
    assert (answer.text, answer.thought) == ("said", "why not\n\nmore")
    assert answer.tool_calls == (ToolCall("a", "go", '{"x":1}'), ToolCall("b", "stop", "{}"))
    assert answer.usage == Usage(1, 2)
    assert heard == [
        ("thought", "why "),
        ("thought", "not"),
        ("thought", "more"),
        ("text", "sa"),
        ("text", "id"),
        ("tool", "go "),
        ("tool", "stop {}"),
        ("tool", '{"x":'),
        ("tool", "1}"),
    ]


def test_what_came_together_is_told_at_once_each_kind_by_itself() -> None:
    heard: list[tuple[str, str]] = []
    assembly = Assembly(on_delta=lambda kind, text: heard.append((kind, text)))
    pieces = [delta(reasoning="why "), delta(reasoning="not"), delta(content="I "), delta(content="s"), 7]
    with pytest.raises(EndpointMalformed):
        assembly.feed_all(pieces)
    assert heard == [("thought", "why not"), ("text", "I s")]
    assembly.feed(delta(content="ay"))
    assert heard[2:] == [("text", "ay")]


def test_a_long_text_is_told_in_parts_none_of_which_is_cut() -> None:
    heard: list[str] = []
    assembly = Assembly(on_delta=lambda kind, text: heard.append(text))
    said = ["x" * size for size in (1, MAX_DELTA, 3 * MAX_DELTA, MAX_DELTA - 1, 1, 1)]
    assembly.feed_all(delta(content=text) for text in said)
    assert "".join(heard) == "".join(said)
    assert [len(part) for part in heard] == [1, MAX_DELTA, 3 * MAX_DELTA, MAX_DELTA, 1]


def test_the_forms_of_sglang_and_mistral() -> None:
    sglang = assembled({
        "sglext": {"weight_version": "step-40"},
        "choices": [{
            "message": {"content": "x"},
            "meta_info": {
                "output_token_logprobs": [[-0.5, 11, "x"], [-0.75, 12, "y"]],
                "prompt_token_ids": [3],
            },
        }],
    })  # fmt: skip
    assert sglang.weight_version == "step-40"
    assert list(sglang.logprobs or ()) == [-0.5, -0.75]
    assert (list(sglang.token_ids or ()), list(sglang.prompt_token_ids or ())) == ([11, 12], [3])
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "so"},
    ]
    mistral = assembled({"choices": [{"message": {"content": parts}}]})
    assert (mistral.text, mistral.thought) == ("so", "hm")


def test_a_refusal_is_heard() -> None:
    assert assembled(delta(refusal="I can"), delta(refusal="not")).refusal == "I cannot"


def test_the_key_is_masked_wherever_it_is_repeated() -> None:
    heard: list[str] = []
    answer = assembled(
        delta(content=f"your key is {CANARY}", reasoning_content=f"{CANARY}!", refusal=CANARY),
        delta(tool_calls=[{"id": CANARY, "function": {"name": CANARY, "arguments": f'{{"k": "{CANARY}"}}'}}]),
        key=ApiKey(CANARY),
        on_delta=lambda kind, text: heard.append(text),
    )
    assert CANARY not in repr(answer)
    assert "[key]" in answer.text
    assert CANARY not in "".join(heard)


@pytest.mark.parametrize(
    "piece", [[], "text", 7, None, {}, {"choices": []}, {"choices": "x"}, {"choices": [7]}, {"choices": None}]
)
def test_what_is_no_completion_is_malformed(piece: Any) -> None:
    with pytest.raises(EndpointMalformed):
        assembled(piece)


@pytest.mark.parametrize(
    "choice",
    [
        {"logprobs": {"content": [{"logprob": "x"}]}},
        {"logprobs": {"content": [7]}},
        {"token_ids": ["x"]},
        {"token_ids": [2**80]},
        {"meta_info": {"output_token_logprobs": [[]]}},
        {"meta_info": {"output_token_logprobs": [[-0.5, "x"]]}},
    ],
)
def test_tokens_that_are_no_numbers_are_malformed(choice: dict[str, Any]) -> None:
    with pytest.raises(EndpointMalformed):
        assembled({"choices": [{"message": {"content": "x"}, **choice}]})


NAMES = (
    "choices message delta content tool_calls function name arguments index id usage prompt_tokens model "
    "metadata weight_version logprobs token_ids meta_info finish_reason refusal reasoning error code "
    "output_token_logprobs prompt_token_ids text thinking status"
).split()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@given(json_values, json_values)
def test_no_answer_raises_anything_but_our_own_error(piece: Any, choice: Any) -> None:
    for fed in (piece, {"choices": [choice]}, {"choices": [{"message": choice}]}):
        try:
            answer = assembled(fed, on_delta=lambda kind, text: None)
        except EndpointError:
            continue
        answer.text.encode()
        answer.thought.encode()


def test_calls_beyond_reason_are_not_collected() -> None:
    calls = [{"index": 10 * n, "function": {"name": "x", "arguments": "{}"}} for n in range(1_000)]
    assert len(assembled(delta(tool_calls=calls)).tool_calls) == MAX_TOOL_CALLS


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": "\\ud800"}', b'{"a": 123456789012345678901}',
        b'\xef\xbb\xbf {"a": 1}',
    ],
)  # fmt: skip
def test_what_python_servers_write_beyond_the_standard_is_read(data: bytes) -> None:
    assert "a" in decode_json(data)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\xff\xfe", b'{"a":', b"[" * 100_000])
def test_what_is_not_json_is_malformed(data: bytes) -> None:
    with pytest.raises(EndpointMalformed):
        decode_json(data)


@pytest.mark.parametrize(
    ("status", "body", "retry_after_s", "error", "retryable"),
    [
        (400, b"", None, EndpointRefused, False),
        (401, b"", None, EndpointRefused, False),
        (402, b"", None, EndpointRefused, False),
        (403, b"", None, EndpointRefused, False),
        (404, b"", None, EndpointRefused, False),
        (408, b"", None, EndpointUnavailable, True),
        (413, b"", None, EndpointOverflow, False),
        (422, b"", None, EndpointRefused, False),
        (429, b"", None, EndpointBusy, True),
        (429, b'{"error": {"code": "insufficient_quota"}}', None, EndpointRefused, False),
        (500, b"", None, EndpointUnavailable, True),
        (503, b"", None, EndpointUnavailable, True),
        (503, b"", 3.0, EndpointBusy, True),
        (529, b"", None, EndpointBusy, True),
        (302, b"", None, EndpointRefused, False),
        (204, b"", None, EndpointRefused, False),
    ],
)
def test_a_status_says_whether_trying_again_can_help(
    status: int, body: bytes, retry_after_s: float | None, error: type[EndpointError], retryable: bool
) -> None:
    found = error_of(status, body, retry_after_s=retry_after_s)
    assert type(found) is error
    assert found.retryable is retryable
    assert (found.status, found.retry_after_s) == (status, retry_after_s)


@pytest.mark.parametrize(
    ("reported", "error"),
    [
        ({"code": 429, "message": "slow down"}, EndpointBusy),
        ({"code": "401"}, EndpointRefused),
        ({"message": "out of memory"}, EndpointUnavailable),
        ("broken", EndpointUnavailable),
        ({"code": "²²²"}, EndpointUnavailable),
        ({"code": 200}, EndpointUnavailable),
    ],
)
def test_an_error_inside_a_good_status_is_an_error(reported: Any, error: type[EndpointError]) -> None:
    with pytest.raises(error):
        Assembly().feed({"error": reported})
