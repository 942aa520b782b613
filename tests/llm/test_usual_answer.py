"""A whole completion of the usual shape comes to what piecing it together comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.errors import EndpointError, EndpointMalformed
from spectator.llm.assembly import Assembly
from spectator.llm.chat import ChatAnswer
from spectator.llm.secret import ApiKey, cleaner
from spectator.llm.usual_answer import usual_answer

KEY = ApiKey("sk-123456")

texts = st.sampled_from(
    [None, "", " Pull. ", "<think>a</think>b", "sk-123456!", "\ud800", "é", ["a"], [{"text": "a"}], 5]
)
counts = st.sampled_from([0, 7, -1, 2**60, 2.0, True, "7", None])
call = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": texts, "arguments": texts | st.just({"a": 1})})},
    optional={"id": texts, "index": st.integers(0, 2), "type": st.just("function"), "extra": st.just(1)},
)
message = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": texts,
        "tool_calls": st.lists(call | st.just(3), max_size=3) | st.none(),
        "refusal": texts,
        "reasoning_content": texts,
        "reasoning": texts,
        "signature": st.just("c2ln"),
    },
)
choice: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"message": message | st.none()},
    optional={
        "index": st.just(0),
        "finish_reason": texts,
        "token_ids": st.sampled_from([None, [], [1, 2], [1.5], ["a"], [2**70], [3, -1], [2**63], "ab"]),
        "logprobs": st.sampled_from(
            [None, {}, {"content": None}, {"content": []}, {"content": [{"logprob": -0.5}, {"logprob": -1}]}]
        ),
        "meta_info": st.just({"output_token_logprobs": [[-0.5, 3]], "weight_version": "w"}),
    },
)
completion = st.fixed_dictionaries(
    {"choices": st.lists(choice, max_size=2)},
    optional={
        "id": st.just("c"),
        "model": texts,
        "usage": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "prompt_tokens": counts,
                "completion_tokens": counts,
                "total_tokens": counts,
                "prompt_tokens_details": st.none() | st.just({"cached_tokens": 3}),
            },
        ),
        "prompt_token_ids": st.sampled_from([None, [], [1, 2], ["a"], [-1], "ab"]),
        "metadata": st.just({"weight_version": "w"}),
        "error": st.sampled_from([None, {"message": "no"}]),
    },
)


def pieced(whole: Any, key: ApiKey | None) -> ChatAnswer:
    assembly = Assembly(key)
    assembly.feed(whole)
    return assembly.answer(latency_s=0.5, first_token_s=None, attempts=2)


@given(whole=completion, key=st.sampled_from([None, KEY]))
@settings(deadline=None, max_examples=500)
def test_it_is_the_same_answer_or_none(whole: dict[str, Any], key: ApiKey | None) -> None:
    usual = usual_answer(whole, cleaner(key), latency_s=0.5, attempts=2)
    if usual is not None:
        assert usual == pieced(whole, key)


@pytest.mark.parametrize("whole", [None, [], {}, {"choices": None}, {"choices": [None]}])
def test_what_is_no_completion_is_left_to_the_assembly(whole: Any) -> None:
    assert usual_answer(whole, cleaner(None), latency_s=0.5, attempts=2) is None
    with pytest.raises(EndpointError):
        pieced(whole, None)


@pytest.mark.parametrize("where", ["answer", "prompt", "rows"])
@pytest.mark.parametrize("ids", [[7, -1], [2**63], [1.5], ["7"]])
def test_ids_that_no_token_has_are_refused(where: str, ids: list[Any]) -> None:
    """A negative one was exported with a loss mask of 1."""
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    whole: dict[str, Any] = {"model": "m", "choices": [choice], "usage": {}}
    if where == "prompt":
        whole["prompt_token_ids"] = ids
    elif where == "answer":
        choice["token_ids"] = ids
    else:
        choice["meta_info"] = {"output_token_logprobs": [[-0.5, one] for one in ids]}
    assert usual_answer(whole, cleaner(None), latency_s=0.5, attempts=2) is None
    with pytest.raises(EndpointMalformed, match="token ids are no whole numbers of at least 0"):
        pieced(whole, None)


def test_a_usual_completion_is_taken_at_one_go() -> None:
    function = {"name": "bat", "arguments": "{}"}
    whole = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": None,
        "choices": [{
            "index": 0, "finish_reason": "tool_calls", "logprobs": None,
            "message": {
                "role": "assistant", "content": None, "refusal": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
        }],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None},
    }  # fmt: skip
    usual = usual_answer(whole, cleaner(KEY), latency_s=0.5, attempts=2)
    assert usual is not None
    assert usual == pieced(whole, KEY)
    assert (usual.tool_calls[0].name, usual.usage and usual.usage.tokens_in) == ("bat", 5)
