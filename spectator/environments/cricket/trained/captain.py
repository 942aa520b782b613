"""The trained captain as a preset of the catalogue, and the card of its weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from spectator.errors import ConfigurationError
from spectator.policies.policy import Policy, Preset

FOLDER: Final = Path(__file__).parent.parent / "data"
WEIGHTS: Final = "captain.npz"
CARD: Final = "captain.json"
"""File that describes the weights: digest, size, figures."""
REPAIR: Final = "reinstall openenv-spectator"


@dataclass(frozen=True)
class Card:
    """The description of weights.

    Args:
        sha256: Digest of the file.
        size: Size of the file in bytes.
        name: Name of the model, with its version.
        world: Version of the world that it was trained on.
    """

    sha256: str
    size: int
    name: str
    world: str


def card_of(folder: Path = FOLDER) -> Card | None:
    """Return the card in a folder; ``None`` if it is missing or unreadable."""
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        return Card(card["sha256"], card["size"], card["name"], card["world"])
    except (OSError, ValueError, KeyError):
        return None


def missing_weights(folder: Path = FOLDER) -> str | None:
    """Return why the weights are unusable, without reading them; ``None`` if usable."""
    card = card_of(folder)
    path = folder / WEIGHTS
    if card is None or not path.is_file():
        return f"needs its weights, which are missing from this installation: {REPAIR}"
    if path.stat().st_size != card.size:
        return f"has damaged weights: {REPAIR}"
    return None


@cache
def check_weights(folder: Path = FOLDER) -> None:
    """Check the weights against their card, once per process.

    Raises:
        ConfigurationError: The weights are missing or do not match the card.
    """
    card = card_of(folder)
    if (missing := missing_weights(folder)) is not None or card is None:
        raise ConfigurationError(f"the trained captain {missing}")
    if sha256((folder / WEIGHTS).read_bytes()).hexdigest() != card.sha256:
        raise ConfigurationError(
            "the trained captain's weights are damaged (their SHA-256 does not match the card): " + REPAIR
        )


NAME: Final = "trained"
SUMMARY: Final = (
    "A small language model that learned this game on this world: it says its order in words and needs "
    "no key."
)


def _build(seed: int) -> Policy:
    """Build a policy; imports are here because every start reads the catalogue."""
    from spectator.environments.cricket.trained.policy import build

    return build(seed)


def trained_captain(world_version: str, folder: Path = FOLDER) -> Preset:
    """Return the preset of the trained captain."""
    card, summary = card_of(folder), SUMMARY
    if card is not None and card.world != world_version:
        summary += (
            f" It was trained on version {card.world} of this world, not {world_version}: its orders stay "
            "legal, but may be weaker."
        )
    return Preset(NAME, "Asha (trained here)", summary, "model", _build, missing=missing_weights(folder))
