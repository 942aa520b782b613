"""Owns what the commentary remembers: the lines that viewers still have before them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from spectator.environments.base import derive_seed

_SLOT: Final = re.compile(r"\{[a-z_]+\}")
_TELLING: Final = 4
"""Fewest letters by which a phrase is known again."""


class Recall:
    """Chooses among phrases: one that was not used lately, and always the same one for the same event.

    Args:
        data: The event's data, which decides where the choice begins.
        state: What viewers see; its feed holds what was said.
    """

    def __init__(self, data: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        score = data.get("score")
        self._seed = score["runs"] if isinstance(score, Mapping) else 0
        self._facts = (
            data.get("innings", 0),
            data.get("at", ""),
            data.get("delivery", 0),
            str(data.get("striker", "")),
        )
        feed = state.get("feed", {})
        self._said = [f"{feed[key]['text']} {feed[key].get('radio', '')}".lower() for key in sorted(feed)]

    def pick(self, options: Sequence[str], *salt: str) -> str:
        """One of ``options``: the first, from where the event begins, that was not used lately.

        When all were, the one that was used longest ago.
        """
        first = self.number(len(options), *salt)
        turned = [*options[first:], *options[:first]]
        if len(turned) == 1 or not self._said:
            return turned[0]
        return min(turned, key=self.last_use)

    def number(self, below: int, *salt: str) -> int:
        """A number from the event's own data, equal in every process."""
        return derive_seed(self._seed, *self._facts, *salt) % below

    def last_use(self, phrase: str) -> int:
        """Which of the lines, 1 the oldest, was the last with ``phrase``; 0 when none was."""
        telling = telling_parts(phrase)
        if not telling:
            return 0
        for index in range(len(self._said), 0, -1):
            said = self._said[index - 1]
            if all(part in said for part in telling):
                return index
        return 0

    def is_new(self, phrase: str) -> bool:
        """Whether ``phrase`` was not used lately."""
        return self.last_use(phrase) == 0


@lru_cache(maxsize=2048)
def telling_parts(phrase: str) -> tuple[str, ...]:
    """What of a phrase stays the same whatever fills it."""
    parts = [part.strip(" ").lower() for part in _SLOT.split(phrase)]
    return tuple(part for part in parts if sum(map(str.isalpha, part)) >= _TELLING) or tuple(
        part for part in parts if len(part) > 1
    )
