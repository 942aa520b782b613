"""The espeak-ng voice: one process a line, killed when it takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

from spectator.narration.speech import Speaker, Speech, Unspoken
from spectator.narration.voices.sound import Encoder, best_encoder, mend_wav

PROGRAM: Final = "espeak-ng"
LONGEST_S: Final = 2.0
"""Seconds after which the program is killed; a line takes it about 12 ms."""

OWN_PITCH: Final = 50
"""The program's own pitch, of 0 .. 99."""
LOWER_PITCH: Final = 30
"""That of the second commentator."""
OTHER_ACCENT: Final[dict[str, str]] = {"en-gb": "en-us"}
"""Accent of the second commentator by that of the first; ``en-gb`` beside any other."""

AT_ONCE: Final = 2
"""Programs that run at once."""


def espeak_program() -> str | None:
    """Path of the program; ``None`` where it is not installed."""
    return shutil.which(PROGRAM)


class EspeakVoice:
    """Speaks by espeak-ng.

    Args:
        program: Path of the program.
        accent: Its name for the voice, such as ``en-gb``.
        words_per_minute: How fast it speaks, 80 .. 450.
        pitch: How high, 0 .. 99.
        longest_s: Seconds after which it is killed.
        encoder: What makes the clip small.
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
        self._slots = asyncio.Semaphore(AT_ONCE)
        higher = "" if pitch == OWN_PITCH else f"/{pitch}"
        self.fingerprint = f"espeak/{accent}/{words_per_minute}{higher}/{self._encode.__name__}"

    async def speak(self, text: str) -> Speech | Unspoken:
        """See :meth:`spectator.narration.speech.Voice.speak`."""
        async with self._slots:
            try:
                raw = await self._run(text)
            except TimeoutError:
                return Unspoken("slow", f"{PROGRAM} took longer than {self._longest_s:g} s and was killed")
            except OSError as error:
                return Unspoken("unavailable", f"{PROGRAM} could not be run: {error.strerror}")
            try:
                wav = mend_wav(raw)
            except ValueError as error:
                return Unspoken("garbage", f"{PROGRAM} wrote {error}")
            if wav.silent:
                return Unspoken("garbage", f"{PROGRAM} wrote nothing to be heard")
            audio, mime = await asyncio.to_thread(self._encode, wav.audio)
            return Speech(audio, mime, wav.duration_s)

    async def aclose(self) -> None:
        """Nothing outlives a line."""

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
    """The espeak-ng voice of a speaker: the second commentator has another accent, and speaks lower.

    Args:
        program: Path of the program.
        speaker: Who speaks.
        accent: That of the first commentator.
        words_per_minute: How fast both speak.
    """
    if speaker == "lead":
        return EspeakVoice(program, accent=accent, words_per_minute=words_per_minute)
    other = OTHER_ACCENT.get(accent, "en-gb")
    return EspeakVoice(program, accent=other, words_per_minute=words_per_minute, pitch=LOWER_PITCH)


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
