"""Keys that are lent: until when they are used, and what is said afterwards."""

from __future__ import annotations

import asyncio
import pickle
import random
from typing import Any, cast

import pytest

from spectator.clock import SystemClock
from spectator.errors import EndpointRefused
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.endpoints import ApiKey
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import ModelSeat
from spectator.policies.prompts import Briefing
from spectator.policies.visitor_models import HUB_WORDS, OWN_WORDS, VisitorEndpoint, VisitorKey, VisitorModel
from tests.fakes import ManualClock
from tests.llm.brains import obedient
from tests.llm.fake_server import serving
from tests.policies.seats import observed
from tests.policies.test_model import LEGAL, Steady

CANARY = "hf_oauth_canary_4711"
ANSWER = ChatAnswer(text="one")


class Client:
    """A client that never answers, or with a mark."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.cancelled = False

    async def complete(self, request: ChatRequest, **more: Any) -> ChatAnswer:
        try:
            if not self.answers:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return ANSWER


class NoTransport:
    async def aclose(self) -> None:
        """Nothing is open."""


def endpoint(lent: VisitorKey, client: Client, keys: list[ApiKey | None]) -> VisitorEndpoint:
    def made(key: ApiKey | None) -> Any:
        keys.append(key)
        return client

    return VisitorEndpoint(lent, cast(Any, NoTransport()), made)


REQUEST = ChatRequest(model="m", messages=[])


async def test_a_key_is_used_until_it_expires() -> None:
    clock, keys = ManualClock(), list[ApiKey | None]()
    lent = VisitorKey(ApiKey(CANARY), HUB_WORDS, clock=clock, left_s=60)
    asked = endpoint(lent, Client(answers=True), keys)
    assert await asked.complete(REQUEST, deadline=1) is ANSWER
    clock.advance(59.9)
    assert await asked.complete(REQUEST, deadline=1) is ANSWER
    clock.advance(0.1)
    with pytest.raises(EndpointRefused, match="sign in again to start another match"):
        await asked.complete(REQUEST, deadline=1)
    assert len(keys) == 2


async def test_taking_a_key_back_gives_up_what_is_under_way() -> None:
    client = Client(answers=False)
    lent = VisitorKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
    asking = asyncio.create_task(endpoint(lent, client, []).complete(REQUEST, deadline=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    lent.end()
    with pytest.raises(EndpointRefused):
        await asking
    assert client.cancelled
    assert not lent.usable


async def test_giving_up_waiting_gives_up_the_request() -> None:
    client = Client(answers=False)
    lent = VisitorKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
    asking = asyncio.create_task(endpoint(lent, client, []).complete(REQUEST, deadline=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert client.cancelled


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "[::1]"])
async def test_a_private_address_is_not_asked_where_only_public_ones_may_be(host: str) -> None:
    async with serving(obedient) as fake:
        port = fake.base_url.rpartition(":")[2]  # with its path
        captain = ModelCaptain(label="m", base_url=f"http://{host}:{port}", model="m", retries=0)
        lent = VisitorKey(ApiKey(CANARY), OWN_WORDS, clock=SystemClock())
        seat = ModelSeat(Briefing("A game."), lambda seed: Steady())
        preset = VisitorModel("own:m", captain, lent, public_only=True).preset(
            seat, SystemClock(), random.Random(1)
        )
        policy = preset.build(1)
        decision = await policy.decide(observed(LEGAL), deadline=10)
        await policy.aclose()
        assert decision.failure_class == "model_rejected"
        assert "address is private" in (decision.fallback_reason or "")
        assert not fake.received


def test_a_key_shows_itself_nowhere() -> None:
    lent = VisitorKey(ApiKey(CANARY), HUB_WORDS, clock=ManualClock())
    assert CANARY not in repr(lent) + str(vars(lent))
    with pytest.raises(TypeError):
        pickle.dumps(lent)
