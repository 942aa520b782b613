"""The espeak-ng voice: one process a line, killed when it takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

from spectator.narration.speech import Speech, Unspoken
from spectator.narration.voices.sound import Encoder, best_encoder, mend_wav

PROGRAM: Final = "espeak-ng"
LONGEST_S: Final = 2.0
"""Seconds after which the program is killed; a line takes it about 12 ms."""

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
        longest_s: float = LONGEST_S,
        encoder: Encoder | None = None,
    ) -> None:
        self._encode = encoder or best_encoder()
        self._longest_s = longest_s
        self._command = (program, "--stdin", "--stdout", "-v", accent, "-s", str(words_per_minute))
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.fingerprint = f"espeak/{accent}/{words_per_minute}/{self._encode.__name__}"

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


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
