"""The neural voice: a model in a process of its own, started when needed and replaced when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Any, Final

from spectator.clock import Clock
from spectator.narration.speech import Speaker, Speech, Unspoken
from spectator.narration.voices.neural_model import DIGESTS, MODEL
from spectator.narration.voices.sound import Encoder, best_encoder, mend_wav

PROGRAM: Final = "spectator.narration.voices.neural_program"

START_S: Final = 30.0
"""Seconds in which the model must be loaded; it takes about one."""
LONGEST_S: Final = 5.0
"""Seconds after which a line is given up and the process killed; one takes about 0.05."""

FAILURES: Final = 3
REST_S: Final = 60.0
"""After so many failures in a row the voice rests for so many seconds."""

LARGEST: Final = 8 * 1024 * 1024
"""Most bytes of a WAV: some three minutes."""


class Silenced(Exception):
    """The process is no use any more, for the reason given."""


class NeuralProcess:
    """The process that speaks, one line after the other, for all voices of its model.

    It starts with the first line. When it dies, hangs or answers nonsense it is killed, and the next line
    starts another; after three failures in a row it is left alone for a minute.

    Args:
        clock: Measures the rest.
        command: What is run.
        start_s: Longest wait until it is ready, seconds.
        longest_s: Longest wait for a line, seconds.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        command: Sequence[str] = (sys.executable, "-m", PROGRAM),
        start_s: float = START_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._clock = clock
        self._command = tuple(command)
        self._start_s = start_s
        self._longest_s = longest_s
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._failed = 0
        self._rests_until = float("-inf")
        self._closed = False
        self._asked: set[asyncio.Task[bytes | Unspoken]] = set()

    @property
    def process_id(self) -> int | None:
        """The process that speaks, if there is one now."""
        return None if self._process is None else self._process.pid

    async def sound(self, text: str, speaker: Speaker) -> bytes | Unspoken:
        """A WAV of ``text``; a caller who is cancelled leaves a line that is made to its end."""
        asked = asyncio.create_task(self._in_turn(text, speaker))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return await asyncio.shield(asked)

    async def aclose(self) -> None:
        """End the process, and whatever is being made."""
        self._closed = True
        for task in tuple(self._asked):
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        await self._forget()

    async def _in_turn(self, text: str, speaker: Speaker) -> bytes | Unspoken:
        async with self._turn:
            if self._closed:
                return Unspoken("unavailable", "the server goes away")
            if self._clock.monotonic() < self._rests_until:
                return Unspoken("unavailable", "the neural voice rests after failing")
            try:
                sound = await self._ask(text, speaker)
            except TimeoutError:
                await self._failure()
                return Unspoken("slow", "the neural voice took too long and was ended")
            except (Silenced, OSError, ValueError, KeyError, TypeError) as error:
                await self._failure()
                return Unspoken("unavailable", str(error))
            if isinstance(sound, bytes):
                self._failed = 0
            return sound

    async def _ask(self, text: str, speaker: Speaker) -> bytes | Unspoken:
        process = self._process
        if process is None:
            async with asyncio.timeout(self._start_s):
                process = await self._started()
        async with asyncio.timeout(self._longest_s):
            assert process.stdin is not None
            process.stdin.write(json.dumps({"text": text, "speaker": speaker}).encode() + b"\n")
            await process.stdin.drain()
            head = await _head(process)
            if "error" in head:
                return Unspoken("garbage", f"the neural voice could not say it: {head['error']}")
            return await _sound(process, head["length"])

    async def _started(self) -> Process:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )
        head = await _head(process)
        if "ready" not in head:
            raise Silenced(str(head.get("error", "the neural voice answers nonsense")))
        return process

    async def _failure(self) -> None:
        self._failed += 1
        if self._failed >= FAILURES:
            self._failed, self._rests_until = 0, self._clock.monotonic() + REST_S
        await self._forget()

    async def _forget(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class NeuralVoice:
    """Speaks by a neural model.

    Args:
        process: What makes the sound; other voices may share it.
        speaker: Whose voice.
        encoder: What makes the clip small.
    """

    name = "neural"
    costs_money = False

    def __init__(
        self, process: NeuralProcess, *, speaker: Speaker = "lead", encoder: Encoder | None = None
    ) -> None:
        self._process = process
        self._speaker = speaker
        self._encode = encoder or best_encoder()
        self.fingerprint = f"neural/{DIGESTS[MODEL][:16]}/{speaker}/{self._encode.__name__}"

    async def speak(self, text: str) -> Speech | Unspoken:
        """See :meth:`spectator.narration.speech.Voice.speak`."""
        raw = await self._process.sound(text, self._speaker)
        if isinstance(raw, Unspoken):
            return raw
        try:
            wav = mend_wav(raw)
        except ValueError as error:
            return Unspoken("garbage", f"the neural voice wrote {error}")
        if wav.silent:
            return Unspoken("garbage", "the neural voice wrote nothing to be heard")
        audio, mime = await asyncio.to_thread(self._encode, wav.audio)
        return Speech(audio, mime, wav.duration_s)

    async def aclose(self) -> None:
        """End the process."""
        await self._process.aclose()


async def _head(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    head = json.loads(line or b"null")
    if not isinstance(head, dict):
        raise Silenced("the process of the neural voice ended")
    return head


async def _sound(process: Process, length: int) -> bytes:
    assert process.stdout is not None
    if not isinstance(length, int) or not 0 <= length <= LARGEST:
        raise Silenced("the neural voice answers nonsense")
    try:
        return await process.stdout.readexactly(length)
    except asyncio.IncompleteReadError:
        raise Silenced("the process of the neural voice ended") from None
