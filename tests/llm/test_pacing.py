"""Limits of a minute are kept by all who share them, on a clock that the test holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.errors import EndpointBusy, EndpointUnavailable
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.rate_limits import SPAN_S, START, RateLimiter
from spectator.llm.retry import FOREVER, RetryPolicy
from tests.fakes import ManualClock, until
from tests.llm.test_client import ASK, GOOD, FakeReply, FakeTransport, client

FAR = 1e9
PATIENT = RetryPolicy(busy=FOREVER, unavailable=0, base_s=1.0, longest_s=10.0)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30), st.booleans(), st.booleans()), max_size=60),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(20, 100),
)
def test_no_minute_has_more_than_it_may(
    asked: list[tuple[int, int, bool, bool]], requests: int | None, tokens: int | None
) -> None:
    clock = ManualClock()
    pacing = RateLimiter(clock, requests_per_minute=requests, tokens_per_minute=tokens)
    sent: list[tuple[float, int]] = []
    for size, later, patient, gives_up in asked:
        clock.advance(later)
        try:
            slot = pacing.reserve(size, FAR if patient else clock.monotonic() + 5.0)
        except EndpointBusy as busy:
            assert busy.retry_after_s is not None and busy.retry_after_s >= 5.0
            continue
        if gives_up and slot.at > clock.monotonic():
            pacing.settle(slot, 0)  # whoever asked went away before it was sent
        else:
            sent.append((slot.at, size))
    assert sent == sorted(sent, key=lambda one: one[0])
    for at, _ in sent:
        within = [size for other, size in sent if at - SPAN_S < other <= at]
        assert requests is None or len(within) <= requests
        assert tokens is None or sum(within) <= tokens or len(within) == 1


def test_what_was_guessed_too_high_is_given_back() -> None:
    clock = ManualClock()
    pacing = RateLimiter(clock, tokens_per_minute=100)
    slot = pacing.reserve(90, FAR)
    pacing.settle(slot, 20)
    assert pacing.reserve(80, FAR).at == 0.0
    assert pacing.reserve(1, FAR).at == SPAN_S


def test_what_is_settled_after_its_minute_counts_no_more() -> None:
    clock = ManualClock()
    pacing = RateLimiter(clock, tokens_per_minute=100)
    slot = pacing.reserve(90, FAR)
    clock.advance(61)
    assert pacing.reserve(100, FAR).at == 61.0
    pacing.settle(slot, 1_000)
    assert pacing.reserve(100, FAR).at == 121.0


def test_more_tokens_than_a_minute_has_wait_for_an_empty_one_and_are_not_refused() -> None:
    pacing = RateLimiter(ManualClock(), tokens_per_minute=100)
    assert pacing.reserve(10, FAR).at == 0.0
    assert pacing.reserve(500, FAR).at == SPAN_S


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute", "concurrency"])
def test_a_limit_that_lets_nothing_through_is_refused(limit: str) -> None:
    limits: dict[str, Any] = {limit: 0}
    with pytest.raises(ValueError, match="at least 1"):
        RateLimiter(ManualClock(), **limits)


def test_places_are_found_out_or_given() -> None:
    assert RateLimiter(ManualClock()).places.places == START
    assert RateLimiter(ManualClock(), concurrency=3).places.places == 3


async def played(clock: ManualClock, *asking: Awaitable[ChatAnswer], most_s: float = 1_000) -> list[Any]:
    """What comes of all of them, time passing whenever somebody sleeps."""
    tasks = [asyncio.ensure_future(one) for one in asking]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        if clock.sleepers:
            clock.advance(0.25)
        assert clock.monotonic() < most_s
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_two_clients_keep_to_the_limits_together() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    pacing = RateLimiter(clock, requests_per_minute=4)
    at: list[float] = []

    async def noted() -> FakeReply:
        at.append(clock.monotonic())
        return FakeReply()

    transport.script = (noted,)

    both = [client(transport, clock, pacing=pacing) for _ in range(2)]
    assert [
        answer.text
        for answer in (
            await played(clock, *(chat.complete(ASK, deadline=600) for chat in both for _ in range(5)))
        )
    ] == ["hello"] * 10
    assert [sum(n * 60 <= moment < (n + 1) * 60 for moment in at) for n in range(3)] == [4, 4, 2]


def window(
    clock: ManualClock, opens_at: float, *headers: tuple[str, str]
) -> Callable[[], Awaitable[FakeReply]]:
    """An endpoint whose quota speaks of billing, and is there again at ``opens_at``."""
    error = {"code": 429, "message": "You exceeded your current quota, check your plan and billing details"}

    async def answer() -> FakeReply:
        if clock.monotonic() < opens_at:
            return FakeReply(429, json.dumps({"error": error}).encode(), dict(headers))
        return FakeReply(200, GOOD)

    return answer


@pytest.mark.parametrize("headers", [(), (("Retry-After", "6"),), (("retry-after-ms", "6000"),)])
async def test_a_rate_limit_is_waited_out_until_the_deadline(headers: tuple[tuple[str, str], ...]) -> None:
    clock = ManualClock()
    transport = FakeTransport(window(clock, 40.0, *headers))
    pacing = RateLimiter(clock)

    chats = [client(transport, clock, pacing=pacing, retry=PATIENT) for _ in range(8)]
    answers = await played(clock, *(chat.complete(ASK, deadline=90) for chat in chats))
    assert [getattr(answer, "text", answer) for answer in answers] == ["hello"] * 8
    assert pacing.places.places < START and 40 <= clock.monotonic() < 90
    assert len(transport.urls) < 8 * 30


async def test_an_endpoint_that_asks_one_of_them_to_wait_is_asked_by_none() -> None:
    clock = ManualClock()
    transport = FakeTransport(FakeReply(429, b"", {"Retry-After": "30"}), FakeReply())
    pacing = RateLimiter(clock, concurrency=1)

    first, second = (client(transport, clock, pacing=pacing, retry=PATIENT) for _ in range(2))
    task = asyncio.create_task(first.complete(ASK, deadline=90))
    await until(lambda: clock.sleepers == 1)
    other = asyncio.create_task(second.complete(ASK, deadline=90))
    await until(lambda: clock.sleepers == 2)
    assert len(transport.urls) == 1
    assert [answer.text for answer in (await played(clock, task, other))] == ["hello", "hello"]
    assert len(transport.urls) == 3 and clock.monotonic() >= 30


async def test_a_limit_that_leaves_no_time_is_a_rate_limit_and_no_fault_of_the_endpoint() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    pacing = RateLimiter(clock, requests_per_minute=1)

    chat = client(transport, clock, pacing=pacing, retry=PATIENT)
    first, second = await played(clock, chat.complete(ASK, deadline=50), chat.complete(ASK, deadline=50))
    assert first.text == "hello" and isinstance(second, EndpointBusy)
    assert second.failure_class == "rate_limited" and pacing.places.places == START


async def test_who_goes_away_while_waiting_gives_slot_and_place_back() -> None:
    clock, transport = ManualClock(), FakeTransport(FakeReply())
    pacing = RateLimiter(clock, requests_per_minute=1, concurrency=2)

    chat = client(transport, clock, pacing=pacing)
    await chat.complete(ASK, deadline=600)
    waiting = asyncio.create_task(chat.complete(ASK, deadline=600))
    await until(lambda: clock.sleepers == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert pacing.places.taken == 0
    assert pacing.reserve(1, FAR).at == SPAN_S


async def test_the_prompt_and_the_longest_answer_are_reserved_and_what_was_used_is_kept() -> None:
    clock = ManualClock()
    usage = {"prompt_tokens": 30, "completion_tokens": 10}
    good = {**json.loads(GOOD), "usage": usage}
    transport = FakeTransport(FakeReply(200, json.dumps(good).encode()))
    pacing = RateLimiter(clock, tokens_per_minute=1_000)

    chat = client(transport, clock, pacing=pacing)
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=900)
    await chat.complete(request, deadline=600)
    assert pacing.reserve(960, FAR).at == 0.0
    assert pacing.reserve(1, FAR).at == SPAN_S


async def test_a_failure_that_is_no_rate_limit_cuts_nothing() -> None:
    clock, transport = ManualClock(), FakeTransport(EndpointUnavailable("down"))
    pacing = RateLimiter(clock)

    chat = client(transport, clock, pacing=pacing, retry=PATIENT)
    assert (
        isinstance((await played(clock, chat.complete(ASK, deadline=50)))[0], EndpointUnavailable)
        and pacing.places.places == START
    )
