"""Keys that are lent: until when they are used, and what is said afterwards."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, cast

import pytest

from spectator.errors import EndpointRefused
from spectator.llm.chat import ChatRequest
from spectator.llm.secret import ApiKey
from spectator.policies.lent_models import HUB_WORDS, LentEndpoint, LentKey
from tests.fakes import ManualClock

CANARY = "hf_oauth_canary_4711"


class Client:
    """A client that never answers, or with a mark."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.cancelled = False

    async def complete(self, request: ChatRequest, **more: Any) -> str:
        try:
            if not self.answers:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "answered"


class NoTransport:
    async def aclose(self) -> None:
        """Nothing is open."""


def endpoint(lent: LentKey, client: Client, keys: list[ApiKey | None]) -> LentEndpoint:
    def made(key: ApiKey | None) -> Any:
        keys.append(key)
        return client

    return LentEndpoint(lent, cast(Any, NoTransport()), made)


REQUEST = ChatRequest(model="m", messages=[])


def test_a_key_is_used_until_it_expires() -> None:
    async def run() -> None:
        clock, keys = ManualClock(), list[ApiKey | None]()
        lent = LentKey(ApiKey(CANARY), HUB_WORDS, clock=clock, left_s=60)
        asked = endpoint(lent, Client(answers=True), keys)
        assert await asked.complete(REQUEST, deadline=1) == "answered"
        clock.advance(59.9)
        assert await asked.complete(REQUEST, deadline=1) == "answered"
        clock.advance(0.1)
        with pytest.raises(EndpointRefused, match="sign in again to start another match"):
            await asked.complete(REQUEST, deadline=1)
        assert len(keys) == 2

    asyncio.run(run())


def test_taking_a_key_back_gives_up_what_is_under_way() -> None:
    async def run() -> None:
        client = Client(answers=False)
        lent = LentKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
        asking = asyncio.create_task(endpoint(lent, client, []).complete(REQUEST, deadline=1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lent.end()
        with pytest.raises(EndpointRefused):
            await asking
        assert client.cancelled
        assert not lent.usable

    asyncio.run(run())


def test_giving_up_waiting_gives_up_the_request() -> None:
    async def run() -> None:
        client = Client(answers=False)
        lent = LentKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
        asking = asyncio.create_task(endpoint(lent, client, []).complete(REQUEST, deadline=1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert client.cancelled

    asyncio.run(run())


def test_a_key_shows_itself_nowhere() -> None:
    lent = LentKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
    assert CANARY not in repr(lent) + str(vars(lent))
    with pytest.raises(TypeError):
        pickle.dumps(lent)
