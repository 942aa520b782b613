"""Worlds that only tests need: one that gets stuck in a step, one with captains of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectator.environments.counting import WORLD
from spectator.environments.counting.world import CountingEnvironment
from spectator.observations import Observation
from spectator.policies.policy import Action
from tests.gate import Gate


class StuckEnvironment(CountingEnvironment):
    """Counts, but every step waits at the gate."""

    def step(self, action: Action) -> Observation:
        """Wait, then step."""
        Gate.current.pass_through()
        return super().step(action)

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin without waiting."""
        return super().reset(seed=seed, episode_id=episode_id, options=options)


STUCK = replace(WORLD, name="stuck", title="Stuck", environment=StuckEnvironment)

_HEURISTIC = WORLD.captains["heuristic"]
PAID = replace(
    WORLD,
    name="paid",
    title="Paid",
    captains={
        "heuristic": _HEURISTIC,
        "dear": replace(_HEURISTIC, name="dear", label="Dear", costs_money=True),
        "absent": replace(_HEURISTIC, name="absent", label="Absent", missing="a key in SOME_KEY"),
    },
)
