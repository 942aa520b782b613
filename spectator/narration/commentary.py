"""Commentary contracts: lines of a world, voices that speak them, audio formats."""

from __future__ import annotations

import asyncio
import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple, Protocol

from spectator.core_events import NarrationLine, core_fact
from spectator.events import Event, Fact
from spectator.text import clean_text


@dataclass(frozen=True, slots=True)
class Line:
    """One line of commentary.

    Args:
        text: The text, at most 300 characters.
        priority: 0 must be heard (a wicket, the result), 1 big moments, 2 summaries, 3 may be dropped.
        label: A short label for the margin, such as ``OUT`` or ``4``.
        at: Position in the game, in its own notation, such as ``3.4``.
        radio: The spoken text, if it differs from the written one.
        reply: The second commentator's answer, at most 300 characters.
    """

    text: str
    priority: int = 3
    label: str | None = None
    at: str | None = None
    radio: str | None = None
    reply: str | None = None


class Commentator(Protocol):
    """Makes lines from a world's events; deterministic, so that replays are equal."""

    def __call__(self, event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
        """Return the lines about ``event``.

        Args:
            event: Any event of the episode except commentary.
            state: The viewer's state after the event, as in a live snapshot.
        """
        ...


def silent(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Return no lines: the commentator of a world without commentary."""
    return ()


def line_fact(line: Line, seq: int) -> Fact:
    """Return the fact of ``line`` about the event ``seq``."""
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
    """Return the spoken text of a line, from the data of its event."""
    text: str = data.get("radio") or data["text"]
    return text


MAX_SPOKEN: Final = 300
"""Maximum characters of a text for a voice."""

SUFFIXES: Final = {"audio/mpeg": "mp3", "audio/wav": "wav"}
"""File suffixes of clips, by media type."""

_MARKUP: Final = re.compile(r"[\[\]<>{}\\|\x00-\x1f]+")
_SPACES: Final = re.compile(r"\s+")

Speaker = Literal["lead", "analyst"]
"""The first commentator, who describes the game, or the second, who analyses it."""

LEAD: Final[Speaker] = "lead"
ANALYST: Final[Speaker] = "analyst"

SpeechFailureReason = Literal[
    "client_speaks", "silent", "wrong_key", "no_credit", "busy", "slow", "unavailable", "garbage", "no_space"
]
"""Why there is no clip; stable names, for counting."""

PERMANENT: Final = frozenset({"wrong_key", "no_credit"})
"""Reasons that will not change during an episode."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A complete spoken line.

    Args:
        mime: Media type, one of :data:`SUFFIXES`.
    """

    audio: bytes
    mime: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class SpeechFailure:
    """The reason why a line could not be spoken.

    Args:
        detail: Description for people; never contains a key.
    """

    reason: SpeechFailureReason
    detail: str = ""


class Voice(Protocol):
    """Speaks lines. Failures are returned, never raised."""

    @property
    def name(self) -> str:
        """``espeak``, ``cartesia``, ..."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the sound: equal fingerprints and texts share a clip."""
        ...

    @property
    def costs_money(self) -> bool:
        """Whether each line costs money."""
        ...

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """Speak a text from :func:`plain_speech`. Cancelling stops the work."""
        ...

    async def aclose(self) -> None:
        """Release resources."""
        ...


def plain_speech(text: str) -> str:
    """Return ``text`` for a voice: one line, limited length, no markup.

    Voices read ``[[...]]`` as phonemes and ``<...>`` as SSML; names may come from untrusted users.

    >>> plain_speech("FOUR!\\n<b>Bexhorn</b>  to [[Colvane]]")
    'FOUR! b Bexhorn /b to Colvane'
    """
    plain = _SPACES.sub(" ", _MARKUP.sub(" ", clean_text(text, 4 * MAX_SPOKEN))).strip()
    if len(plain) <= MAX_SPOKEN:
        return plain
    return plain[:MAX_SPOKEN].rpartition(" ")[0] or plain[:MAX_SPOKEN]


SMALLEST: Final = 0.9
"""Compression level of the encoder, 0 .. 1: 0.9 gives about 24 kbit/s for 22 kHz speech, quickly."""

Encoder = Callable[[bytes], tuple[bytes, str]]
"""Encodes a repaired WAV as a clip; returns the bytes and the media type."""


class Wav(NamedTuple):
    """A repaired WAV file.

    Args:
        silent: Whether every sample is zero, or there are no samples.
    """

    audio: bytes
    duration_s: float
    silent: bool


def repair_wav(raw: bytes) -> Wav:
    """Repair the sizes in a 16-bit PCM WAV file that was written to a pipe.

    Raises:
        ValueError: It is not a 16-bit PCM WAV file.
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


async def clip_of(raw: bytes, encode: Encoder, program: str) -> Speech | SpeechFailure:
    """Return the clip of a WAV that ``program`` wrote."""
    try:
        wav = repair_wav(raw)
    except ValueError as error:
        return SpeechFailure("garbage", f"{program} wrote {error}")
    if wav.silent:
        return SpeechFailure("garbage", f"{program} wrote silence")
    audio, mime = await asyncio.to_thread(encode, wav.audio)
    return Speech(audio, mime, wav.duration_s)


def best_encoder() -> Encoder:
    """Return :func:`as_mp3` if soundfile (extra ``voice``) is installed, or as_wav."""
    return as_mp3 if find_spec("soundfile") is not None else as_wav


def as_wav(wav: bytes) -> tuple[bytes, str]:
    """Return the WAV unchanged."""
    return wav, "audio/wav"


def as_mp3(wav: bytes) -> tuple[bytes, str]:
    """Encode a WAV as MP3, a tenth of its size or less."""
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16", always_2d=True)
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, rate, format="MP3", compression_level=SMALLEST, bitrate_mode="CONSTANT")
    return encoded.getvalue(), "audio/mpeg"
