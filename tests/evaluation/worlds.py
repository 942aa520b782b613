"""The worlds that the tests of evaluations play in: counting, with captains that wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.world import CarefulCounter, RandomCounter
from spectator.observations import Observation
from spectator.policies.policy import Decision, Preset

GATE = {"open": True, "asked": 0, "after": 0}
"""While not ``open``, whoever is asked after ``after`` decisions waits for ever."""


class Slow(CarefulCounter):
    """A careful counter that must be waited for, as a model is."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        await asyncio.sleep(0)
        GATE["asked"] += 1
        if not GATE["open"] and GATE["asked"] > GATE["after"]:
            await asyncio.Event().wait()
        return self.choose(observation)


WORLD = replace(
    COUNTING,
    name="waiting",
    captains={
        **COUNTING.captains,
        "slow": Preset("slow", "Slow counter", "Waits.", "model", lambda seed: Slow()),
        "steady": Preset(
            "steady", "Steady counter", "Waits for nobody.", "model", lambda _: CarefulCounter()
        ),
        "person": Preset("person", "A person", "Counts.", "human", RandomCounter),
        "away": Preset(
            "away", "Away", "Is not here.", "model", RandomCounter, missing="needs a key in the variable K"
        ),
    },
)
