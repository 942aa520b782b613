"""Every registered world passes the kit, and the kit sees what is wrong."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spectator.catalog import load_world, world_names
from spectator.environments.conformance import ConformanceError, check_world
from spectator.environments.contract import OfferedCall, Question
from spectator.environments.counting import WORLD
from spectator.environments.counting.world import CountingEnvironment, snapshot_for
from spectator.environments.world import World
from spectator.observations import Observation
from spectator.policies.policy import Action


@pytest.mark.parametrize("name", world_names())
def test_every_registered_world_conforms(name: str) -> None:
    check_world(load_world(name))


def test_the_counting_world_conforms_with_payload() -> None:
    check_world(WORLD, options={"turns": 3, "payload_bytes": 1000})


class EveryoneIsRight(CountingEnvironment):
    """Accepts anything."""

    def step(self, action: Action) -> Observation:
        return super().step({"text": "ACTION: 1"})


class Forgetful(CountingEnvironment):
    """Restores to the start of the payload's randomness."""

    def restore(self, snapshot: bytes) -> Observation:
        observation = super().restore(snapshot)
        self._random.seed(0)
        return observation


class Moody(CountingEnvironment):
    """Draws from a generator that survives a reset."""

    moods = iter(range(1_000_000))

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        return super().reset(seed=next(self.moods), episode_id=episode_id, options=options)


class Endless(CountingEnvironment):
    """Never lets the count go up."""

    def step(self, action: Action) -> Observation:
        return self._observe()


class Generous(CountingEnvironment):
    """Rewards every step."""

    def step(self, action: Action) -> Observation:
        observation = super().step(action)
        return observation if observation.refused else dataclasses.replace(observation, reward=0.5)


@pytest.mark.parametrize(
    ("environment", "finding"),
    [
        (EveryoneIsRight, "is accepted"),
        (Forgetful, "has a different future"),
        (Moody, "gave a different episode"),
        (Endless, "step cap"),
        (Generous, "gave the reward 0.5 before the end"),
    ],
)
def test_the_kit_sees_a_broken_environment(environment: Callable[[], Any], finding: str) -> None:
    broken = dataclasses.replace(WORLD, environment=environment)
    with pytest.raises(ConformanceError, match=finding):
        check_world(broken, options={"payload_bytes": 8})


def nulls(state: Mapping[str, Any], event: Any) -> Mapping[str, Any]:
    return {"list": [None]}


def forgetful(snapshot: bytes, episode_id: str) -> bytes:
    """A snapshot of another episode whose generator begins anew."""
    state, payload, _ = json.loads(snapshot_for(snapshot, episode_id))
    return json.dumps([state, payload, random.Random(2).getstate()]).encode()


def same_thrice(shown: Observation) -> Question:
    call = OfferedCall({"text": "ACTION: 1"}, "one")
    return Question(str(shown.actor), "", "What next?", [call, call, call])


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"name": "Counting!"}, "does not match"),
        ({"projection": nulls}, "contains null"),
        ({"packs": {}}, "no pack called 'default'"),
        ({"events": {}}, "of a fact is not declared"),
        ({"default_captain": "nobody"}, "not among the captains"),
        ({"snapshot_for": lambda snapshot, episode_id: snapshot}, "differs in more than the episode id"),
        ({"picture": lambda world: {"ball": None}}, "picture contains null"),
        ({"picture": lambda world: {"row": ["x"] * 300}}, "picture has 1209 bytes; the maximum is 1024"),
        ({"picture": lambda world: {"marks": [0]}}, "marks are not among its 0 chances"),
        ({"question": same_thrice}, "no analyst to score them"),
        ({"question": same_thrice}, "not offered three different calls"),
        ({"snapshot_for": forgetful}, "changes more of a snapshot than the episode's id"),
    ],
)
def test_the_kit_sees_a_broken_world(changes: dict[str, Any], finding: str) -> None:
    broken: World = dataclasses.replace(WORLD, **changes)
    with pytest.raises(ConformanceError, match=finding):
        check_world(broken)
