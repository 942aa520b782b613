"""The card of the trained captain's weights: what is known of them before they are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from spectator.errors import ConfigurationError

FOLDER: Final = Path(__file__).parent.parent / "data"
WEIGHTS: Final = "captain.npz"
CARD: Final = "captain.json"
"""What the weights are: digest, size, figures."""
REPAIR: Final = "install openenv-spectator again"


@dataclass(frozen=True)
class Card:
    """What is known of weights before they are read.

    Args:
        sha256: Digest of the file.
        size: Its bytes.
        name: Name of the model, with its version.
        world: Version of the world that it was trained on.
    """

    sha256: str
    size: int
    name: str
    world: str


def card_of(folder: Path = FOLDER) -> Card | None:
    """The card in a folder; ``None`` where there is none that can be read."""
    try:
        told = json.loads((folder / CARD).read_text(encoding="utf-8"))
        return Card(told["sha256"], told["size"], told["name"], told["world"])
    except (OSError, ValueError, KeyError):
        return None


def missing_weights(folder: Path = FOLDER) -> str | None:
    """Why the weights cannot be used, by a look at the folder alone; ``None`` where nothing is wrong."""
    card = card_of(folder)
    path = folder / WEIGHTS
    if card is None or not path.is_file():
        return f"needs its weights, which are not in this installation: {REPAIR}"
    if path.stat().st_size != card.size:
        return f"has damaged weights: {REPAIR}"
    return None


@cache
def check_weights(folder: Path = FOLDER) -> None:
    """Check the weights against their card, once in a process.

    Raises:
        ConfigurationError: They are missing, or not those of the card.
    """
    card = card_of(folder)
    if (missing := missing_weights(folder)) is not None or card is None:
        raise ConfigurationError(f"the trained captain {missing}")
    if sha256((folder / WEIGHTS).read_bytes()).hexdigest() != card.sha256:
        raise ConfigurationError(
            "the trained captain's weights are damaged (their SHA-256 is not the card's): " + REPAIR
        )
