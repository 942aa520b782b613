"""A captain that gives its memory away and takes it back decides on as if nothing had been."""

from __future__ import annotations

import json

import pytest

from spectator.catalog import load_world
from spectator.environments.world import World, derive_seed
from spectator.observations import Observation
from spectator.policies.policy import Decision, Policy, Restorable, ScriptedPolicy

OPTIONS = {"counting": {"turns": 12}, "cricket": {"max_overs": 1}}
EVERY = {"counting": 1, "cricket": 23}
"""After how many steps the captains are replaced by new ones, by world."""


def restorable(world: World) -> list[str]:
    """The captains that give their memory away."""
    scripted = [one for one in world.captains.values() if one.source in ("heuristic", "random")]
    return [one.name for one in scripted if one.missing is None and isinstance(one.build(1), Restorable)]


def build(world: World, captain: str) -> dict[str, Policy]:
    preset = world.captains[captain]
    return {actor: preset.build(derive_seed(3, "policy", actor)) for actor in world.actors}


def replaced(world: World, captain: str, policies: dict[str, Policy]) -> dict[str, Policy]:
    """New captains with the memories of the old ones, as they read once they were written."""
    new = build(world, captain)
    for actor, policy in policies.items():
        memory, successor = policy.snapshot(), new[actor]  # type: ignore[attr-defined]
        assert isinstance(successor, Restorable)
        successor.restore(json.loads(json.dumps(memory)))
    return new


def decisions(world: World, captain: str, every: int | None) -> list[Decision]:
    """What is decided in one episode, and why, the captains replaced after each ``every`` steps."""
    options = world.options_type.model_validate(OPTIONS.get(world.name, {})).model_dump(mode="json")
    policies, environment, done = build(world, captain), world.environment(), list[Decision]()
    seen: Observation = environment.reset(seed=3, episode_id="ep-1", options=options)
    while not seen.done:
        if every is not None and len(done) % every == every - 1:
            policies = replaced(world, captain, policies)
        policy = policies[seen.actor or ""]
        assert isinstance(policy, ScriptedPolicy)
        done.append(policy.choose(seen))
        seen = environment.step(done[-1].action)
    return done


@pytest.mark.parametrize("name", EVERY)
def test_a_captain_with_its_memory_given_back_decides_as_before(name: str) -> None:
    world = load_world(name)
    captains = restorable(world)
    assert {"heuristic", "random"} <= set(captains)
    for captain in captains:
        assert decisions(world, captain, EVERY[name]) == decisions(world, captain, None), captain
