"""Voices that make no clips: the viewer's own browser, and silence."""

from __future__ import annotations

from spectator.narration.speech import Unspoken


class BrowserVoice:
    """Leaves speaking to each viewer's browser, which has the words."""

    name = "browser"
    fingerprint = "browser"
    costs_money = False

    async def speak(self, text: str) -> Unspoken:
        """Never a clip."""
        return Unspoken("client_speaks")

    async def aclose(self) -> None:
        """It holds nothing."""


class SilentVoice:
    """Says nothing; the captions say it all."""

    name = "silent"
    fingerprint = "silent"
    costs_money = False

    async def speak(self, text: str) -> Unspoken:
        """Never a clip."""
        return Unspoken("silent")

    async def aclose(self) -> None:
        """It holds nothing."""
