"""What a paid voice may cost: characters of an episode and of a day."""

from __future__ import annotations

from spectator.clock import Clock
from spectator.narration.speech import Speech, Unspoken, Voice


class CharacterBudget:
    """Characters that paid voices may be sent, by episode and by day. Days are UTC.

    Args:
        day: Most characters of a day; 0 = no limit.
        episode: Most characters of an episode; 0 = no limit.
        clock: Tells the day.
    """

    def __init__(self, day: int, episode: int, clock: Clock) -> None:
        self.episode = episode
        self._limit = day
        self._clock = clock
        self._day = clock.now().date()
        self._sent = 0

    @property
    def sent(self) -> int:
        """Characters sent today."""
        if self._day != self._clock.now().date():
            self._day, self._sent = self._clock.now().date(), 0
        return self._sent

    async def take(self, characters: int) -> str | None:
        """Take ``characters`` of today's; why not, in words, where they are not to be had."""
        if 0 < self._limit < self.sent + characters:
            return f"the day's {self._limit:,} characters are spoken (SPECTATOR_VOICE_DAY_CHARACTERS)"
        self._sent += characters
        return None


class PaidVoice:
    """A paid voice as one episode may use it.

    Args:
        voice: The voice.
        budget: What it may be sent.
    """

    costs_money = True

    def __init__(self, voice: Voice, budget: CharacterBudget) -> None:
        self.name = voice.name
        self.fingerprint = voice.fingerprint
        self._voice = voice
        self._budget = budget
        self._sent = 0

    async def speak(self, text: str) -> Speech | Unspoken:
        """See :meth:`spectator.narration.speech.Voice.speak`; ``no_credit`` once a budget is used up."""
        limit = self._budget.episode
        if 0 < limit < self._sent + len(text):
            return Unspoken(
                "no_credit",
                f"the episode's {limit:,} characters are spoken (SPECTATOR_VOICE_EPISODE_CHARACTERS)",
            )
        refusal = await self._budget.take(len(text))
        if refusal is not None:
            return Unspoken("no_credit", refusal)
        self._sent += len(text)
        return await self._voice.speak(text)

    async def aclose(self) -> None:
        """Nothing: the voice is everybody's."""
