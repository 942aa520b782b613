"""The client's own rules, on a transport and a clock that the test holds: retries, places, deadlines."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spectator.errors import (
    ConfigurationError,
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.client import ChatClient, ClientLimits
from spectator.llm.endpoints import SessionAddress, StaticAddress
from spectator.llm.retry import CircuitBreaker, RetryPolicy
from tests.fakes import ManualClock, until

ASK = ChatRequest(model="m", messages=[{"role": "user", "content": "hi"}])
GOOD = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()


class FakeReply:
    """A response that is already there."""

    def __init__(
        self, status: int = 200, body: bytes = GOOD, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}
        self._read = 0
        self.at_end = False

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    async def read(self) -> bytes:
        piece = self.body[self._read : self._read + 7]
        self._read = (self._read + len(piece)) if piece else 0
        return piece


class FakeTransport:
    """Gives the replies of its script in order, the last for ever; counts who is inside."""

    def __init__(self, *script: FakeReply | EndpointError | Callable[[], Awaitable[FakeReply]]) -> None:
        self.script = script
        self.urls: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.inside = self.most_inside = self.closed = 0

    @asynccontextmanager
    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[FakeReply]:
        step = self.script[min(len(self.urls), len(self.script) - 1)]
        self.urls.append(url)
        self.headers.append(headers)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(0)
            if isinstance(step, EndpointError):
                raise step
            yield step if isinstance(step, FakeReply) else await step()
        finally:
            self.inside -= 1

    async def aclose(self) -> None:
        self.closed += 1


def client(transport: FakeTransport, clock: ManualClock, **more: Any) -> ChatClient:
    more.setdefault("retry", RetryPolicy(busy=3, unavailable=2, base_s=1.0))
    return ChatClient(
        transport, StaticAddress("https://example.org/v1"), clock=clock, rng=random.Random(1), **more
    )


async def finish(task: asyncio.Task[ChatAnswer], clock: ManualClock, step_s: float = 0.5) -> ChatAnswer:
    """Let time pass whenever the client sleeps, until it is done."""
    while not task.done():
        await asyncio.sleep(0)
        if clock.sleepers:
            clock.advance(step_s)
    return task.result()


def ask(chat: ChatClient, clock: ManualClock, deadline: float = 60.0, **more: Any) -> ChatAnswer:
    async def run() -> ChatAnswer:
        return await finish(asyncio.create_task(chat.complete(ASK, deadline=deadline, **more)), clock)

    return asyncio.run(run())


def test_an_answer_at_once() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    answer = ask(client(transport, clock), clock)
    assert (answer.text, answer.attempts) == ("hello", 1)
    assert transport.urls == ["https://example.org/v1/chat/completions"]
    assert clock.monotonic() == 0.0


@pytest.mark.parametrize(
    "failure",
    [
        EndpointUnavailable("down"),
        EndpointTimeout("slow"),
        EndpointMalformed("garbage"),
        FakeReply(500),
        FakeReply(429),
        FakeReply(200, b"<html>"),
        FakeReply(200, b'{"choices": []}'),
    ],
)
def test_what_can_pass_is_tried_again(failure: FakeReply | EndpointError) -> None:
    clock, transport = ManualClock(), FakeTransport(failure, failure, FakeReply())
    answer = ask(client(transport, clock), clock)
    assert (answer.text, answer.attempts, len(transport.urls)) == ("hello", 3, 3)
    assert clock.monotonic() > 0


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_what_cannot_pass_is_raised_at_once(status: int) -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply(status, b"no"))
    with pytest.raises(EndpointRefused) as refused:
        ask(client(transport, clock), clock)
    assert (refused.value.status, len(transport.urls), clock.monotonic()) == (status, 1, 0.0)


def test_the_budgets_end() -> None:
    clock, transport = (
        ManualClock(),
        FakeTransport(FakeReply(429), FakeReply(500), FakeReply(429), FakeReply(500)),
    )
    with pytest.raises(EndpointUnavailable):
        ask(client(transport, clock), clock, deadline=1_000)
    assert len(transport.urls) == 5


def test_the_endpoints_wish_to_wait_is_honoured() -> None:
    clock = ManualClock()
    transport = FakeTransport(FakeReply(429, b"", {"Retry-After": "20"}), FakeReply())
    ask(client(transport, clock), clock)
    assert 20 <= clock.monotonic() <= 21.5


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    clock = ManualClock()
    transport = FakeTransport(FakeReply(429, b"", {"Retry-After": "61"}), FakeReply())
    with pytest.raises(EndpointBusy) as busy:
        ask(client(transport, clock), clock, deadline=60)
    assert (busy.value.retry_after_s, clock.monotonic(), len(transport.urls)) == (61, 0.0, 1)


def test_the_deadline_wins_over_endless_patience() -> None:
    clock, transport = ManualClock(), FakeTransport(EndpointUnavailable("down"))
    with pytest.raises(EndpointUnavailable):
        ask(client(transport, clock, retry=RetryPolicy.patient()), clock, deadline=300)
    assert 200 < clock.monotonic() <= 300
    assert len(transport.urls) > 10


async def test_no_place_is_held_while_waiting_to_retry() -> None:
    clock = ManualClock()
    transport = FakeTransport(FakeReply(500), FakeReply())
    chat = client(transport, clock, limits=ClientLimits(concurrency=1))
    first = asyncio.create_task(chat.complete(ASK, deadline=60))
    await until(lambda: clock.sleepers == 1, what="the wait of the first")
    second = await chat.complete(ASK, deadline=60)
    assert second.text == "hello" and not first.done()
    assert (await finish(first, clock)).attempts == 2


async def test_no_more_requests_than_places() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    chat = client(transport, clock, limits=ClientLimits(concurrency=3))
    answers = await asyncio.gather(*(chat.complete(ASK, deadline=60) for _ in range(20)))
    assert len(answers) == 20
    assert transport.most_inside == 3


async def test_who_finds_no_place_in_time_is_told_so() -> None:
    never = asyncio.Event()

    async def hang() -> FakeReply:
        await never.wait()
        return FakeReply()

    transport = FakeTransport(hang)
    chat = client(transport, ManualClock(), limits=ClientLimits(concurrency=1))
    first = asyncio.create_task(chat.complete(ASK, deadline=60))
    await until(lambda: transport.inside == 1)
    with pytest.raises(EndpointTimeout, match="too many concurrent"):
        await chat.complete(ASK, deadline=0.02)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert transport.inside == 0


async def test_a_silent_endpoint_counts_against_the_breaker_when_the_deadline_is_what_ends_it() -> None:
    never = asyncio.Event()

    async def hang() -> FakeReply:
        await never.wait()
        return FakeReply()

    clock = ManualClock()
    breaker = CircuitBreaker(clock, failures=2)
    chat = client(FakeTransport(hang), clock, breaker=breaker, retry=RetryPolicy(busy=0, unavailable=0))
    for _ in range(2):
        with pytest.raises(EndpointTimeout):
            await chat.complete(ASK, deadline=0.01)
    with pytest.raises(EndpointResting):
        await chat.complete(ASK, deadline=0.01)


async def test_a_fleet_that_starts_at_once_is_spread() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    chat = client(transport, clock, limits=ClientLimits(startup_jitter_s=2.0))
    asked: list[float] = []

    async def one() -> None:
        await chat.complete(ASK, deadline=60)
        asked.append(clock.monotonic())

    tasks = [asyncio.create_task(one()) for _ in range(200)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        clock.advance(0.01)
    halves = sum(at < 1.0 for at in asked)
    assert 60 < halves < 140 and max(asked) <= 2.2
    began = clock.monotonic()
    await chat.complete(ASK, deadline=60)
    assert clock.monotonic() == began


async def test_what_a_stream_had_said_is_voided_when_it_is_sent_again() -> None:
    heard: list[tuple[str, str]] = []
    event = b'data: {"choices": [{"delta": {"content": "hel"}}]}\n\n'
    whole = (
        event
        + b'data: {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    )
    clock, transport = ManualClock(), FakeTransport(FakeReply(200, event), FakeReply(200, whole))

    request = ChatRequest(model="m", messages=[], stream=True)
    chat = client(transport, clock)
    task = chat.complete(request, deadline=60, on_delta=lambda kind, text: heard.append((kind, text)))
    assert (await finish(asyncio.create_task(task), clock)).text == "hello"
    assert heard == [("text", "hel"), ("lost", ""), ("restart", ""), ("text", "hel"), ("text", "lo")]


@pytest.mark.parametrize("ending", [b"data: [DONE]\n\n", b"", b"data: [DONE]"])
async def test_a_stream_is_whole_with_a_finish_reason_even_without_its_last_mark(ending: bytes) -> None:
    event = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'

    request = ChatRequest(model="m", messages=[], stream=True)
    assert (
        await client(FakeTransport(FakeReply(200, event + ending)), ManualClock()).complete(
            request, deadline=60
        )
    ).text == "x"


@pytest.mark.parametrize("before", [b"", b" \n", b"\xef\xbb\xbf", b"\r\n\xef\xbb\xbf  ", b"\n" * 5_000])
@pytest.mark.parametrize(
    "body", [GOOD, b'data: {"choices": [{"delta": {"content": "hello"}}]}\n\ndata: [DONE]\n\n']
)
async def test_blanks_before_an_answer_do_not_matter(before: bytes, body: bytes) -> None:
    """Nor does an endpoint that ignores the wish for a stream."""

    request = ChatRequest(model="m", messages=[], stream=True)
    transport = FakeTransport(FakeReply(200, before + body))
    assert (await client(transport, ManualClock()).complete(request, deadline=60)).text == "hello"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_without_end_is_not_read_to_the_end(stream: bool) -> None:
    body = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n' * 1_000

    request = ChatRequest(model="m", messages=[], stream=stream)
    limits = ClientLimits(answer_bytes=2_000)
    chat = client(FakeTransport(FakeReply(200, body)), ManualClock(), limits=limits, retry=RetryPolicy(0, 0))
    with pytest.raises(EndpointMalformed, match="longer than 2000 bytes"):
        await chat.complete(request, deadline=60)


def test_a_session_is_part_of_the_address() -> None:
    transport, clock = FakeTransport(FakeReply()), ManualClock()
    chat = ChatClient(transport, SessionAddress("https://e.org/v1"), clock=clock, rng=random.Random(1))
    ask(chat, clock, session="ep-7")
    assert transport.urls == ["https://e.org/v1/ep-7/chat/completions"]
    with pytest.raises(ConfigurationError):
        ask(chat, clock)
    assert len(transport.urls) == 1


def test_limits_have_floors_and_the_usual_values_of_a_fleet() -> None:
    for wrong in (
        {"request_s": 0.5},
        {"connect_s": 0.01},
        {"read_s": 0.01},
        {"connections": 0},
        {"concurrency": -1},
    ):
        with pytest.raises(ValueError):
            ClientLimits(**wrong)
    plain, routed = ClientLimits.for_fleet(4), ClientLimits.for_fleet(64, by_session=True)
    assert (plain.request_s, plain.connect_s, plain.connections) == (300.0, 10.0, 128)
    assert (plain.concurrency, plain.startup_jitter_s) == (0, 2.0)
    assert (routed.request_s, routed.connections, routed.concurrency) == (900.0, 512, 64)


def test_closing_closes_the_transport() -> None:
    transport = FakeTransport(FakeReply())
    asyncio.run(client(transport, ManualClock()).aclose())
    assert transport.closed == 1


def of_llama_cpp(prompt: Any) -> list[FakeReply]:
    """An answer with its own token ids, the prompt as text, and its token ids."""
    logprobs = {"content": [{"id": 7, "token": "hi", "logprob": -0.5}]}
    choice = {"message": {"content": "hi"}, "logprobs": logprobs, "finish_reason": "stop"}
    answer = {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    bodies = (answer, {"prompt": "<|user|>hi"}, {"tokens": prompt})
    return [FakeReply(200, json.dumps(body).encode()) for body in bodies]


@pytest.mark.parametrize(
    ("replies", "prompt"),
    [
        (of_llama_cpp([1, 2, 3]), [1, 2, 3]),
        (of_llama_cpp([1, 2]), None),
        (of_llama_cpp([1, 2, "x"]), None),
        (of_llama_cpp(None), None),
        ([of_llama_cpp([])[0], FakeReply(404, b"{}")], None),
        ([of_llama_cpp([])[0], FakeReply(500, b"{}")], None),
        ([of_llama_cpp([])[0], EndpointUnavailable("gone")], None),
    ],
)
async def test_the_tokens_of_a_prompt_are_asked_for_where_the_answer_lacks_them(
    replies: list[Any], prompt: list[int] | None
) -> None:
    """llama.cpp; only as many as it counted are taken."""
    transport = FakeTransport(*replies)

    request = ChatRequest(model="m", messages=[], token_ids=True)
    answer = await client(transport, ManualClock()).complete(request, deadline=60)
    assert list(answer.token_ids or ()) == [7]
    assert (None if answer.prompt_token_ids is None else list(answer.prompt_token_ids)) == prompt
    assert transport.urls[1].endswith("/apply-template") and "/v1" not in transport.urls[1]
