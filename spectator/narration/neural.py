"""The neural voice: its model files, and the process that runs the model."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from spectator.child_program import ChildProgram
from spectator.clock import Clock
from spectator.narration.commentary import Encoder, Speaker, Speech, SpeechFailure, best_encoder, clip_of

PACKAGE: Final = "hibari"
"""The import name; the distribution is ``hibari-tts``."""

MODEL: Final = "hibari.onnx"
"""The file that generates audio; the others convert text to phonemes."""

INSTALL: Final = "pip install 'openenv-spectator[voice-neural]'"

NO_MODEL: Final = f"the neural voice needs: {INSTALL}"

DIGESTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
        "lexicon_us_gold.json.gz": "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2",
        "lexicon_us_silver.json.gz": "c4c2546ebf1eb07010331e7ef785a431aa17ba8e7bfb6b4af8d654ee96a71fd3",
        "normalize.json": "d478ff05404bc43ac3e0468e306674e51085f1b1afc94cdef7c7ea4fb0d56bd8",
        "oov.json": "b462e6e5dbdf0e7346c732385d0dd844f612f1770871441c56932bff4ca75d8c",
        "oov.onnx": "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
        "tagger.json.gz": "d2da7502284bbbe45d49e0b7ce3ce67bdab82254150f4317f1b8559b4d38d0eb",
        "tokenizer_exceptions.json": "ddf3a3da07bdcf5144270ea4530191d8580fb4fd6f5ae93296e87916e795659a",
        "vocab.json": "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
        "voices.json": "f8b7657ecd0e0e362d3403e99538c0e5bfe20d6a903dfcd04c772b2c73abb204",
    }
)
"""SHA-256 of every model file, as installed by ``hibari-tts`` 0.2.1."""


class WrongModel(Exception):
    """A file of the model is missing or differs from the reviewed one."""


def model_folder() -> Path | None:
    """Return the model's folder, without an import; ``None`` if not installed."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None or find_spec("onnxruntime") is None:
        return None
    return Path(found.origin).parent / "assets"


def checked_model(folder: Path) -> Path:
    """Check the digests of all model files; return the path of the model."""
    for name, digest in DIGESTS.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise WrongModel(f"{name} of the neural voice cannot be read: {error.strerror}") from None
        if found != digest:
            raise WrongModel(
                f"{name} of the neural voice differs from the reviewed file "
                f"(SHA-256 {found[:12]}…, not {digest[:12]}…); install the right one: {INSTALL}"
            )
    return folder / MODEL


PROGRAM: Final = "spectator.narration.neural_program"

START_S: Final = 30.0
"""Timeout for loading the model, seconds; it takes about one."""
LONGEST_S: Final = 5.0
"""Timeout of a line, seconds, after which the process is killed; a line takes about 0.05."""

FAILURES: Final = 3
"""Failures in a row after which the voice pauses."""
REST_S: Final = 60.0
"""The pause, seconds."""

LARGEST: Final = 8 * 1024 * 1024
"""Maximum size of a WAV, bytes: about three minutes."""


class NeuralProcess:
    """The process that speaks, line by line, for all voices of its model.

    After three failures in a row it pauses for a minute.
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
        self._program = ChildProgram(
            command, greets=True, start_s=start_s, answer_s=longest_s, largest=LARGEST, quiet=True
        )
        self._turn = asyncio.Lock()
        self._failed = 0
        self._rests_until = float("-inf")

    @property
    def process_id(self) -> int | None:
        """Id of the running process, if there is one."""
        return self._program.process_id

    async def sound(self, text: str, speaker: Speaker) -> bytes | SpeechFailure:
        """Return ``text`` as a WAV."""
        async with self._turn:
            if self._clock.monotonic() < self._rests_until:
                return SpeechFailure("unavailable", "the neural voice is paused after failures")
            try:
                head, sound = await self._program.ask({"text": text, "speaker": speaker})
            except TimeoutError:
                self._note_failure()
                return SpeechFailure("slow", "the neural voice took too long and was stopped")
            except OSError as error:
                self._note_failure()
                return SpeechFailure("unavailable", f"the neural voice: {error}")
        if "error" in head:
            return SpeechFailure("garbage", f"the neural voice could not speak it: {head['error']}")
        self._failed = 0
        return sound

    async def aclose(self) -> None:
        """Stop the process and all requests."""
        await self._program.aclose()

    def _note_failure(self) -> None:
        self._failed += 1
        if self._failed >= FAILURES:
            self._failed, self._rests_until = 0, self._clock.monotonic() + REST_S


class NeuralVoice:
    """Speaks with a neural model."""

    name = "neural"
    costs_money = False

    def __init__(
        self, process: NeuralProcess, *, speaker: Speaker = "lead", encoder: Encoder | None = None
    ) -> None:
        self._process = process
        self._speaker = speaker
        self._encode = encoder or best_encoder()
        self.fingerprint = f"neural/{DIGESTS[MODEL][:16]}/{speaker}/{self._encode.__name__}"

    async def speak(self, text: str) -> Speech | SpeechFailure:
        """See :meth:`spectator.narration.commentary.Voice.speak`."""
        raw = await self._process.sound(text, self._speaker)
        if isinstance(raw, SpeechFailure):
            return raw
        return await clip_of(raw, self._encode, "the neural voice")

    async def aclose(self) -> None:
        """Stop the process."""
        await self._process.aclose()
