"""Steps an environment that lives in this process: what every stepper here does with one, and its errors."""

from __future__ import annotations

from typing import Final

from spectator.environments.base import Environment
from spectator.errors import EnvironmentFault, EnvironmentMalformed, typed_as
from spectator.observations import Observation
from spectator.steppers.base import Stepped


def answered(environment: Environment, shown: object) -> Stepped:
    """The whole answer of ``environment``, which has just been begun, stepped or restored.

    Args:
        environment: Asked for its facts, and for its state where it is done.
        shown: What it returned.

    Raises:
        EnvironmentMalformed: That is no observation.
    """
    if not isinstance(shown, Observation):
        raise EnvironmentMalformed(f"answered {type(shown).__name__}, not an observation")
    return Stepped(shown, list(environment.facts()), environment.state if shown.done else {})


def fault(error: BaseException) -> EnvironmentFault:
    """The typed error of what an environment raised."""
    return EnvironmentFault(f"{type(error).__name__}: {error}")


FAULTS: Final = typed_as(fault, passing=(EnvironmentFault,))
"""Around every call of an environment: whatever it raises leaves as an :class:`EnvironmentFault`."""
