"""The program of the neural voice: a line of JSON in, a line of JSON and a WAV out.

It runs in a separate process, because a loaded model takes about 210 MB and its library needs CPU time. It
blocks all network connections.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import wave
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from spectator.narration.neural import NO_MODEL, WrongModel, checked_model, model_folder

SEED: Final = 0
"""Seed of the noise in the sound, so that a text always sounds the same."""

LOUDNESS: Final = 0.065
"""Root mean square of the samples, so that both speakers are equally loud."""
LOUDEST: Final = 0.95
"""Maximum of the samples."""

VOICES: Final[Mapping[str, tuple[float, float]]] = {"lead": (1.0, 1.0), "analyst": (0.62, 0.88)}
"""Factors for pitch and resonances of the model's voice, by speaker."""

RATE: Final = 24_000
LOWEST_PRIORITY: Final = 10

Speak = Callable[[str, str], bytes]
"""Makes a WAV from a text and a speaker."""


def main() -> None:
    """Answer every line of standard input until its end."""
    answers = sys.stdout.buffer
    with contextlib.suppress(OSError):
        os.nice(LOWEST_PRIORITY)
    sys.addaudithook(_stay_offline)
    try:
        speak = load()
    except (WrongModel, ImportError, OSError) as error:
        return _answer(answers, {"error": str(error)})
    _answer(answers, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            sound = speak(request["text"], request["speaker"])
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})
        else:
            _answer(answers, {"length": len(sound)}, sound)


def load() -> Speak:
    """Load the model."""
    folder = model_folder()
    if folder is None:
        raise WrongModel(NO_MODEL)
    model = str(checked_model(folder))
    import numpy
    from hibari import Hibari, dsp

    # With a path, the package does not download a voice.
    tts = Hibari(model=model, threads=1)

    def speak(text: str, speaker: str) -> bytes:
        pitch, resonance = VOICES[speaker]
        noise = numpy.random.default_rng(SEED)
        parts = []
        for phonemes in tts.phonemize(text):
            ids = numpy.asarray([tts.ids(phonemes)], numpy.int64)
            if ids.shape[1] < 3:
                continue
            made = tts.sess.run(None, {"ids": ids, "speed": numpy.ones(1, numpy.float32)})
            *spectrum, tone = (part[0] for part in made)
            shifted = [_shifted(part, resonance) for part in spectrum]
            parts.append(dsp.synth(*shifted, tone * numpy.float32(pitch), noise))
        return _wav(numpy.concatenate(parts) if parts else numpy.zeros(0, numpy.float32))

    speak("Ready.", "lead")
    return speak


def _shifted(spectrum: Any, factor: float) -> Any:
    """Scale the resonances of a spectrum, ``[bins, frames]``, by ``factor``."""
    import numpy

    if factor == 1:
        return spectrum
    last = spectrum.shape[0] - 1
    place = numpy.arange(last + 1, dtype=numpy.float32) / numpy.float32(factor)
    low = numpy.minimum(place.astype(int), last)
    part = numpy.clip(place - low, 0, 1)[:, None]
    return spectrum[low] * (1 - part) + spectrum[numpy.minimum(low + 1, last)] * part


def _wav(sound: Any) -> bytes:
    """Return samples as a 16-bit WAV with the common loudness."""
    import numpy

    if len(sound):
        loud, peak = float(numpy.sqrt(numpy.mean(sound**2))), float(numpy.abs(sound).max())
        sound = sound * (min(LOUDNESS / loud, LOUDEST / peak) if peak else 1.0)
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    return written.getvalue()


def _answer(answers: BinaryIO, head: Mapping[str, Any], sound: bytes = b"") -> None:
    answers.write(json.dumps(head).encode() + b"\n" + sound)
    answers.flush()


def _stay_offline(event: str, _: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request"):
        raise PermissionError("the neural voice must not open network connections")


if __name__ == "__main__":
    main()
