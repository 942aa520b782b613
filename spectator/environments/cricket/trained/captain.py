"""The trained captain as a preset of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spectator.environments.cricket.trained.card import FOLDER, card_of, missing_weights
from spectator.policies.base import Policy, Preset

NAME: Final = "trained"
SUMMARY: Final = (
    "A small language model that learnt this game on this world: it says its order in words and needs no key."
)


def _build(seed: int) -> Policy:
    """A new policy; what it needs is imported here, because the catalogue is read at every start."""
    from spectator.environments.cricket.trained.policy import build

    return build(seed)


def trained_captain(world_version: str, folder: Path = FOLDER) -> Preset:
    """The preset, by what is installed here.

    Args:
        world_version: Version of the world that it is to play.
        folder: Holds its weights and their card.
    """
    card, summary = card_of(folder), SUMMARY
    if card is not None and card.world != world_version:
        summary += (
            f" It was trained on version {card.world} of this world, not {world_version}: its orders stay "
            "legal, but may be weaker."
        )
    return Preset(NAME, "Asha (trained here)", summary, "model", _build, missing=missing_weights(folder))
