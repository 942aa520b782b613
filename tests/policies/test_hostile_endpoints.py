"""Endpoints that refuse, ignore, change or never stop, on real sockets: each as in the table of faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from spectator.environments.counting import WORLD as COUNTING
from spectator.evaluation.certificate import Replies, count_exchanges
from tests.episodes.harness import Played, drive
from tests.llm.brains import Said, counter
from tests.llm.fake_server import serving, whole_answer
from tests.policies.seats import counting_led_by, endpoint_preset

TURNS = 3
MIB = 1 << 20
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(handle: Handle) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def play(handle: Handle, **table: Any) -> list[dict[str, Any]]:
    """The decisions of one match."""

    async def run() -> Played:
        async with answering(handle) as url:
            preset = endpoint_preset(COUNTING, url, **{"style": "json", "timeout_s": 10.0, **table})
            return await drive(counting_led_by(preset), turns=TURNS)

    played = asyncio.run(run())
    assert played.end["reason"] == "finished"
    return [dict(one.event.data) for one in played.events if one.event.type == "decision.made"]


REFUSALS: dict[str, tuple[int, Any]] = {
    "OpenAI": (
        400,
        {"error": {
            "message": "Invalid schema for response_format 'action': 'minimum' is not permitted.",
            "type": "invalid_request_error", "param": "response_format", "code": None,
        }},
    ),
    "vLLM": (
        400,
        {"object": "error", "message": "Grammar error: The grammar is too large", "type": "BadRequestError",
         "param": None, "code": 400},
    ),
    "llama.cpp": (
        400,
        {"error": {"code": 400, "message": "failed to parse grammar", "type": "invalid_request_error"}},
    ),
    "SGLang": (400, {"object": "error", "message": "Failed to compile json_schema grammar", "code": 400}),
    "vLLM 0.20": (
        500, {"error": {"message": "", "type": "InternalServerError", "param": None, "code": 500}},
    ),
    "TGI": (422, {"error": "Input validation error: grammar is not supported", "error_type": "validation"}),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", REFUSALS)
def test_a_schema_or_grammar_that_is_refused_gives_way_and_costs_no_decision(
    provider: str, stream: bool
) -> None:
    status, body = REFUSALS[provider]
    forms: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        forms.append(asked.get("response_format", {}).get("type", "none"))
        if forms[-1] == "json_schema":
            return web.json_response(body, status=status)
        return web.json_response(whole_answer(counter(asked), asked))

    made = play(handle, constraint="auto", stream=stream)
    assert [one["source"] for one in made] == ["model"] * TURNS
    tried = 1 if status < 500 else 2  # a failure of the endpoint may pass
    assert forms == ["json_schema"] * tried + ["json_object"] * TURNS
    forms.clear()
    [first, *_] = play(handle, constraint="json_schema", stream=stream)
    assert first["failure_class"] == ("model_rejected" if status < 500 else "model_infra")
    assert ("constraint" in first["fallback_reason"]) == (status < 500)


def test_a_failure_after_the_first_decision_does_not_weaken_the_constraint() -> None:
    forms: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        forms.append(asked["response_format"]["type"])
        if len(forms) in (2, 3):
            return web.json_response({"error": {"message": ""}}, status=500)
        return web.json_response(whole_answer(counter(asked), asked))

    made = play(handle, constraint="auto", stream=False)
    assert [one["source"] for one in made] == ["model", "fallback", "model"]
    assert set(forms) == {"json_schema"}


def test_a_model_that_ignores_its_constraint_is_asked_again_and_named() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        return web.json_response(whole_answer(Said(text="I would rather chat."), asked))

    made = play(handle, constraint="auto", stream=False)
    assert {one["failure_class"] for one in made} == {"unparsable"}
    assert all("json_schema" in one["fallback_reason"] for one in made)
    assert all(len(one["exchanges"]) == 2 for one in made)


def test_an_endpoint_that_changes_its_model_is_seen_in_the_certificate() -> None:
    served: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        served.append("big-1" if len(served) < 2 else "small-9")
        who = {"model": served[-1], "system_fingerprint": f"fp_{served[-1]}", "provider": "Somewhere"}
        return web.json_response({**whole_answer(counter(asked), asked), **who})

    counts: dict[str, dict[str, int]] = {}
    for one in play(handle, stream=False):
        count_exchanges(one, counts)
    replies = Replies.of([counts])
    assert (
        replies.models
        == {"big-1": 2, "small-9": 1}
        == {name.removeprefix("fp_"): number for name, number in replies.system_fingerprints.items()}
    )


def counted(pieces: Callable[[], AsyncIterator[bytes]], kind: str, sent: list[int]) -> Handle:
    """An answer of pieces; ``sent`` counts the bytes that were taken for each request."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        sent.append(0)
        at = len(sent) - 1
        async for piece in pieces():
            try:
                await response.write(piece)
            except ConnectionError:
                break
            sent[at] += len(piece)
        return response

    return handle


