"""A really random captain: any legal tool, with arguments drawn from all that its schema allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.policies.base import Preset, RandomPolicy

LEFT_OUT: Final = 0.3
"""How often an argument is left to its default."""


class RandomCaptain(RandomPolicy):
    """Draws a tool among the legal ones and each of its arguments among the lawful ones.

    Args:
        seed: Seed of its own generator.
    """

    def arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Lawful arguments, no value twice, some of them left to their defaults."""
        properties: Mapping[str, Any] = schema.get("properties", {})
        arguments: dict[str, str | float] = {}
        for name, rule in properties.items():
            if self._random.random() < LEFT_OUT:
                continue
            drawn = self._drawn(rule)
            if drawn is not None and drawn not in arguments.values():
                arguments[name] = drawn
        return arguments

    def _drawn(self, schema: Mapping[str, Any]) -> str | float | None:
        """A value of a schema; ``None`` for texts and lists, which nobody can draw sensibly."""
        if "enum" in schema:
            choice: str = self._random.choice(schema["enum"])
            return choice
        if schema.get("type") == "number":
            return round(self._random.uniform(schema["minimum"], schema["maximum"]), 2)
        return None


RANDOM: Final = Preset(
    "random", "Wild Card", "Draws any legal tool, and its arguments too.", "random", RandomCaptain
)
