"""Whole matches, and single calls, over stand-ins that hold requests to their provider's documented rules."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.environments.counting import WORLD as COUNTING
from spectator.errors import EndpointBusy, EndpointError, EndpointRefused
from spectator.events import Event
from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatAnswer, ChatRequest, Conversation, FrozenPrefix, Usage
from spectator.llm.client import ChatClient, ClientLimits, wire_form
from spectator.llm.endpoints import ApiKey, Form, StaticAddress
from spectator.llm.retry import RetryPolicy
from tests.episodes.harness import drive
from tests.llm.brains import Brain, Said, counter
from tests.llm.stand_in_anthropic import AnthropicStandIn, refused
from tests.llm.stand_in_gemini import GeminiStandIn, per_minute
from tests.llm.stand_ins import KEY, Refused, Served, StandIn, standing_in
from tests.policies.seats import counting_led_by, endpoint_preset

TURNS = 4
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def play(
    provider: StandIn, path: str, stream: bool, script: Mapping[int, Refused] | None = None, **table: Any
) -> tuple[list[Event], Served]:
    """The decisions of a match, and what the stand-in saw."""
    async with standing_in(provider, script) as served:
        preset = endpoint_preset(
            COUNTING, served.url + path, key=KEY, stream=stream, max_tokens=2048, **table
        )
        played = await drive(counting_led_by(preset), turns=TURNS)
    made = [one.event for one in played.events if one.event.type == "decision.made"]
    assert [refusal.body for refusal in served.refused if refusal not in (script or {}).values()] == []
    assert [event.data["fallback_reason"] for event in made] == [None] * TURNS
    assert {event.data["source"] for event in made} == {"model"}
    return made, served


@STREAMED
@pytest.mark.parametrize("style", ["tools", "json"])
@pytest.mark.parametrize("thinking", [False, True], ids=["at once", "thinking"])
def test_a_match_by_anthropics_own_form(stream: bool, style: str, thinking: bool) -> None:
    table: dict[str, Any] = {"form": "anthropic", "send_seed": False, "style": style}
    table |= {"extra": THINKING} if thinking else {"temperature": 0.6, "tool_choice": None}
    provider = AnthropicStandIn(counter)
    made, served = asyncio.run(play(provider, "/v1", stream, model=provider.model, **table))
    assert len(served.asked) == TURNS
    last = made[-1].data["exchanges"][0]["reply"]
    assert last["usage"]["cached_in"] > 0 and last["usage"]["cache_written"] > 0
    assert last["usage"]["tokens_in"] > last["usage"]["cached_in"]
    assert ("verbatim" in last) == thinking
    if thinking:
        assert last["thought"] and len(provider.signed) == TURNS
        sent = [block for message in served.asked[-1].body["messages"] for block in message["content"]]
        assert sum(block["type"] == "thinking" for block in sent) == TURNS - 1


@STREAMED
@pytest.mark.parametrize("style", ["tools", "json"])
@pytest.mark.parametrize("ids", [False, True], ids=["without ids", "with ids"])
def test_a_match_by_geminis_own_form(stream: bool, style: str, ids: bool) -> None:
    provider = GeminiStandIn(counter, ids=ids)
    extra = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    made, served = asyncio.run(
        play(provider, "/v1beta", stream, model=provider.model, form="gemini", style=style, extra=extra)
    )
    config = served.asked[-1].body["generationConfig"]
    assert config["maxOutputTokens"] == 2048 and config["thinkingConfig"] == {"includeThoughts": True}
    last = made[-1].data["exchanges"][0]["reply"]
    assert last["usage"] == {"tokens_in": 90, "tokens_out": 12, "cached_in": 64, "thought_out": 5}
    assert last["thought"] == "Let me see."
    sent = [part for content in served.asked[-1].body["contents"] for part in content["parts"]]
    assert sum("thoughtSignature" in part for part in sent) == TURNS - 1


def client(url: str, form: Form, key: str = KEY) -> ChatClient:
    limits = ClientLimits()
    return ChatClient(
        limits.transport(),
        StaticAddress(url),
        clock=SystemClock(),
        rng=random.Random(1),
        key=ApiKey(key),
        limits=limits,
        retry=RetryPolicy(busy=0, unavailable=0),
        form=wire_form(form),
    )


FORMS: dict[Form, tuple[Any, str, str]] = {
    "anthropic": (AnthropicStandIn, "/v1", "claude-haiku-4-5"),
    "gemini": (GeminiStandIn, "/v1beta", "gemini-3-flash"),
}
BOTH = pytest.mark.parametrize("form", FORMS)


def call(
    form: Form, brain: Brain, *, refusal: Refused | None = None, key: str = KEY, **more: Any
) -> ChatAnswer:
    """One answer of a stand-in."""

    async def run() -> ChatAnswer:
        make, path, model = FORMS[form]
        async with standing_in(make(brain), {0: refusal} if refusal else None) as served:
            chat = client(served.url + path, form, key)
            hi = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
            request = ChatRequest(**{"model": model, "messages": hi, **more})
            try:
                return await chat.complete(request, deadline=10)
            finally:
                await chat.aclose()

    return asyncio.run(run())


@BOTH
@STREAMED
def test_an_answer_that_was_cut_and_one_that_was_declined_say_so(form: Form, stream: bool) -> None:
    cut = call(form, lambda body: Said(text="and so", finish="length"), stream=stream)
    assert (cut.text, cut.finish_reason) == ("and so", "length")


@STREAMED
def test_a_refusal_of_the_model_is_one(stream: bool) -> None:
    assert call("anthropic", lambda body: Said(refusal="no"), stream=stream).finish_reason == "content_filter"


@BOTH
def test_a_wrong_key_is_told_and_shown_nowhere(form: Form) -> None:
    with pytest.raises(EndpointRefused) as caught:
        call(form, counter, key="sk-wrong-0815")
    assert "does not accept the key" in str(caught.value)
    assert "0815" not in f"{caught.value}{caught.value.detail}"


@BOTH
def test_a_model_that_there_is_not_is_told(form: Form) -> None:
    with pytest.raises(EndpointRefused, match="not know this address or model"):
        call(form, counter, model="nobody-1")


def test_overload_is_waited_out_and_not_a_failure() -> None:
    with pytest.raises(EndpointBusy):
        call("anthropic", counter, refusal=refused(529, "overloaded_error", "Overloaded"))


def test_overload_that_is_told_within_a_stream_is_overload() -> None:
    translation = wire_form("anthropic").translation()
    assert translation is not None
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(EndpointBusy) as caught:
        Assembly().feed_all(translation.chunks(error))
    assert caught.value.status == 529


@BOTH
@pytest.mark.parametrize("piece", [7, [], "x"])
def test_what_is_no_answer_at_all_is_an_error_of_the_endpoint(form: Form, piece: Any) -> None:
    translation = wire_form(form).translation()
    assert translation is not None
    with pytest.raises(EndpointError):
        list(translation.chunks(piece))


@BOTH
def test_pieces_of_wrong_types_are_passed_over(form: Form) -> None:
    translation = wire_form(form).translation()
    assert translation is not None
    for piece in (
        {}, {"type": "content_block_start", "index": "x", "content_block": 7}, {"type": "ping"},
        {"type": "content_block_delta", "index": 3, "delta": None}, {"candidates": [7]},
        {"candidates": [{"content": {"parts": [7]}}]}, {"type": "message_start", "message": None},
        {"type": "content_block_delta", "index": None, "delta": {"type": "text_delta", "text": 4}},
    ):  # fmt: skip
        list(translation.chunks(piece))


def test_a_prompt_that_gemini_blocks_was_declined() -> None:
    translation = wire_form("gemini").translation()
    assert translation is not None
    [chunk] = translation.chunks({"promptFeedback": {"blockReason": "SAFETY"}})
    assert chunk["choices"][0]["finish_reason"] == "content_filter"


def test_only_what_is_settled_is_marked_to_be_cached() -> None:
    system = {"role": "system", "content": "Rules."}
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    now = {"role": "user", "content": "three"}
    messages = Conversation([system, *said, now], 3, FrozenPrefix())
    body = wire_form("anthropic").encode(ChatRequest(model="m", messages=messages))
    assert body.count(b"cache_control") == 2
    assert b'"text":"two","cache_control"' in body and b'"text":"Rules.","cache_control"' in body


def test_a_call_that_was_not_taken_does_not_go_back() -> None:
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "go", "input": {"n": n}} for n in range(2)]
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    taken = {"id": "t0", "type": "function", "function": {"name": "go", "arguments": "{}"}}
    own = {"role": "assistant", "content": "", "tool_calls": [taken], "content_blocks": [signed, *uses]}
    result = {"role": "tool", "tool_call_id": "t0", "content": "done"}
    hi = {"role": "user", "content": "hi"}
    body = wire_form("anthropic").encode(ChatRequest(model="m", messages=[hi, own, result]))
    assert b'"t0"' in body and b'"t1"' not in body and b'"signature":"s"' in body
    parts = [
        {"functionCall": {"name": "go", "args": {}}, "thoughtSignature": "s"},
        {"functionCall": {"name": "go", "args": {"n": 1}}},
    ]
    own = {**own, "tool_calls": [{**taken, "id": "call_0"}], "parts": parts}
    body = wire_form("gemini").encode(
        ChatRequest(model="m", messages=[hi, own, {**result, "tool_call_id": "call_0"}])
    )
    assert body.count(b'"functionCall"') == 1 and b'"thoughtSignature":"s"' in body and b'"id"' not in body


def test_usage_of_a_stream_counts_the_whole_prompt() -> None:
    answer = call("anthropic", lambda body: Said(text="hello"), stream=True)
    assert answer.usage is not None and answer.usage.tokens_in > 5 and answer.usage.tokens_out > 5
    assert isinstance(answer.usage, Usage) and answer.first_token_s is not None


def test_a_quota_of_a_minute_that_speaks_of_billing_is_waited_out() -> None:
    with pytest.raises(EndpointBusy) as caught:
        call("gemini", counter, refusal=per_minute("21.5s"))
    assert caught.value.retry_after_s == 21.5


def test_a_wait_in_milliseconds_is_read_from_a_real_response() -> None:
    busy = Refused(429, {"error": {"type": "rate_limit_error"}}, {"retry-after-ms": "1500"})
    with pytest.raises(EndpointBusy) as caught:
        call("anthropic", counter, refusal=busy)
    assert caught.value.retry_after_s == 1.5
