"""The counting world besides its rules: counters, projection, commentary and packs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectator.environments.counting.environment import (
    CountFinished,
    CountingAction,
    CountingEnvironment,
    CountingObservation,
    CountingOptions,
    CountingState,
    NumberSaid,
    snapshot_for,
)
from spectator.environments.world import Pack, World
from spectator.events import Event
from spectator.narration.base import Line
from spectator.observations import Observation
from spectator.policies.base import (
    DecidesAfresh,
    Decision,
    Preset,
    ScriptedPolicy,
    generator_snapshot,
    restore_generator,
)


class CarefulCounter(DecidesAfresh, ScriptedPolicy):
    """Says the integer that comes next."""

    def choose(self, observation: Observation) -> Decision:
        """Say it."""
        number = observation.content["next"]
        return Decision({"text": f"ACTION: {number}"}, "heuristic", f"{number} comes after {number - 1}")

    def snapshot(self) -> Any:
        """Nothing is remembered."""

    def restore(self, snapshot: Any) -> None:
        """Nothing is remembered."""


class RandomCounter(ScriptedPolicy):
    """Says an integer within one of the right one.

    Args:
        seed: Seed of its own generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Guess."""
        number = observation.content["next"] + self._random.randint(-1, 1)
        return Decision({"text": f"ACTION: {number}"}, "random", "drawn at random")

    def snapshot(self) -> Any:
        """Where its generator stands."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Guess on from there."""
        restore_generator(self._random, snapshot)


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The viewer sees how far the count has come and whether it is right so far."""
    if event.type == "episode.started":
        return {
            "turns": event.data["options"]["turns"],
            "said": 0,
            "correct": 0,
            "headline": "Nothing said yet",
        }
    if event.type == "counting.number_said":
        said, turns = event.data["expected"], state["world"]["turns"]
        correct = state["world"]["correct"] + event.data["correct"]
        return {
            "said": said,
            "correct": correct,
            "last": event.data["number"],
            "headline": f"{said} of {turns} counted",
            "glance": {"step": said, "progress": round(said / turns, 4), "value": correct, "unit": "right"},
        }
    if event.type == "counting.finished":
        return {
            "result": event.data["result"],
            "headline": f"{event.data['turns']} counted, {event.data['result']}",
        }
    return {}


def comment(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Mistakes and the end are worth a line."""
    if event.type == "counting.number_said" and not event.data["correct"]:
        said, expected = event.data["number"], event.data["expected"]
        return [Line(f"{said}, where {expected} was due.", priority=1, label="slip", at=str(expected))]
    if event.type == "counting.finished":
        return [Line(f"{event.data['correct']} of {event.data['turns']} right.", priority=0, label="end")]
    return ()


WORLD = World(
    name="counting",
    version="1.0",
    title="Counting",
    summary="Say the next integer until the count is complete.",
    actors=("counter",),
    environment=CountingEnvironment,
    action_type=CountingAction,
    observation_type=CountingObservation,
    state_type=CountingState,
    options_type=CountingOptions,
    events={"counting.number_said": NumberSaid, "counting.finished": CountFinished},
    projection=project,
    commentator=comment,
    captains={
        "heuristic": Preset(
            "heuristic",
            "Careful counter",
            "Says what comes next.",
            "heuristic",
            lambda seed: CarefulCounter(),
        ),
        "random": Preset("random", "Random counter", "Often one off.", "random", RandomCounter),
    },
    packs={"default": Pack("default", "1", "Count to ten, or as far as asked.")},
    step_cap=lambda options: 2 * options["turns"] + 100,
    panel=Path(__file__).parent / "panel",
    any_thread=True,
    steps_at_once=lambda options: True,
    snapshot_for=snapshot_for,
)
