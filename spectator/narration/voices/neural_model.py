"""The model of the neural voice: which files of its package, at which digests, and whether they are here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

PACKAGE: Final = "hibari"
"""What is imported; it is installed as ``hibari-tts``."""

MODEL: Final = "hibari.onnx"
"""The file that makes the sound; the others turn text into phonemes."""

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
"""SHA-256 of every file that decides the sound, as ``hibari-tts`` 0.2.1 installs it."""


class WrongModel(Exception):
    """A file of the model is missing, or is not the one that was reviewed."""


def model_folder() -> Path | None:
    """Where the package keeps its model; ``None`` where it is not installed. Nothing of it is imported."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None or find_spec("onnxruntime") is None:
        return None
    return Path(found.origin).parent / "assets"


def checked_model(folder: Path) -> Path:
    """The path of the model, once every file has been found to be the one that was reviewed.

    Args:
        folder: See :func:`model_folder`.

    Raises:
        WrongModel: One is missing or differs; the message names it.
    """
    for name, digest in DIGESTS.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise WrongModel(f"{name} of the neural voice cannot be read: {error.strerror}") from None
        if found != digest:
            raise WrongModel(
                f"{name} of the neural voice is not the one that was reviewed "
                f"(SHA-256 {found[:12]}…, not {digest[:12]}…), so it is not used; {INSTALL} has the right one"
            )
    return folder / MODEL
