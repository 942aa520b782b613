"""The voices of a server, their selection, and the character budget of paid voices."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple

from spectator.clock import Clock
from spectator.narration.commentary import (
    Encoder,
    Speaker,
    Speech,
    SpeechFailure,
    Voice,
    best_encoder,
    clip_of,
)
from spectator.narration.neural import NO_MODEL


class NoVoice:
    """Makes no clips: each viewer's browser speaks, or there are captions only."""

    costs_money = False

    def __init__(self, name: Literal["browser", "silent"]) -> None:
        self.name = self.fingerprint = name

    async def speak(self, text: str) -> SpeechFailure:
        """Return a failure: there is no clip."""
        return SpeechFailure("client_speaks" if self.name == "browser" else "silent")

    async def aclose(self) -> None:
        """Do nothing."""


PROGRAM: Final = "espeak-ng"
LONGEST_S: Final = 2.0
"""Seconds after which the program is killed; a line takes about 12 ms."""

OWN_PITCH: Final = 50
"""The program's default pitch, of 0 .. 99."""
LOWER_PITCH: Final = 30
"""Pitch of the second commentator."""
OTHER_ACCENT: Final[dict[str, str]] = {"en-gb": "en-us"}
"""Accent of the second commentator, by that of the first; ``en-gb`` for any other."""

CONCURRENCY: Final = 2
"""Concurrent processes of the program."""


def espeak_program() -> str | None:
    """Return the path of the program; ``None`` if it is not installed."""
    return shutil.which(PROGRAM)


