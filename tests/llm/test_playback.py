"""Recorded exchanges as an endpoint: what was recorded comes back, and nothing else does."""

from __future__ import annotations

import random
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.clock import SystemClock
from spectator.errors import EndpointError, EndpointRefused
from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatAnswer, ChatRequest, ToolCall, Usage
from spectator.llm.client import ChatClient, ClientLimits
from spectator.llm.endpoints import StaticAddress
from spectator.llm.exchanges import (
    NotRecorded,
    Playback,
    RecordedExchange,
    answer_of,
    call_answered,
    fingerprint,
)
from spectator.llm.playback_server import chunks, completion, serving_playback
from spectator.llm.retry import RetryPolicy

SYSTEM = {"role": "system", "content": "You count."}
TOOL = {"type": "function", "function": {"name": "say", "parameters": {"type": "object"}}}


def asking(*contents: str, tools: tuple[Any, ...] = ()) -> ChatRequest:
    messages = [SYSTEM, *({"role": "user", "content": content} for content in contents)]
    return ChatRequest(model="m", messages=messages, tools=tools)


def kept(request: ChatRequest, answer: str | None = "yes", *, turn: int = 1, **more: Any) -> RecordedExchange:
    reply = None if answer is None else call_answered(request, ChatAnswer(text=answer, model="m-7")).reply
    return RecordedExchange(
        turn, "counter", fingerprint(request.messages, request.tools), request.messages, request.tools,
        reply, **more,
    )  # fmt: skip


def differs(playback: Playback, request: ChatRequest) -> NotRecorded:
    with pytest.raises(NotRecorded) as caught:
        playback.answer(request.messages, request.tools)
    return caught.value


def test_the_nearest_question_and_the_first_difference_are_named() -> None:
    playback = Playback(
        [
            kept(asking("Situation now: next 1"), turn=1),
            kept(asking("Situation then: next 1", "Situation now: next 2"), turn=2),
            kept(asking("with tools", tools=(TOOL,)), turn=3),
        ]
    )
    error = differs(playback, asking("Situation then: next 1", "Situation now: next 3"))
    assert error.where == "messages[2]"
    assert "turn 2 for counter: message 2 (user) differs from character 20" in str(error)
    assert "next 2" in str(error) and "next 3" in str(error)
    error = differs(playback, asking("Situation then: next 1", "Situation now: next 2", "and more"))
    assert (error.where, "it has 3 messages, this one 4" in str(error)) == ("messages", True)
    error = differs(playback, asking("with tools"))
    assert (error.where, "its tools are say, this one's are none" in str(error)) == ("tools", True)
    changed = {"type": "function", "function": {"name": "say", "parameters": {"type": "array"}}}
    assert "the schemas of these tools differ: say" in str(
        differs(playback, asking("with tools", tools=(changed,)))
    )
    assistant = ChatRequest(model="m", messages=[{"role": "assistant", "content": "You count."}])
    assert "differs in role" in str(differs(playback, assistant))


def test_where_nothing_is_recorded_it_says_so() -> None:
    assert "the record has no requests" in str(differs(Playback([]), asking("hello")))


def test_a_question_with_several_answers_gives_them_in_turn_and_begins_again() -> None:
    request = asking("again?")
    playback = Playback([kept(request, "one"), kept(request, "two")])
    answers = [playback.answer(request.messages, ()).reply for _ in range(4)]
    assert [answer and answer["content"] for answer in answers] == ["one", "two", "one", "two"]
    assert playback.models == ["m-7"]


texts = st.text(max_size=60).filter(lambda text: text == text.strip())


@given(text=texts, thought=texts, refusal=texts, arguments=texts, streamed=st.booleans())
def test_a_reply_reads_as_it_was_recorded(
    text: str, thought: str, refusal: str, arguments: str, streamed: bool
) -> None:
    answer = ChatAnswer(
        text=text,
        thought=thought,
        refusal=refusal or None,
        tool_calls=(ToolCall("c1", "say", arguments),),
        finish_reason="tool_calls",
        model="m",
        usage=Usage(30, 20, 10, 5),
    )
    reply = call_answered(asking("x"), answer).reply or {}
    about = {"id": "c", "created": 0}
    assembly = Assembly()
    for piece in chunks(reply, about, with_usage=True) if streamed else [completion(reply, about)]:
        assembly.feed(piece)
    read = assembly.answer(latency_s=0.0, first_token_s=None, attempts=1)
    assert read == answer_of(reply) == answer


async def ask(base_url: str, request: ChatRequest, *, limit_s: float = 20.0) -> ChatAnswer:
    limits = ClientLimits(request_s=20)
    client = ChatClient(
        limits.transport(),
        StaticAddress(base_url),
        clock=SystemClock(),
        rng=random.Random(1),
        limits=limits,
        retry=RetryPolicy(busy=0, unavailable=0),
    )
    try:
        return await client.complete(request, deadline=limit_s)
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"kind": "busy", "status": 429, "retry_after_s": 1.0}, "busy"),
        ({"kind": "refused", "status": 402, "retry_after_s": None}, "refused"),
        ({"kind": "unavailable", "status": 500, "retry_after_s": None}, "unavailable"),
        ({"kind": "unavailable", "status": None, "retry_after_s": None}, "unavailable"),
        ({"kind": "malformed", "status": None, "retry_after_s": None}, "malformed"),
        ({"kind": "timeout", "status": None, "retry_after_s": None}, "timeout"),
    ],
)
async def test_what_failed_then_fails_again_in_the_same_way(failure: dict[str, Any], kind: str) -> None:
    request = asking("hello")
    playback = Playback([kept(request, None, failure=failure)])
    async with serving_playback(playback, "127.0.0.1", 0) as base_url:
        with pytest.raises(EndpointError) as caught:
            await ask(base_url, request, limit_s=0.5 if kind == "timeout" else 20)
    assert (caught.value.kind, caught.value.status) == (kind, failure["status"])


async def test_a_question_that_was_never_asked_is_404_and_says_how_it_differs() -> None:
    playback = Playback([kept(asking("hello")), kept(asking("long"), None, turn=9)])
    async with serving_playback(playback, "127.0.0.1", 0) as base_url:
        with pytest.raises(EndpointRefused) as caught:
            await ask(base_url, asking("hullo"))
        assert caught.value.status == 404 and "not_recorded" in caught.value.detail
        with pytest.raises(EndpointRefused) as caught:
            await ask(base_url, asking("long"))
        assert "turn 9 was too long" in caught.value.detail
        assert (await ask(base_url, asking("hello"))).text == "yes"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"messages": 3}',
        b'{"messages": ["hello"]}',
        b'{"messages": [], "tools": [1]}',
        b"\xff",
    ],
)
async def test_what_is_no_question_is_400(body: bytes) -> None:
    async with (
        serving_playback(Playback([]), "127.0.0.1", 0) as base_url,
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/chat/completions", data=body) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["error"]["param"] == "messages"


async def test_models_and_sessions_in_the_address_are_served() -> None:
    request = asking("hello")
    async with (
        serving_playback(Playback([kept(request)]), "127.0.0.1", 0) as base_url,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{base_url}/models") as listed:
            assert [one["id"] for one in (await listed.json())["data"]] == ["m-7"]
        assert (await ask(f"{base_url}/s-123", request)).text == "yes"
