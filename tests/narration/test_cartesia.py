"""The Cartesia voice against a service on a real socket that fails in every way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from spectator.narration.cartesia import API_VERSION, FAILURES, REST_S, CartesiaVoice
from spectator.narration.commentary import Speech, SpeechFailure
from tests.fakes import ManualClock, until
from tests.narration.fake_cartesia import CLIP, FakeCartesia, serving

KEY = "sk_car_canary_0123456789"
LINE = "Thornbury to Okafor, driven through the covers for four."


class HastyClock(ManualClock):
    """A clock whose sleeps are over at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def speaking(
    *modes: str, **settings: Any
) -> AsyncIterator[tuple[CartesiaVoice, FakeCartesia, ManualClock]]:
    clock = HastyClock()
    async with serving(*modes) as fake:
        voice = CartesiaVoice(
            KEY,
            clock=clock,
            rng=Random(1),
            voice_id="a-voice",
            model="a-model",
            base_url=fake.base_url,
            **settings,
        )
        try:
            yield voice, fake, clock
        finally:
            await voice.aclose()


async def test_a_line_is_one_request_and_one_clip() -> None:
    async with speaking("ok") as (voice, fake, _):
        spoken = await voice.speak(LINE)
        assert isinstance(spoken, Speech)
        assert spoken.audio == CLIP
        assert spoken.mime == "audio/mpeg"
        assert spoken.duration_s == pytest.approx(2.0, abs=0.1)
        (request,), (headers,) = fake.requests, fake.headers
        assert request["line"] == "POST /tts/bytes HTTP/1.1"
        assert request["transcript"] == LINE
        assert request["voice"] == {"mode": "id", "id": "a-voice"}
        assert request["model_id"] == "a-model"
        assert request["output_format"]["container"] == "mp3"
        assert headers["authorization"] == f"Bearer {KEY}"
        assert headers["cartesia-version"] == API_VERSION


@pytest.mark.parametrize(
    ("modes", "reason", "requests"),
    [
        (["401"], "wrong_key", 1),
        (["403"], "wrong_key", 1),
        (["402"], "no_credit", 1),
        (["429"], "busy", 2),
        (["500"], "unavailable", 2),
        (["hang up"], "unavailable", 2),
        (["cut"], "unavailable", 2),
        (["garbage"], "garbage", 1),
        (["part"], "garbage", 1),
        (["huge"], "garbage", 1),
    ],
)
async def test_whatever_goes_wrong_is_an_answer_without_the_key(
    modes: list[str], reason: str, requests: int, caplog: pytest.LogCaptureFixture
) -> None:

    caplog.set_level(logging.DEBUG)
    async with speaking(*modes) as (voice, fake, _):
        unspoken = await voice.speak(LINE)
        assert isinstance(unspoken, SpeechFailure)
        assert unspoken.reason == reason
        assert unspoken.detail
        assert KEY not in unspoken.detail
        assert len(fake.requests) == requests
    assert KEY not in caplog.text


@pytest.mark.parametrize("first", ["429", "500", "hang up", "cut"])
async def test_one_more_try_may_help(first: str) -> None:
    async with speaking(first, "ok") as (voice, _, __):
        assert isinstance(await voice.speak(LINE), Speech)


async def test_a_service_that_takes_too_long_is_given_up() -> None:
    async with speaking("slow", deadline_s=1.0) as (voice, fake, _):
        unspoken = await voice.speak(LINE)
        assert isinstance(unspoken, SpeechFailure)
        assert unspoken.reason == "slow"
        assert len(fake.requests) == 1


async def test_a_failing_service_is_left_alone_for_a_while() -> None:
    async with speaking(*["500"] * 2 * FAILURES, "ok") as (voice, fake, clock):
        for _ in range(FAILURES):
            await voice.speak(LINE)
        sent = len(fake.requests)
        resting = await voice.speak(LINE)
        assert isinstance(resting, SpeechFailure)
        assert len(fake.requests) == sent
        clock.advance(REST_S)
        assert isinstance(await voice.speak(LINE), Speech)


async def test_one_request_of_the_plan_is_left_free() -> None:
    async with speaking("ok", plan_concurrency=3) as (voice, fake, _):
        await asyncio.gather(*(voice.speak(f"{LINE} {number}") for number in range(8)))
        assert fake.most_at_once <= 2
        assert len(fake.requests) == 8


async def test_a_line_that_is_not_wanted_any_more_is_given_up() -> None:
    async with speaking("slow") as (voice, fake, _):
        speaking_task = asyncio.create_task(voice.speak(LINE))
        await until(lambda: bool(fake.requests))
        speaking_task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await speaking_task
