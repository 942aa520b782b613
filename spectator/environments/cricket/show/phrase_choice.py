"""The choice of phrases: one not used lately, and always the same one for the same event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from spectator.environments.seeds import derive_seed

_SLOT: Final = re.compile(r"\{[a-z_]+\}")


class PhrasePicker:
    """Chooses among phrases: one that was not used lately, and always the same one for the same event.

    Args:
        data: The event's data, which decides where the choice begins.
        state: What viewers see; its feed holds what was said.
        told: Members of a line in the feed that hold what was said.
    """

    def __init__(
        self, data: Mapping[str, Any], state: Mapping[str, Any], told: Sequence[str] = ("text", "radio")
    ) -> None:
        score = data.get("score")
        self._seed = score["runs"] if isinstance(score, Mapping) else 0
        self._facts = (
            data.get("innings", 0),
            data.get("at", ""),
            data.get("delivery", 0),
            str(data.get("striker", "")),
        )
        feed = state.get("feed", {})
        self._said = "\n".join(
            " ".join(feed[key].get(member, "") for member in told) for key in sorted(feed)
        ).lower()

    def pick(self, options: Sequence[str], *salt: str) -> str:
        """One of ``options``: the first, from where the event begins, that was not used lately.

        When all were, the one that was used longest ago.
        """
        first = self.number(len(options), *salt)
        turned = [*options[first:], *options[:first]]
        for option in turned:
            if self.is_new(option):
                return option
        return min(turned, key=lambda option: self._said.rfind(fixed_part(option)))

    def number(self, below: int, *salt: str) -> int:
        """A number from the event's own data, equal in every process."""
        return derive_seed(self._seed, *self._facts, *salt) % below

    def is_new(self, phrase: str) -> bool:
        """Whether ``phrase`` was not used lately."""
        return fixed_part(phrase) not in self._said


@lru_cache(maxsize=2048)
def fixed_part(phrase: str) -> str:
    """The longest part of a phrase that stays the same whatever fills it."""
    return max((part.strip(" ").lower() for part in _SLOT.split(phrase)), key=len)
