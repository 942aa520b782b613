"""The Cartesia voice: one HTTP request per line."""

from __future__ import annotations

import asyncio
import io
from random import Random
from typing import Any, Final

import httpx
from mutagen import MutagenError
from mutagen.mp3 import MP3

from spectator.clock import Clock
from spectator.narration.commentary import Speech, SpeechFailure, SpeechFailureReason

API_VERSION: Final = "2026-03-01"
"""Version of the API that this module uses."""

DEADLINE_S: Final = 10.0
LARGEST_CLIP: Final = 4 * 1024 * 1024
QUICKEST_WORDS_PER_S: Final = 8.0
"""Faster speech is impossible; such a clip was cut."""

LEAST_SHARE: Final = 0.8
"""Share of the announced bytes that must be there; not 1, because headers and padding vary."""

FAILURES: Final = 3
REST_S: Final = 60.0
RETRY_WITHIN_S: Final = (0.2, 0.8)

_REASONS: Final[dict[int, SpeechFailureReason]] = {
    401: "wrong_key",
    403: "wrong_key",
    402: "no_credit",
    429: "busy",
}


class CartesiaVoice:
    """Speaks with Cartesia's HTTP API.

    The key is sent in one header and used nowhere else. After three failures in a row, requests pause for a
    minute.

    Args:
        plan_concurrency: Concurrent requests that the account's plan allows; one of them is kept free.
        deadline_s: Longest time for a line, retry included, seconds.
    """

    name = "cartesia"
    costs_money = True

    def __init__(
        self,
        key: str,
        *,
        clock: Clock,
        rng: Random,
        plan_concurrency: int = 2,
        voice_id: str,
        model: str,
        base_url: str,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.fingerprint = f"cartesia/{model}/{voice_id}/mp3-44100-64000"
        self._model = model
        self._voice_id = voice_id
        self._clock = clock
        self._rng = rng
        self._deadline_s = deadline_s
        self._slots = asyncio.Semaphore(max(1, plan_concurrency - 1))
        self._failed = 0
        self._rests_until = float("-inf")
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {key}", "Cartesia-Version": API_VERSION},
            timeout=deadline_s,
            trust_env=False,
        )

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """See :meth:`spectator.narration.commentary.Voice.speak`."""
        if self._clock.monotonic() < self._rests_until:
            return SpeechFailure("unavailable", "requests to the service are paused after failures")
        async with self._slots:
            try:
                async with asyncio.timeout(self._deadline_s):
                    answer = await self._ask_twice(text)
            except TimeoutError:
                answer = SpeechFailure("slow", f"the service took longer than {self._deadline_s:g} s")
        self._count(answer)
        return answer

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _count(self, answer: Speech | SpeechFailure) -> None:
        if isinstance(answer, Speech):
            self._failed = 0
            return
        self._failed += 1
        if self._failed >= FAILURES or answer.reason in ("wrong_key", "no_credit"):
            self._rests_until = self._clock.monotonic() + REST_S

    async def _ask_twice(self, text: str) -> Speech | SpeechFailure:
        answer = await self._ask(text)
        if isinstance(answer, SpeechFailure) and answer.reason in ("busy", "unavailable"):
            await self._clock.sleep(self._rng.uniform(*RETRY_WITHIN_S))
            answer = await self._ask(text)
        return answer

    async def _ask(self, text: str) -> Speech | SpeechFailure:
        body = {
            "model_id": self._model,
            "transcript": text,
            "voice": {"mode": "id", "id": self._voice_id},
            "language": "en",
            "output_format": {"container": "mp3", "sample_rate": 44100, "bit_rate": 64000},
        }
        try:
            async with self._client.stream("POST", "/tts/bytes", json=body) as response:
                if response.status_code != 200:
                    reason = _REASONS.get(response.status_code, "unavailable")
                    return SpeechFailure(reason, f"the service answered {response.status_code}")
                audio = await _read(response)
        except httpx.HTTPError as error:
            return SpeechFailure("unavailable", f"the request failed: {type(error).__name__}")
        return _checked(audio, text)


async def _read(response: httpx.Response) -> bytes:
    audio = bytearray()
    async for piece in response.aiter_bytes():
        audio += piece
        if len(audio) > LARGEST_CLIP:
            break
    return bytes(audio)


def _checked(audio: bytes, text: str) -> Speech | SpeechFailure:
    if len(audio) > LARGEST_CLIP:
        return SpeechFailure("garbage", f"the service sent more than {LARGEST_CLIP} bytes")
    try:
        duration_s, announced = _measure(audio)
    except MutagenError:
        return SpeechFailure("garbage", "the service sent something that is not an MP3")
    if len(audio) < LEAST_SHARE * announced or duration_s * QUICKEST_WORDS_PER_S < len(text.split()):
        return SpeechFailure("garbage", "the service sent an incomplete clip")
    return Speech(audio, "audio/mpeg", duration_s)


def _measure(audio: bytes) -> tuple[float, float]:
    """Return the duration that an MP3 announces, seconds, and the bytes that it needs."""
    info: Any = MP3(io.BytesIO(audio)).info
    return info.length, info.length * info.bitrate / 8
