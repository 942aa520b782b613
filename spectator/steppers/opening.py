"""Opens the environment of an episode: on another server, on a thread of its own, or in the caller's."""

from __future__ import annotations

from collections.abc import Callable

from spectator.environments.base import World
from spectator.steppers.base import Stepper
from spectator.steppers.inline import InlineStepper
from spectator.steppers.thread import ThreadStepper

OpenStepper = Callable[[World, str], Stepper]
"""Makes the stepper of a new episode, from its world and its id."""


def on_a_thread(world: World, episode_id: str) -> Stepper:
    """The environment on a thread of its own, named after the episode: right for whatever may block."""
    if world.remote is not None:
        return world.remote(episode_id)
    return ThreadStepper(world.environment, name=episode_id)


def inline(world: World, episode_id: str) -> Stepper:
    """The environment in the caller's thread: for worlds that are fast and never block."""
    if world.remote is not None:
        return world.remote(episode_id)
    return InlineStepper(world.environment)
