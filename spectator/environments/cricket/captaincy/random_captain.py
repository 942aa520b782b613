"""A really random captain: any legal tool, with arguments drawn from all that its schema allows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from spectator.observations import Observation
from spectator.policies.base import Decision, Preset, ScriptedPolicy

LEFT_OUT: Final = 0.3
"""How often an argument is left to its default."""


class RandomCaptain(ScriptedPolicy):
    """Draws a tool among the legal ones and each of its arguments among the lawful ones.

    Args:
        seed: Seed of its own generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action."""
        legal = self._random.choice(observation.legal_actions)
        properties: Mapping[str, Any] = legal["arguments"].get("properties", {})
        arguments: dict[str, str | float] = {}
        for name, schema in properties.items():
            if self._random.random() < LEFT_OUT:
                continue
            drawn = self._drawn(schema)
            if drawn is not None and drawn not in arguments.values():
                arguments[name] = drawn
        return Decision({"tool": legal["tool"], "arguments": arguments}, "random", "drawn at random")

    def _drawn(self, schema: Mapping[str, Any]) -> str | float | None:
        """A value of a schema; ``None`` for texts and lists, which nobody can draw sensibly."""
        if "enum" in schema:
            choice: str = self._random.choice(schema["enum"])
            return choice
        if schema.get("type") == "number":
            return round(self._random.uniform(schema["minimum"], schema["maximum"]), 2)
        return None


RANDOM: Final = Preset(
    "random", "Random captain", "Draws any legal tool, and its arguments too.", "random", RandomCaptain
)
