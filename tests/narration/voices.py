"""The voices of tests: they speak at once, and count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spectator.narration.commentary import Speech, SpeechFailure


class FakeVoice:
    """A voice whose clips say their own text.

    Args:
        answer: What becomes of a text; a clip of a second for every ten characters when left out.
        name: Its name.
        costs_money: Whether it does.
        hold: Lines wait for it.
    """

    def __init__(
        self,
        answer: Callable[[str], Speech | SpeechFailure] | None = None,
        *,
        name: str = "fake",
        costs_money: bool = False,
        hold: asyncio.Event | None = None,
    ) -> None:
        self.name = name
        self.fingerprint = name
        self.costs_money = costs_money
        self.asked: list[str] = []
        self.given_up = 0
        self.closed = 0
        self._answer = answer or (lambda text: Speech(text.encode(), "audio/wav", len(text) / 10))
        self._hold = hold

    async def speak(self, text: str) -> Speech | SpeechFailure:
        self.asked.append(text)
        try:
            if self._hold is not None:
                await self._hold.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self._answer(text)

    async def aclose(self) -> None:
        self.closed += 1