def event(**delta: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()


HUNDRED_MB = 100 * 1000 * 1000
LONG: dict[str, tuple[bytes, str]] = {
    "whole": (b'{"choices": [{"message": {"content": "', "application/json"),
    "one line": (b"data: ", "text/event-stream"),
    "text": (b"", "text/event-stream"),
    "thoughts": (b"", "text/event-stream"),
    "arguments": (b"", "text/event-stream"),
}


@pytest.mark.parametrize("form", LONG)
def test_an_answer_of_100_mb_is_not_read_to_the_end(form: str) -> None:
    opening, kind = LONG[form]
    piece = {
        "text": event(content="x" * 40_000),
        "thoughts": event(reasoning_content="x" * 40_000),
        "arguments": b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":'
        b'{"name":"say","arguments":"' + b"x" * 40_000 + b'"}}]}}]}\n\n',
    }.get(form, b"x" * 40_000)

    async def pieces() -> AsyncIterator[bytes]:
        yield opening
        for _ in range(HUNDRED_MB // len(piece)):
            yield piece

    sent: list[int] = []
    made = play(counted(pieces, kind, sent), stream=kind == "text/event-stream")
    assert made[0]["failure_class"] == "model_infra" and made[0]["source"] == "fallback"
    assert max(sent) < 12 * MIB  # what is in the buffers of the sockets included


ENDLESS = {
    "comments": b": OPENROUTER PROCESSING\n\n",
    "blank lines": b"\n\n",
    "empty deltas": event(content=""),
    "words": event(content="and "),
    "thoughts": event(reasoning_content="hm "),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_stream_that_never_ends_ends_at_the_deadline(kind: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield ENDLESS[kind]
            await asyncio.sleep(0.01)

    sent: list[int] = []
    made = play(counted(pieces, "text/event-stream", sent), stream=True, timeout_s=0.4)
    assert {one["failure_class"] for one in made} <= {"timeout", "model_resting"}
    assert made[0]["failure_class"] == "timeout" and made[0]["tokens_estimated"]


def test_half_a_call_of_a_stream_that_says_it_is_whole_is_not_carried_out() -> None:
    """The finish reason is right, the arguments are cut."""
    whole = json.dumps({"reason": "next", "text": "ACTION: 1"})

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        half = Said(calls=[("say", whole[: len(whole) - 6])], finish="tool_calls")
        return web.json_response(whole_answer(half, asked))

    made = play(handle, style="tools", stream=False)
    assert {one["source"] for one in made} == {"fallback"}
    assert made[0]["failure_class"] in ("unparsable", "truncated", "illegal_action")


def test_a_slow_reasoning_model_is_paid_for_and_within_its_cap() -> None:
    """It thinks to its limit each time and never answers; the cap holds before each request."""

    async def run() -> tuple[Played, int]:
        def thinks(body: Any) -> Said:
            return Said(thought="hm " * 400, finish="length")

        async with serving(thinks) as fake:
            preset = endpoint_preset(COUNTING, fake.base_url, style="json", max_tokens=300, stream=True)
            return await drive(counting_led_by(preset), turns=TURNS), len(fake.received)

    played, requests = asyncio.run(run())
    made = [one.event.data for one in played.events if one.event.type == "decision.made"]
    assert {one["failure_class"] for one in made} == {"truncated"} and requests == 2 * TURNS
    assert all(one["tokens_out"] >= 2 * 300 for one in made)
