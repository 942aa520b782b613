"""Spoken commentary: a narrator for each episode that has narration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, Literal

from pydantic import BaseModel, Field

from spectator.bus import Overflow
from spectator.clock import Clock
from spectator.episodes.controls import Pace
from spectator.episodes.handle import EpisodeHandle
from spectator.episodes.supervisor import Supervisor
from spectator.narration.clip_store import ClipStore, SharedClips, StoredClip
from spectator.narration.commentary import Speaker, SpeechFailure, Voice, plain_speech
from spectator.narration.narrator import NarrationCounts, Narrator, NarratorPorts
from spectator.narration.neural import NeuralProcess, NeuralVoice, model_folder
from spectator.narration.voices import (
    CARTESIA_MODEL,
    CharacterBudget,
    Chosen,
    PaidVoice,
    choose_voices,
    espeak_voice,
)

from ..security.masking import NameMaskSource
from ..settings import Settings
from ..viewers.audience import Audience, EpisodeSignals

LISTENING: Final = 256
"""Events that may wait for a narrator; older ones are dropped."""

AUDIO: Final = "/audio/"

Speaks = Literal["clips", "browser", "nobody"]


class VoiceAnswer(BaseModel):
    """How commentary is spoken on this server."""

    voice: str = Field(description="Name of the voice: cartesia, espeak, browser or silent")
    speaks: Speaks = Field(description="The server makes `clips`, each `browser` speaks, or `nobody` does")
    answers: bool = Field(description="Whether a second commentator speaks too")
    fault: str | None = Field(description="The current fault of the voice; captions continue")


class Narration:
    """Spoken commentary on this server."""

    def __init__(
        self,
        chosen: Chosen,
        *,
        clips: ClipStore,
        clock: Clock,
        breathing: bool,
        budget: CharacterBudget,
        names: NameMaskSource,
    ) -> None:
        self.tally = NarrationCounts(fault=chosen.missing)
        self.clips = clips
        self._voices = chosen.voices
        self._answering = chosen.answering
        self.charges = any(voice.costs_money for voice in chosen.voices)
        """Whether one of the voices costs money."""
        self._clock = clock
        self._breathing = breathing
        self._budget = budget
        self._names = names
        self._paid_for: set[str] = set()

    @property
    def state(self) -> VoiceAnswer:
        """The current state."""
        first = self._voices[0].name
        speaks: Speaks = "nobody" if first == "silent" else "browser" if first == "browser" else "clips"
        return VoiceAnswer(voice=first, speaks=speaks, answers=bool(self._answering), fault=self.tally.fault)

    def pay_for(self, episode_id: str) -> None:
        """Allow paid voices for an episode; its starter may spend money."""
        self._paid_for.add(episode_id)

    async def attend(self, signals: EpisodeSignals, supervisor: Supervisor, audience: Audience) -> None:
        """Narrate every running episode that has narration, until cancelled.

        Episodes with a derived view are skipped: listening would derive the view even without viewers.
        """
        if self.state.speaks != "clips":
            return
        attended: set[str] = set()
        async with asyncio.TaskGroup() as narrators:
            while True:
                for live in supervisor.running():
                    if live.episode_id not in attended and live.plan.narration and live.plan.view == "live":
                        attended.add(live.episode_id)
                        narrators.create_task(self._narrate(live, signals, audience))
                running = {live.episode_id for live in supervisor.running()}
                attended &= running
                self._paid_for &= running
                await signals.next_start().wait()

    async def ask(
        self, text: str, spoken: Callable[[str], str], speaker: Speaker = "lead"
    ) -> StoredClip | SpeechFailure:
        """Return the clip of a recorded line: a stored one, or one by a free voice."""
        said = plain_speech(spoken(self._names.mask.text(text)))
        voices = self._voices if speaker == "lead" else self._answering
        for voice in voices:
            found = await self.clips.find(voice, said)
            if found is not None:
                return found
        made: StoredClip | SpeechFailure = SpeechFailure("silent", "")
        for voice in voices:
            if not voice.costs_money and isinstance(made, SpeechFailure):
                made = await self.clips.clip(voice, said)
        return made

    def voices_that_speak(self) -> list[tuple[str, Speaker]]:
        """Return the free voices, best first: name and speaker."""
        voices: list[tuple[Voice, Speaker]] = [(one, "lead") for one in self._voices]
        voices += [(one, "analyst") for one in self._answering]
        return [
            (one.name, speaker)
            for one, speaker in voices
            if not one.costs_money and one.name not in ("browser", "silent")
        ]

    async def sample(self, voice: str, speaker: Speaker, text: str) -> StoredClip | SpeechFailure:
        """Return the clip of ``text`` by one of :meth:`voices_that_speak`."""
        voices = self._voices if speaker == "lead" else self._answering
        for one in voices:
            if one.name == voice and not one.costs_money:
                return await self.clips.clip(one, text)
        return SpeechFailure("silent", "unknown voice")

    async def aclose(self) -> None:
        """Close the voices."""
        for voice in (*self._voices, *self._answering):
            await voice.aclose()

    async def _narrate(self, live: EpisodeHandle, signals: EpisodeSignals, audience: Audience) -> None:
        narrator = Narrator(
            voices=[PaidVoice(one, self._budget) if one.costs_money else one for one in self._voices],
            clips=self.clips,
            clock=self._clock,
            ports=NarratorPorts(
                spoken=lambda text: live.plan.world.spoken(self._names.mask.text(text)),
                record=live.record_fact,
                on_air=lambda: live.pace is not Pace.MAX,
                may_pay=lambda: live.episode_id in self._paid_for and audience.count(live.episode_id) > 0,
                breathe=live.breathe if self._breathing else lambda seconds: None,
                address=AUDIO.__add__,
            ),
            tally=self.tally,
            answering=self._answering,
        )
        await narrator.run(signals.subscribe(live.episode_id, Overflow.DROP_OLDEST, capacity=LISTENING))


def open_narration(
    settings: Settings, clock: Clock, budget: CharacterBudget, names: NameMaskSource
) -> Narration:
    """Create the narration that ``settings`` describe.

    Raises:
        ConfigurationError: A voice or a storage of clips is not available.
    """
    chosen = choose_voices(
        settings.voice, cartesia=_cartesia(settings, clock), neural=_neural(clock), espeak=espeak_voice
    )
    if not settings.voice_answers:
        chosen = chosen._replace(answering=())
    clips = ClipStore(
        settings.data_dir / "clips",
        limit_bytes=settings.clips_mb * 1024 * 1024,
        shared=None if settings.clips_url is None else SharedClips(settings.clips_url, clock),
    )
    return Narration(
        chosen, clips=clips, clock=clock, breathing=settings.voice_breathing, budget=budget, names=names
    )


def _neural(clock: Clock) -> Callable[[Speaker], Voice] | None:
    """Return a factory of neural voices in one process; ``None`` if not installed."""
    if model_folder() is None:
        return None
    process = NeuralProcess(clock)
    return lambda speaker: NeuralVoice(process, speaker=speaker)


def _cartesia(settings: Settings, clock: Clock) -> Callable[[], Voice] | None:
    key = settings.cartesia_api_key
    if key is None:
        return None

    def make() -> Voice:
        from spectator.narration.cartesia import CartesiaVoice

        return CartesiaVoice(
            key.get_secret_value(),
            clock=clock,
            rng=Random(),
            voice_id=settings.cartesia_voice_id,
            model=CARTESIA_MODEL,
            base_url=settings.cartesia_base_url,
        )

    return make
