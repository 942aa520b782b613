"""The phrases of the commentary, from ``data/phrases.toml``, and the choice of the next one.

Tables are keyed by the calls and facts of :mod:`.ledger`. :class:`PhrasePicker` takes the phrases of a table
in turn, so that none comes more than :data:`MOST` times in an innings of twenty overs. Slots in braces are
filled by :mod:`.ball_commentary` and :mod:`.commentary`. A delivery is named by length and line together, and
a stroke by length and sector, so that they agree.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any, Final

from spectator.environments.world import derive_seed

FILE: Final = Path(__file__).parent.parent / "data" / "phrases.toml"

Phrases = Sequence[str]

STATES: Final = frozenset(
    (
        "over long", "over behind", "over ahead", "over easy", "over stand", "over set", "over level",
        "over cheap", "over trouble", "over rate",
    )
)  # fmt: skip
"""Answers that may hold over after over; they are offered every other time."""

MOST: Final = 3
"""Times that a phrase may come in an innings of twenty overs."""


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def table(name: str) -> dict[str, Any]:
    """Return a table of the file, such as ``written``; its order is that of the file."""
    found: dict[str, Any] = _tables()[name]
    return found


class PhrasePicker:
    """Takes the phrases of a table in turn, by how often its key has come up in the innings.

    Args:
        ledger: The ledger after the event.
        balls: Valid balls of a full innings; in longer ones than 120 phrases come more often.
        salt: Anything of the innings; determines where each table starts.
    """

    def __init__(self, ledger: Mapping[str, Any], balls: int, *salt: str | int) -> None:
        self._counts = ledger.get("counts", {})
        self._most = max(MOST, MOST * balls // 120)
        self._salt = salt

    def number(self, key: str) -> int:
        """Return how often ``key`` came up in the innings before this event."""
        return max(0, int(self._counts.get(key, 1)) - 1)

    def pick(self, key: str, options: Phrases, of: str = "") -> str:
        """Return the next of ``options``.

        Args:
            key: Key of the ledger's counts.
            of: Distinguishes tables with the same key.
        """
        count, seed = len(options), derive_seed(0, *self._salt, key, of)
        steps = [step for step in range(3, count - 2) if gcd(step, count) == 1] or [1]
        return options[(self.number(key) * steps[seed % len(steps)] + seed) % count]

    def offer(self, key: str, options: Phrases, of: str = "") -> str | None:
        """Do as :meth:`pick`; ``None`` once each of the options was available often enough."""
        return self.pick(key, options, of) if self.number(key) < self._most * len(options) else None
