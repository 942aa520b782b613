"""What strangers may have played here: which worlds, and how large their options may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from spectator.errors import FieldError, InvalidRequest

from ..settings import Settings


@dataclass(frozen=True, slots=True)
class Offer:
    """What may be played by whoever lacks the operator's token.

    Args:
        worlds: Names of the worlds; all of them where there are none.
        largest: By name of an option, its largest value, in whichever world.

    >>> Offer(frozenset({"counting"}), {"turns": 500}).check("counting", {"turns": 501})
    Traceback (most recent call last):
        ...
    spectator.errors.InvalidRequest: options.turns: is at most 500 here (SPECTATOR_OPTION_LIMITS)
    """

    worlds: frozenset[str] = frozenset()
    largest: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What ``settings`` offer."""
        pairs = (limit.split("=") for limit in settings.option_limits)
        return cls(frozenset(settings.worlds), {name: float(most) for name, most in pairs})

    def check(self, world: str, options: Mapping[str, Any], *, prefix: str = "options.") -> None:
        """Let through what is offered.

        Args:
            world: Its name.
            options: Its options.
            prefix: What stands before an option's name where it was sent.

        Raises:
            InvalidRequest: Names the world, or every option that is too large.
        """
        if self.worlds and world not in self.worlds:
            offered = ", ".join(sorted(self.worlds))
            raise InvalidRequest([FieldError("environment", f"is one of {offered} here (SPECTATOR_WORLDS)")])
        wrong = [
            FieldError(f"{prefix}{name}", f"is at most {most:g} here (SPECTATOR_OPTION_LIMITS)")
            for name, most in self.largest.items()
            if isinstance(value := options.get(name), int | float) and value > most
        ]
        if wrong:
            raise InvalidRequest(wrong)
