"""What an assembly makes of whole completions that are not as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from spectator.errors import EndpointError, EndpointMalformed
from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatAnswer
from spectator.llm.endpoints import ApiKey


def answer_in(completion: Any) -> ChatAnswer:
    assembly = Assembly(None)
    assembly.feed(completion)
    return assembly.answer(latency_s=0.5, first_token_s=None, attempts=2)


@pytest.mark.parametrize("completion", [None, [], {}, {"choices": None}, {"choices": [None]}])
def test_what_is_not_a_completion_is_an_error(completion: Any) -> None:
    with pytest.raises(EndpointError):
        answer_in(completion)


@pytest.mark.parametrize("where", ["answer", "prompt", "rows"])
@pytest.mark.parametrize("ids", [[7, -1], [2**63], [1.5], ["7"]])
def test_ids_that_no_token_has_are_refused(where: str, ids: list[Any]) -> None:
    """A negative one was exported with a loss mask of 1."""
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    completion: dict[str, Any] = {"model": "m", "choices": [choice], "usage": {}}
    if where == "prompt":
        completion["prompt_token_ids"] = ids
    elif where == "answer":
        choice["token_ids"] = ids
    else:
        choice["meta_info"] = {"output_token_logprobs": [[-0.5, one] for one in ids]}
    with pytest.raises(EndpointMalformed, match="token ids are not integers of at least 0"):
        answer_in(completion)


def test_who_answered_is_kept_as_first_named_and_without_the_key() -> None:
    secret = "sk-1234567890-secret"
    key = ApiKey(secret)
    assembly = Assembly(key)
    choice = [{"index": 0, "delta": {"content": "x"}}]
    assembly.feed_all(
        [
            {"model": "m-1", "system_fingerprint": None, "choices": choice},
            {"model": "m-2", "provider": "fast", "system_fingerprint": "fp_1", "choices": choice},
            {"provider": "slow", "system_fingerprint": ["no text"], "choices": choice},
        ]
    )
    answer = assembly.answer(latency_s=0.0, first_token_s=None, attempts=1)
    assert (answer.model, answer.provider, answer.system_fingerprint) == ("m-1", "fast", "fp_1")
    repeated = Assembly(key)
    served = {"provider": f"for {secret}", "system_fingerprint": "f" * 5000}
    repeated.feed({**served, "choices": [{"index": 0, "message": {"content": "x"}}]})
    named = repeated.answer(latency_s=0.0, first_token_s=None, attempts=1)
    assert (
        named.model is None and named.provider == "for [key]" and len(named.system_fingerprint or "") == 200
    )
