"""Opens the environment of an episode: on another server, on a thread of its own, or in the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spectator.environments.world import World
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


def as_it_steps(world: World, episode_id: str, options: Mapping[str, Any]) -> Stepper:
    """In the caller's thread where the world says that it steps at once with ``options``, else on its own.

    >>> from spectator.environments.counting import WORLD
    >>> type(as_it_steps(WORLD, "ep-1", {"turns": 10})).__name__
    'InlineStepper'
    """
    return (inline if world.steps_at_once(options) else on_a_thread)(world, episode_id)


def inline(world: World, episode_id: str) -> Stepper:
    """The environment in the caller's thread: for worlds that are fast and never block."""
    if world.remote is not None:
        return world.remote(episode_id)
    return InlineStepper(world.environment)
