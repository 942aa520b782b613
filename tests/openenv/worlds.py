"""Worlds that misbehave, each in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectator.environments.counting import WORLD
from spectator.environments.counting.world import CountingEnvironment
from spectator.observations import Observation
from spectator.policies.policy import Action
from tests.gate import Gate


class SlowToBuild(CountingEnvironment):
    """Its constructor waits at the gate."""

    def __init__(self) -> None:
        Gate.current.pass_through()
        super().__init__()


class Unbuildable(CountingEnvironment):
    """Its constructor raises."""

    def __init__(self) -> None:
        raise RuntimeError("secret")


class Hanging(CountingEnvironment):
    """Its steps wait at the gate."""

    def step(self, action: Action) -> Observation:
        Gate.current.pass_through()
        return super().step(action)


class Raising(CountingEnvironment):
    """Its third integer raises."""

    def step(self, action: Action) -> Observation:
        if self.state["turn"] == 2:
            raise KeyError("secret")
        return super().step(action)


class NotANumber(CountingEnvironment):
    """Its second integer shows what is no JSON."""

    def step(self, action: Action) -> Observation:
        seen = super().step(action)
        return (
            replace(seen, content={**seen.content, "next": float("nan")})
            if seen.content["turn"] == 2
            else seen
        )


class Huge(CountingEnvironment):
    """Its first integer shows more than fits into a message."""

    def step(self, action: Action) -> Observation:
        return replace(super().step(action), metadata={"all": "x" * 1024 * 1024})


class Shy(CountingEnvironment):
    """Exits when asked for its state."""

    @property
    def state(self) -> Mapping[str, Any]:
        raise SystemExit("secret")


SLOW = replace(WORLD, name="slow", environment=SlowToBuild)
UNBUILDABLE = replace(WORLD, name="unbuildable", environment=Unbuildable)
HANGING = replace(WORLD, name="hanging", environment=Hanging)
RAISING = replace(WORLD, name="raising", environment=Raising)
NOT_A_NUMBER = replace(WORLD, name="not_a_number", environment=NotANumber)
HUGE = replace(WORLD, name="huge", environment=Huge)
SHY = replace(WORLD, name="shy", environment=Shy)
NAMES = ("slow", "unbuildable", "hanging", "raising", "not_a_number", "huge", "shy")
