"""Steps an environment that lives in this process: what every stepper here does with one, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.base import Environment
from spectator.errors import EnvironmentFault, EnvironmentMalformed, typed_as
from spectator.observations import Observation
from spectator.policies.base import Action
from spectator.steppers.base import Stepped


def reset(environment: Environment, seed: int, episode_id: str, options: Mapping[str, Any]) -> Stepped:
    """Begin an episode."""
    return _answer(environment, environment.reset(seed=seed, episode_id=episode_id, options=options))


def step(environment: Environment, action: Action) -> Stepped:
    """Carry out ``action``."""
    return _answer(environment, environment.step(action))


def restore(environment: Environment, snapshot: bytes) -> Stepped:
    """Go on from ``snapshot``."""
    return _answer(environment, environment.restore(snapshot))


def _answer(environment: Environment, shown: object) -> Stepped:
    if not isinstance(shown, Observation):
        raise EnvironmentMalformed(f"answered {type(shown).__name__}, not an observation")
    return Stepped(shown, list(environment.facts()), environment.state if shown.done else {})


def fault(error: BaseException) -> EnvironmentFault:
    """The typed error of what an environment raised."""
    return EnvironmentFault(f"{type(error).__name__}: {error}")


FAULTS: Final = typed_as(fault, passing=(EnvironmentFault,))
"""Around calls of an environment: whatever it raises leaves as an :class:`EnvironmentFault`."""


def state(environment: Environment) -> Mapping[str, Any]:
    """The public state."""
    return environment.state
