"""What a paid voice may be sent."""

from __future__ import annotations

import asyncio

from spectator.narration.commentary import Speech, SpeechFailure
from spectator.narration.voices import CharacterBudget, PaidVoice
from tests.fakes import ManualClock
from tests.narration.voices import FakeVoice


def speak(voice: PaidVoice, text: str) -> str:
    """The reason why nothing was said, or ``spoken``."""
    said: Speech | SpeechFailure = asyncio.run(voice.speak(text))
    return said.detail if isinstance(said, SpeechFailure) else "spoken"


def test_an_episode_has_its_characters_and_no_more() -> None:
    dear = FakeVoice(name="dear", costs_money=True)
    budget = CharacterBudget(0, 10, ManualClock())
    one, other = PaidVoice(dear, budget), PaidVoice(dear, budget)
    assert [speak(one, "abcde"), speak(one, "abcde"), speak(other, "abcde")] == ["spoken"] * 3
    assert "the episode's 10 characters are used up" in speak(one, "a")
    assert dear.asked == ["abcde"] * 3, "what is refused is not sent"


def test_a_day_has_its_characters_for_all_episodes_and_the_next_has_them_again() -> None:
    clock = ManualClock()
    dear = FakeVoice(name="dear", costs_money=True)
    budget = CharacterBudget(10, 0, clock)
    assert speak(PaidVoice(dear, budget), "abcdefgh") == "spoken"
    refused = PaidVoice(dear, budget)
    assert "the day's 10 characters are used up" in speak(refused, "abc")
    assert (budget.sent, speak(refused, "ab")) == (8, "spoken"), "what was refused took nothing"
    clock.advance(24 * 3600.0)
    assert (budget.sent, speak(refused, "abc")) == (0, "spoken")