class EspeakVoice:
    """Speaks with espeak-ng, one process per line.

    Args:
        accent: The program's name of the voice, such as ``en-gb``.
        words_per_minute: Speed, 80 .. 450.
        pitch: Pitch, 0 .. 99.
    """

    name = "espeak"
    costs_money = False

    def __init__(
        self,
        program: str,
        *,
        accent: str = "en-gb",
        words_per_minute: int = 170,
        pitch: int = OWN_PITCH,
        longest_s: float = LONGEST_S,
        encoder: Encoder | None = None,
    ) -> None:
        self._encode = encoder or best_encoder()
        self._longest_s = longest_s
        speed = ("-s", str(words_per_minute), "-p", str(pitch))
        self._command = (program, "--stdin", "--stdout", "-v", accent, *speed)
        self._slots = asyncio.Semaphore(CONCURRENCY)
        higher = "" if pitch == OWN_PITCH else f"/{pitch}"
        self.fingerprint = f"espeak/{accent}/{words_per_minute}{higher}/{self._encode.__name__}"

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """See :meth:`spectator.narration.commentary.Voice.speak`."""
        async with self._slots:
            try:
                raw = await self._run(text)
            except TimeoutError:
                return SpeechFailure(
                    "slow", f"{PROGRAM} took longer than {self._longest_s:g} s and was killed"
                )
            except OSError as error:
                return SpeechFailure("unavailable", f"{PROGRAM} could not be started: {error.strerror}")
            return await clip_of(raw, self._encode, PROGRAM)

    async def aclose(self) -> None:
        """Do nothing: no process outlives its line."""

    async def _run(self, text: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        try:
            async with asyncio.timeout(self._longest_s):
                output, _ = await process.communicate(text.encode())
        finally:
            await _end(process)
        return output


def espeak_voice(
    program: str, speaker: Speaker, *, accent: str = "en-gb", words_per_minute: int = 170
) -> EspeakVoice:
    """Return a speaker's voice; the second has another accent and a lower pitch."""
    if speaker == "lead":
        return EspeakVoice(program, accent=accent, words_per_minute=words_per_minute)
    other = OTHER_ACCENT.get(accent, "en-gb")
    return EspeakVoice(program, accent=other, words_per_minute=words_per_minute, pitch=LOWER_PITCH)


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


VoiceName = Literal["auto", "cartesia", "neural", "espeak", "browser", "silent"]

CARTESIA_URL: Final = "https://api.cartesia.ai"
CARTESIA_MODEL: Final = "sonic-3.5"
CARTESIA_VOICE: Final = "e07c00bc-4134-4eae-9ea4-1a55fb45746b"
"""The voice in Cartesia's examples."""

NO_KEY: Final = "Cartesia needs a key: set CARTESIA_API_KEY"
NO_PACKAGES: Final = "Cartesia needs: pip install 'openenv-spectator[voice]'"
NO_PROGRAM: Final = f"{PROGRAM} is not installed: apt-get install {PROGRAM}"


class Chosen(NamedTuple):
    """The voices of a server.

    Args:
        voices: Voices of the first commentator, best first; the others speak if it fails.
        missing: What the requested voice needs, for people; ``None`` if nothing.
        answering: Voices of the second commentator, in the same way; they cost no money.
    """

    voices: Sequence[Voice]
    missing: str | None = None
    answering: Sequence[Voice] = ()


def choose_voices(
    name: VoiceName,
    *,
    cartesia: Callable[[], Voice] | None,
    neural: Callable[[Speaker], Voice] | None = None,
    espeak: Callable[[str, Speaker], Voice] = espeak_voice,
) -> Chosen:
    """Return the voices for a setting, or the browser voice if unavailable.

    Args:
        name: The setting. ``auto`` uses Cartesia if there is a key, otherwise the neural voice, espeak-ng or
            the browser, in this order of availability.
        cartesia: Makes the Cartesia voice; ``None`` without a key.
        neural: Makes the neural voice of a speaker; ``None`` if its model is not installed.
    """
    if name == "silent":
        return Chosen([NoVoice("silent")])
    if name == "browser":
        return Chosen([NoVoice("browser")])
    lead, analyst = (_local(name, neural, espeak, speaker) for speaker in ("lead", "analyst"))
    if name == "neural" and neural is None:
        return Chosen([NoVoice("browser")], NO_MODEL)
    if name == "espeak" and not lead:
        return Chosen([NoVoice("browser")], NO_PROGRAM)
    if name in ("neural", "espeak"):
        return Chosen(lead, answering=analyst)
    packed = find_spec("httpx") is not None and find_spec("mutagen") is not None
    if cartesia is not None and packed:
        return Chosen([cartesia(), *lead], answering=analyst or _local("auto", neural, espeak, "analyst"))
    if name == "cartesia":
        return Chosen([NoVoice("browser")], NO_KEY if cartesia is None else NO_PACKAGES)
    return Chosen(lead or [NoVoice("browser")], answering=analyst)


def _local(
    name: VoiceName,
    neural: Callable[[Speaker], Voice] | None,
    espeak: Callable[[str, Speaker], Voice],
    speaker: Speaker,
) -> list[Voice]:
    """Return the free voices of a speaker for the setting ``name``."""
    program = espeak_program() if name != "cartesia" else None
    made = [neural(speaker)] if neural is not None and name in ("auto", "neural") else []
    return [*made, espeak(program, speaker)] if program is not None else made


class CharacterBudget:
    """Character budget of paid voices, per episode and per day (UTC).

    Args:
        day: Limit of characters per day; 0 = no limit.
        episode: Limit of characters per episode; 0 = no limit.
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
        """Count ``characters`` for today; return why that is not allowed, or ``None``."""
        if 0 < self._limit < self.sent + characters:
            return f"the day's {self._limit:,} characters are used up (SPECTATOR_VOICE_DAY_CHARACTERS)"
        self._sent += characters
        return None


class PaidVoice:
    """A paid voice with a character budget, for one episode."""

    costs_money = True

    def __init__(self, voice: Voice, budget: CharacterBudget) -> None:
        self.name = voice.name
        self.fingerprint = voice.fingerprint
        self._voice = voice
        self._budget = budget
        self._sent = 0

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """See :meth:`Voice.speak`; ``no_credit`` if the budget is used up."""
        limit = self._budget.episode
        if 0 < limit < self._sent + len(text):
            return SpeechFailure(
                "no_credit",
                f"the episode's {limit:,} characters are used up (SPECTATOR_VOICE_EPISODE_CHARACTERS)",
            )
        refusal = await self._budget.take(len(text))
        if refusal is not None:
            return SpeechFailure("no_credit", refusal)
        self._sent += len(text)
        return await self._voice.speak(text)

    async def aclose(self) -> None:
        """Do nothing: the voice is shared."""
