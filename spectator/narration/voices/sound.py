"""Sound formats: repairs a WAV that was written to a pipe, and encodes it small."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, NamedTuple

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


def mend_wav(raw: bytes) -> Wav:
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
