"""Commentary contracts: lines of a world, voices that speak them, sound formats.

A voice turns text into a whole clip, or says why there is none.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple, Protocol

from spectator.events import Event, Fact, NarrationLine, core_fact
from spectator.text import clean_text


@dataclass(frozen=True, slots=True)
class Line:
    """One line of commentary.

    Args:
        text: What is said, at most 300 characters.
        priority: 0 must be heard (a wicket, the result), 1 big moments, 2 summaries, 3 may be dropped.
        label: A short mark for the margin, such as ``OUT`` or ``4``.
        at: Where in the game, in its own notation, such as ``3.4``.
        radio: How it is said aloud, where that is not how it is written.
        reply: What the second commentator answers, at most 300 characters.
    """

    text: str
    priority: int = 3
    label: str | None = None
    at: str | None = None
    radio: str | None = None
    reply: str | None = None


class Commentator(Protocol):
    """Turns a world's events into lines; pure and deterministic, so that a replay says the same."""

    def __call__(self, event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
        """Lines about ``event``.

        Args:
            event: Any event of the episode but commentary itself.
            state: The viewer's state after it, as in a live snapshot.
        """
        ...


def silent(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """The commentator of a world that has none."""
    return ()


def line_fact(line: Line, seq: int) -> Fact:
    """The fact that ``line`` was said about event number ``seq``."""
    return core_fact(
        NarrationLine(
            text=line.text,
            for_seq=seq,
            priority=line.priority,
            label=line.label,
            at=line.at,
            radio=line.radio,
            reply=line.reply,
        )
    )


def aloud(data: Mapping[str, Any]) -> str:
    """What is said aloud of a line, from the data of its event."""
    said: str = data.get("radio") or data["text"]
    return said


MAX_SPOKEN: Final = 300
"""Longest text that a voice is given, in characters."""

SUFFIXES: Final = {"audio/mpeg": "mp3", "audio/wav": "wav"}
"""Kinds of clips, and how their files end."""

_MARKUP: Final = re.compile(r"[\[\]<>{}\\|\x00-\x1f]+")
_SPACES: Final = re.compile(r"\s+")

Speaker = Literal["lead", "analyst"]
"""Who speaks: the commentator who tells what happens, or the second one, who answers what it means."""

LEAD: Final[Speaker] = "lead"
ANALYST: Final[Speaker] = "analyst"

SpeechFailureReason = Literal[
    "client_speaks", "silent", "wrong_key", "no_credit", "busy", "slow", "unavailable", "garbage", "no_space"
]
"""Why there is no clip; a short stable name, for counting."""

PERMANENT: Final = frozenset({"wrong_key", "no_credit"})
"""Reasons that will not go away while an episode lasts."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A spoken line, whole.

    Args:
        audio: The encoded sound.
        mime: Its media type, one of :data:`SUFFIXES`.
        duration_s: How long it lasts, seconds.
    """

    audio: bytes
    mime: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class SpeechFailure:
    """There is no clip of a line.

    Args:
        reason: Why.
        detail: For people; holds no key.
    """

    reason: SpeechFailureReason
    detail: str = ""


class Voice(Protocol):
    """Speaks lines. Whatever goes wrong is an answer, never an exception."""

    @property
    def name(self) -> str:
        """``espeak``, ``cartesia``, ..."""
        ...

    @property
    def fingerprint(self) -> str:
        """All that decides the sound beside the text; equal fingerprints and texts share a clip."""
        ...

    @property
    def costs_money(self) -> bool:
        """Whether each line is paid for."""
        ...

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """Speak ``text``, which is plain: see :func:`plain_speech`. Cancelling it stops the work."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...


def plain_speech(text: str) -> str:
    """``text`` as a voice may have it: on one line, not too long, without markup and control characters.

    Engines read ``[[...]]`` as phonemes and ``<...>`` as SSML; names come from strangers.

    >>> plain_speech("FOUR!\\n<b>Bexhorn</b>  to [[Colvane]]")
    'FOUR! b Bexhorn /b to Colvane'
    """
    plain = _SPACES.sub(" ", _MARKUP.sub(" ", clean_text(text, 4 * MAX_SPOKEN))).strip()
    if len(plain) <= MAX_SPOKEN:
        return plain
    return plain[:MAX_SPOKEN].rpartition(" ")[0] or plain[:MAX_SPOKEN]


SMALLEST: Final = 0.9
"""Effort of the encoder, 0 .. 1: 0.9 gives about 24 kbit/s for 22 kHz speech, and is still quick."""

Encoder = Callable[[bytes], tuple[bytes, str]]
"""Makes a clip of a mended WAV; gives the bytes and their media type."""


class Wav(NamedTuple):
    """A mended WAV file.

    Args:
        audio: The file.
        duration_s: How long it lasts, seconds.
        silent: Whether every sample is zero, or there is none.
    """

    audio: bytes
    duration_s: float
    silent: bool


def repair_wav(raw: bytes) -> Wav:
    """A WAV file of 16-bit PCM whose sizes may be wrong, as programs write it that cannot seek.

    Raises:
        ValueError: It is no such file.
    """
    if raw[:4] != b"RIFF" or raw[8:12] != b"WAVE":
        raise ValueError("not a WAV file")
    position, form = 12, b""
    while position + 8 <= len(raw):
        kind, size = raw[position : position + 4], struct.unpack_from("<I", raw, position + 4)[0]
        if kind == b"fmt ":
            form = raw[position + 8 : position + 8 + size]
        if kind == b"data":
            return _wav(form, raw[position + 8 : position + 8 + size])
        position += 8 + size + (size & 1)
    raise ValueError("a WAV file without sound")


def _wav(form: bytes, samples: bytes) -> Wav:
    if len(form) < 16:
        raise ValueError("a WAV file without a format")
    coding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
    if coding != 1 or bits != 16 or channels < 1 or rate < 1 or block != 2 * channels:
        raise ValueError("not 16-bit PCM")
    samples = samples[: len(samples) - len(samples) % block]
    head = struct.pack("<4sI4s4sI", b"RIFF", 20 + 16 + len(samples), b"WAVE", b"fmt ", 16)
    audio = head + form[:16] + struct.pack("<4sI", b"data", len(samples)) + samples
    return Wav(audio, len(samples) / block / rate, not any(samples))


def best_encoder() -> Encoder:
    """MP3 where the package soundfile is installed (extra ``voice``), else the WAV as it is."""
    return as_mp3 if find_spec("soundfile") is not None else as_wav


def as_wav(wav: bytes) -> tuple[bytes, str]:
    """The WAV as it is."""
    return wav, "audio/wav"


def as_mp3(wav: bytes) -> tuple[bytes, str]:
    """The WAV as MP3, a tenth of its size or less."""
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16", always_2d=True)
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, rate, format="MP3", compression_level=SMALLEST, bitrate_mode="CONSTANT")
    return encoded.getvalue(), "audio/mpeg"
