"""The physicist that draws any legal action, with arguments drawn from its schema."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from spectator.observations import Observation
from spectator.policies.base import (
    Decision,
    ScriptedPolicy,
    generator_snapshot,
    restore_generator,
)

ENDINGS = ("submit_discovery_claim", "conclude_null")


class RandomPhysicist(ScriptedPolicy):
    """Draws an action evenly among the legal ones; endings come late, or it would only ever conclude.

    Args:
        seed: Seed of its own generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw."""
        view, legal = (
            observation.content,
            {each["tool"]: each["arguments"] for each in observation.legal_actions},
        )
        late = view["step_index"] >= 25 or self._random.random() < 0.02
        tools = [tool for tool in legal if late or tool not in ENDINGS]
        tool = self._random.choice(tools or list(legal))
        return Decision(
            {"tool": tool, "arguments": self._arguments(tool, legal[tool], view)}, "random", "drawn at random"
        )

    def snapshot(self) -> Any:
        """Where its generator stands."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Draw on from there."""
        restore_generator(self._random, snapshot)

    def _arguments(self, tool: str, schema: Mapping[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
        draw, task = self._random, view["task"]
        low, high = task["search_window_gev"]
        special: dict[str, Any] = {
            "thresholds_gev": {
                channel["name"]: round(channel["trigger_threshold_gev"] * draw.uniform(0.6, 1.6), 3)
                for channel in task["channels"]
            },
            "luminosity_fb": round(draw.uniform(0.05, 0.6) * task["luminosity_fb"], 2),
            "mass_gev": float(f"{math.exp(draw.uniform(math.log(low), math.log(high))):.5g}"),
            "mass_error_gev": float(f"{0.01 * low:.3g}"),
            "z_local": 5.0,
            "z_global": 5.0,
            "cut": draw.randrange(8) / 8,
        }
        required = schema.get("required", [])
        return {
            name: special[name] if name in special else self._any(schema["properties"][name])
            for name in required
        }

    def _any(self, rule: Mapping[str, Any]) -> Any:
        if "enum" in rule:
            return self._random.choice(rule["enum"])
        return rule.get("default", 0.5)
