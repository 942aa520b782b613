"""The client on a real socket: faults, cancellation, connections used again, a key that never shows."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.chat import ChatRequest
from spectator.llm.client import ChatClient, ClientLimits
from spectator.llm.endpoints import ApiKey, StaticAddress
from spectator.llm.retry import RetryPolicy
from tests.fakes import until
from tests.llm.brains import Said
from tests.llm.fake_server import FakeModelServer, Mode, serving

CANARY = "sk-canary-4711-do-not-print"


def hello(body: Any) -> Said:
    """A brain that does not think much."""
    return Said(text="hello there, my friend", thought="be polite")


def client(fake: FakeModelServer, **more: Any) -> ChatClient:
    limits = more.pop("limits", ClientLimits())
    return ChatClient(
        limits.transport(),
        StaticAddress(fake.base_url),
        clock=SystemClock(),
        rng=random.Random(1),
        key=ApiKey(CANARY),
        limits=limits,
        retry=more.pop("retry", RetryPolicy(busy=1, unavailable=1, base_s=0.001)),
    )


def ask(stream: bool) -> ChatRequest:
    return ChatRequest(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        stream=stream,
        logprobs=True,
        token_ids=True,
        seed=3,
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_all_that_the_endpoint_tells(stream: bool) -> None:
    heard: list[tuple[str, str]] = []
    async with serving(hello, [Mode.SLOW], pause_s=0.005) as fake:
        chat = client(fake)
        answer = await chat.complete(
            ask(stream), deadline=10, on_delta=lambda kind, text: heard.append((kind, text))
        )
        await chat.aclose()
    assert (answer.text, answer.thought) == ("hello there, my friend", "be polite")
    assert (answer.model, answer.weight_version, answer.finish_reason) == ("m", "w7", "stop")
    assert answer.usage is not None and answer.usage.tokens_out == 7
    assert answer.logprobs is not None and answer.token_ids is not None
    assert len(answer.logprobs) == len(answer.token_ids) == 5
    assert list(answer.prompt_token_ids or ()) == [1, 2, 3]
    assert 0 < answer.latency_s < 10
    assert (answer.first_token_s is not None) == stream
    assert fake.received[0].headers["authorization"] == f"Bearer {CANARY}"
    assert "".join(text for kind, text in heard if kind == "text") == answer.text
    if stream:
        assert len(heard) > 3


FAULTS: dict[Mode, tuple[type[EndpointError], int]] = {
    Mode.UNAUTHORIZED: (EndpointRefused, 1),
    Mode.UNPAID: (EndpointRefused, 1),
    Mode.UNKNOWN: (EndpointRefused, 1),
    Mode.NO_QUOTA: (EndpointRefused, 1),
    Mode.REDIRECT: (EndpointRefused, 1),
    Mode.BUSY: (EndpointBusy, 2),
    Mode.BUSY_FOR: (EndpointBusy, 2),
    Mode.BROKEN: (EndpointUnavailable, 2),
    Mode.CUT: (EndpointUnavailable, 2),
    Mode.NOT_HTTP: (EndpointUnavailable, 2),
    Mode.GARBAGE: (EndpointMalformed, 2),
    Mode.NEVER_ENDING: (EndpointTimeout, 1),
    Mode.SILENT: (EndpointTimeout, 1),
}
"""What each fault of an endpoint raises, after how many requests."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", FAULTS)
def test_every_fault_has_its_error_and_none_shows_the_key(
    mode: Mode, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error_type, requests = FAULTS[mode]
    caplog.set_level(logging.DEBUG)

    async def run() -> EndpointError:
        async with serving(hello, [mode]) as fake:
            chat = client(fake)
            with pytest.raises(EndpointError) as raised:
                await chat.complete(ask(stream), deadline=0.4 if error_type is EndpointTimeout else 10)
            await chat.aclose()
            assert len(fake.received) == requests
            return raised.value

    error = asyncio.run(run())
    assert type(error) is error_type
    assert error.retryable == (error_type is not EndpointRefused)
    shown = "\n".join(
        [
            str(error),
            repr(error),
            error.detail,
            *traceback.format_exception(error),
            *(record.getMessage() for record in caplog.records),
            *(str(vars(record)) for record in caplog.records),
        ]
    )
    assert CANARY not in shown
    assert "127.0.0.1" not in str(error)
    chain: BaseException | None = error
    while chain is not None:
        assert CANARY not in repr(chain) + str(getattr(chain, "args", ""))
        chain = chain.__cause__ or chain.__context__


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endpoint_that_repeats_the_key_does_not_get_it_published(stream: bool) -> None:
    async with serving(hello, [Mode.ECHO], chunk=1_000) as fake:
        heard: list[str] = []
        chat = client(fake)
        answer = await chat.complete(ask(stream), deadline=10, on_delta=lambda _, text: heard.append(text))
        await chat.aclose()
    assert "[key]" in answer.text
    assert CANARY not in repr(answer) + "".join(heard) + repr(chat)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", [Mode.BUSY, Mode.BROKEN, Mode.CUT, Mode.GARBAGE, Mode.NOT_HTTP])
async def test_a_fault_that_passes_is_overcome(mode: Mode, stream: bool) -> None:
    async with serving(hello, [mode, Mode.OK]) as fake:
        chat = client(fake)
        answer = await chat.complete(ask(stream), deadline=10)
        await chat.aclose()
    assert (answer.text, answer.attempts) == ("hello there, my friend", 2)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", [Mode.SILENT, Mode.NEVER_ENDING])
def test_cancelling_closes_the_request_within_a_tenth_of_a_second(mode: Mode, stream: bool) -> None:
    async def run() -> float:
        async with serving(hello, [mode]) as fake:
            chat = client(fake)
            asking = asyncio.create_task(chat.complete(ask(stream), deadline=60))
            await until(lambda: len(fake.received) == 1, what="the request")
            await asyncio.sleep(0.05)  # into the middle of the answer; the endpoint runs in real time
            cancelled_at = asyncio.get_running_loop().time()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert asking.cancelled()
            await until(lambda: fake.received[0].left_at is not None, what="the end of the connection")
            left_at = fake.received[0].left_at
            assert left_at is not None
            await chat.aclose()
            return left_at - cancelled_at

    assert asyncio.run(run()) < 0.1


@pytest.mark.parametrize("stream", [False, True])
async def test_connections_are_used_again(stream: bool) -> None:
    async with serving(hello) as fake:
        chat = client(fake)
        for _ in range(5):
            await chat.complete(ask(stream), deadline=10)
        await chat.aclose()
        assert (len(fake.received), fake.connections) == (5, 1)


async def test_no_more_connections_than_allowed() -> None:
    async with serving(hello) as fake:
        chat = client(fake, limits=ClientLimits(connections=2))
        await asyncio.gather(*(chat.complete(ask(False), deadline=20) for _ in range(20)))
        await chat.aclose()
        assert (len(fake.received), fake.connections) == (20, 2)


async def test_nobody_at_home() -> None:
    async with serving(hello) as fake:
        pass
    chat = client(fake)
    with pytest.raises(EndpointUnavailable, match="cannot connect"):
        await chat.complete(ask(False), deadline=10)
    await chat.aclose()


async def test_an_endpoint_that_falls_silent_between_pieces_is_given_up() -> None:
    async with serving(hello, [Mode.NEVER_ENDING], pause_s=30) as fake:
        chat = client(fake, limits=ClientLimits(read_s=0.1), retry=RetryPolicy(0, 0))
        with pytest.raises(EndpointTimeout, match="stopped sending"):
            await chat.complete(ask(True), deadline=10)
        await chat.aclose()


def test_a_client_can_be_closed_and_used_again_and_leaves_nothing_open() -> None:
    async def run() -> None:
        async with serving(hello) as fake:
            chat = client(fake)
            for _ in range(2):
                await chat.complete(ask(False), deadline=10)
                await chat.aclose()
            await chat.aclose()
            assert fake.connections == 2

    asyncio.run(run())
    gc.collect()


def test_importing_policies_costs_no_client(run_python: Callable[[str], str]) -> None:
    loaded = run_python(
        "import sys, spectator.policies.policy, spectator.policies.model_presets;"
        "print('aiohttp' in sys.modules)"
    )
    assert loaded.strip() == "False"
