"""Trained captains as presets of the catalogue, and the cards of their weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from spectator.errors import ConfigurationError
from spectator.policies.policy import Policy, Preset

if TYPE_CHECKING:
    from spectator.environments.cricket.trained.policy import TrainedPolicy
    from spectator.llm.chat import ChatEndpoint
    from spectator.policies.captains import TrainedCaptain

FOLDER: Final = Path(__file__).parent.parent / "data"
WEIGHTS: Final = "captain.npz"
CARD: Final = "captain.json"
"""File that describes the weights: digest, size, figures."""


class Origin(NamedTuple):
    """Where weights come from, for error messages.

    Args:
        place: Where its weights must be.
        repair: What to do if they are unusable.
    """

    captain: str
    place: str
    repair: str


SHIPPED: Final = Origin("the trained captain", "this installation", "reinstall openenv-spectator")


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
        found = Card(card["sha256"], card["size"], card["name"], card["world"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    texts = (found.sha256, found.name, found.world)
    return found if all(isinstance(one, str) for one in texts) else None


def missing_weights(folder: Path = FOLDER, origin: Origin = SHIPPED) -> str | None:
    """Return why the weights are unusable, without reading them; ``None`` if usable."""
    card = card_of(folder)
    path = folder / WEIGHTS
    if card is None or not path.is_file():
        return f"needs its weights, which are missing from {origin.place}: {origin.repair}"
    if path.stat().st_size != card.size:
        return f"has damaged weights: {origin.repair}"
    return None


def read_weights(folder: Path = FOLDER, origin: Origin = SHIPPED) -> bytes:
    """Read the weights and check them against their card.

    Raises:
        ConfigurationError: The weights are missing or do not match the card.
    """
    card = card_of(folder)
    if (missing := missing_weights(folder, origin)) is not None or card is None:
        raise ConfigurationError(f"{origin.captain} {missing}")
    content = (folder / WEIGHTS).read_bytes()
    if sha256(content).hexdigest() != card.sha256:
        raise ConfigurationError(
            f"{origin.captain} has damaged weights (their SHA-256 does not match the card): {origin.repair}"
        )
    return content


@cache
def check_weights(folder: Path = FOLDER, origin: Origin = SHIPPED) -> None:
    """Check the weights against their card, once per process; see :func:`read_weights`."""
    read_weights(folder, origin)


NAME: Final = "trained"
SUMMARY: Final = (
    "A small language model that learned this game on this world: it says its order in words and needs "
    "no key."
)


@dataclass(frozen=True, slots=True)
class TrainedBuild:
    """Makes the policy for one seat; imports are inside because every start reads the catalogue.

    Args:
        origin: Where they come from.
        card: Their card when the catalogue was read.
        fallback: Makes the policy that decides if the network does not; ``None`` for `heuristic`.
    """

    folder: Path
    origin: Origin
    card: Card | None
    fallback: Callable[[int], Policy] | None = None

    def __call__(self, seed: int) -> TrainedPolicy:
        """Return a new policy.

        Raises:
            ConfigurationError: The weights are missing, damaged, or others than the catalogue names.
        """
        check_weights(self.folder, self.origin)
        if card_of(self.folder) != self.card:
            raise ConfigurationError(
                f"the weights of {self.origin.captain} were replaced after this process started; restart it"
            )
        return self._policy(seed)

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> TrainedBuild:
        """Return a copy with another fallback; see :class:`HasFallback`."""
        return replace(self, fallback=fallback)

    def asking(self, client: ChatEndpoint, seed: int) -> TrainedPolicy:
        """Return a policy that uses ``client`` instead of its network; needs no weights."""
        return self._policy(seed, client)

    def _policy(self, seed: int, client: ChatEndpoint | None = None) -> TrainedPolicy:
        from spectator.clock import SystemClock
        from spectator.environments.cricket.trained.policy import TrainedPolicy

        return TrainedPolicy(seed, SystemClock(), self.folder, client=client, fallback=self.fallback)


def trained_captain(
    world_version: str,
    folder: Path = FOLDER,
    name: str = NAME,
    label: str = "Asha (trained here)",
    origin: Origin = SHIPPED,
) -> Preset:
    """Return the preset of a trained captain; its fingerprint is the digest of its weights."""
    card, summary = card_of(folder), SUMMARY
    if card is not None and card.world != world_version:
        summary += (
            f" It was trained on version {card.world[:40]} of this world, not {world_version}: its orders "
            "stay legal, but may be weaker."
        )
    return Preset(
        name,
        label,
        summary,
        "model",
        TrainedBuild(folder, origin, card),
        missing=missing_weights(folder, origin),
        fingerprint=None if card is None else card.sha256[:16],
    )


def own_captain(world_version: str, name: str, table: TrainedCaptain) -> Preset:
    """Return the preset of weights that a user trained; see :class:`World`."""
    origin = Origin(
        f"the captain {name!r}",
        f"the folder in trained.{name}.weights",
        "correct the path, or make them again with `spectator train cricket-captain`",
    )
    return trained_captain(world_version, table.weights, name, table.label, origin)
