"""Seeds of episodes: their range, those derived for one named part, and the sealed ones of an evaluation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spectator.environments.world import Pack

MAX_SEED: Final = 2**53 - 1
"""Largest seed: the largest integer that JSON numbers carry exactly everywhere."""

SEALED_BIT: Final = 1 << 52
"""Development seeds are below it, sealed ones have it set: the two can share none."""


def derive_seed(seed: int, *names: str | int) -> int:
    """A seed for one named part of an episode, independent of every other part's.

    Equal in every process: SHA-256 of the seed and the names, never Python's own hash.

    >>> home = derive_seed(7, "policy", "home")
    >>> home == derive_seed(7, "policy", "home") != derive_seed(7, "policy", "away")
    True
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") & MAX_SEED


def sealed_seeds(world: str, pack: Pack, phrase: str, count: int) -> tuple[int, ...]:
    """Seeds for a sealed evaluation: nobody who lacks the phrase can have developed on them.

    Args:
        world: Name of the world.
        pack: The pack.
        phrase: The secret they come from, kept outside the repository; at least 8 characters.
        count: How many.

    Raises:
        ValueError: The phrase is too short to be one.
    """
    if len(phrase) < 8:
        raise ValueError("the phrase of a sealed evaluation has at least 8 characters")
    return tuple(
        derive_seed(number, world, "sealed", pack.name, pack.version, phrase) % SEALED_BIT + SEALED_BIT
        for number in range(count)
    )
