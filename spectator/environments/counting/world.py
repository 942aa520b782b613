"""Count upwards in turn: the smallest complete world.

Each turn an actor says the next integer, ``options.turns`` times. The benchmarks use it as their load.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.environments.contract import ObservationModel, OptionsModel, StateModel
from spectator.environments.world import Pack, World
from spectator.events import Event, EventData, Fact
from spectator.narration.commentary import Line
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.policy import (
    Action,
    Decision,
    Preset,
    ScriptedPolicy,
    Stateless,
    generator_snapshot,
    restore_generator,
)
from spectator.policies.prompts import Rendering, legend

ACTION: Final = re.compile(r"ACTION:\s*(-?\d{1,18})(?!\d)")
LEGAL: Final[tuple[LegalAction, ...]] = (
    {
        "tool": "say",
        "arguments": {
            "type": "object",
            "properties": {
                "text": {
                    "type": "string",
                    "description": "Any text that holds ACTION: <integer>",
                    "pattern": r"ACTION:\s*-?\d+",
                    "examples": ["ACTION: 3"],
                }
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    },
)


class CountingAction(BaseModel):
    """The counter's action."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(max_length=100_000, description="Any text that holds ACTION: <integer>")


class CountingOptions(OptionsModel):
    """Options of a count."""

    turns: int = Field(default=10, ge=1, le=1_000_000, description="How far to count")
    payload_bytes: int = Field(
        default=0, ge=0, le=65_536, description="About how many bytes of extra data each event carries"
    )


class CountingObservation(ObservationModel):
    """The counter's observation."""

    turn: int = Field(ge=0, description="Integers said so far")
    turns: int = Field(ge=1, description="How far to count")
    next: int = Field(ge=1, description="The integer to say")


class CountingState(StateModel):
    """Public state of a count."""

    turn: int = Field(ge=0)
    turns: int = Field(ge=1)
    correct: int = Field(ge=0)
    done: bool


class NumberSaid(EventData):
    """The counter said an integer."""

    number: int
    expected: int
    correct: bool
    payload: str = Field(
        default="", description="Filler of `options.payload_bytes` letters, different every time"
    )


class CountFinished(EventData):
    """The count is complete."""

    correct: int = Field(ge=0)
    turns: int = Field(ge=1)
    result: Literal["right", "wrong"]


def snapshot_for(snapshot: bytes, episode_id: str) -> bytes:
    """Convert a snapshot to one of another episode."""
    state, *rest = json.loads(snapshot)
    return json.dumps([{**state, "episode_id": episode_id}, *rest]).encode()


class CountingEnvironment:
    """Count from 1 to ``turns``; the score is 1.0 when every integer was right, else 0.0.

    Description: a trivial world with the whole contract, for authors and for load.
    Action Space: ``{"text": "... ACTION: <integer> ..."}``.
    Observation Space: how many were said, how many there are, which is next.
    Starting State: nothing said.
    Rewards: 0.0 on every step, 1.0 or 0.0 on the last.
    Episode End: after ``turns`` integers, right or wrong.
    Arguments: ``turns``, ``payload_bytes``.
    Version History: 1.0 first.

    >>> environment = CountingEnvironment()
    >>> observation = environment.reset(seed=1, episode_id="ep-1", options={"turns": 2, "payload_bytes": 0})
    >>> while not observation.done:
    ...     observation = environment.step({"text": f"ACTION: {observation.content['next']}"})
    >>> observation.reward
    1.0
    """

    def __init__(self) -> None:
        self._episode_id = ""
        self._turn = self._correct = self._payload_bytes = 0
        self._turns = 1
        self._random = random.Random(0)
        self._facts: list[Fact] = []

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin a count."""
        self._episode_id = episode_id
        self._turns = options["turns"]
        self._payload_bytes = options["payload_bytes"]
        self._turn = self._correct = 0
        self._random = random.Random(seed)
        self._facts = []
        return self._observe()

    def step(self, action: Action) -> Observation:
        """Take the next integer."""
        if self._done:
            return self._observe(
                refused=Refusal("episode.over", "The count is complete; reset to count again.")
            )
        try:
            text = CountingAction.model_validate(action).text
        except ValidationError as error:
            return self._observe(
                refused=Refusal("action.shape", f"Send {{'text': ...}}: {error.errors()[0]['msg']}.")
            )
        found = ACTION.search(text)
        if found is None:
            return self._observe(
                refused=Refusal("action.text", "Write ACTION: <integer> somewhere in the text.")
            )
        number = int(found[1])
        expected = self._turn + 1
        self._turn, self._correct = expected, self._correct + (number == expected)
        payload = (
            f"{self._random.getrandbits(4 * self._payload_bytes):0{self._payload_bytes}x}"
            if self._payload_bytes
            else ""
        )
        said = NumberSaid(number=number, expected=expected, correct=number == expected, payload=payload)
        self._facts.append(Fact("counting.number_said", said.model_dump()))
        if self._done:
            finished = CountFinished(
                correct=self._correct, turns=self._turns, result="right" if self._score else "wrong"
            )
            self._facts.append(Fact("counting.finished", finished.model_dump()))
        return self._observe(reward=self._score if self._done else 0.0)

    @property
    def state(self) -> Mapping[str, Any]:
        """The public state."""
        return {
            "episode_id": self._episode_id,
            "turn": self._turn,
            "turns": self._turns,
            "correct": self._correct,
            "done": self._done,
            "result": f"{self._correct} of {self._turns} right" if self._done else None,
        }

    def snapshot(self) -> bytes:
        """Return the state and the random generator of the payload."""
        return json.dumps([self.state, self._payload_bytes, self._random.getstate()]).encode()

    def restore(self, snapshot: bytes) -> Observation:
        """Resume from ``snapshot``."""
        state, self._payload_bytes, (version, internal, gauss) = json.loads(snapshot)
        self._random.setstate((version, tuple(internal), gauss))
        self._episode_id, self._turn, self._turns = state["episode_id"], state["turn"], state["turns"]
        self._correct, self._facts = state["correct"], []
        return self._observe(reward=self._score if self._done else 0.0)

    def facts(self) -> Sequence[Fact]:
        """Return what was said since the last call."""
        facts, self._facts = self._facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Return nothing, as nothing is hidden."""
        return {}

    @property
    def _done(self) -> bool:
        return self._turn >= self._turns

    @property
    def _score(self) -> float:
        return 1.0 if self._correct == self._turns else 0.0

    def _observe(self, *, reward: float = 0.0, refused: Refusal | None = None) -> Observation:
        """Make the current observation, with a rubric of correctness, progress and their product."""
        right, said = float(self._correct == self._turn), self._turn / self._turns
        return Observation(
            actor=None if self._done else "counter",
            legal_actions=() if self._done else LEGAL,
            content={"turn": self._turn, "turns": self._turns, "next": self._turn + 1},
            reward=reward,
            done=self._done,
            refused=refused,
            metadata={"rubric": {"correct": right, "said": said, "score": right * said}},
        )


class CarefulCounter(Stateless, ScriptedPolicy):
    """Says the integer that comes next."""

    def choose(self, observation: Observation) -> Decision:
        """Say the next integer."""
        number = observation.content["next"]
        return Decision({"text": f"ACTION: {number}"}, "heuristic", f"{number} comes after {number - 1}")

    def snapshot(self) -> Any:
        """Do nothing, as there is no memory."""

    def restore(self, snapshot: Any) -> None:
        """Do nothing, as there is no memory."""


class RandomCounter(ScriptedPolicy):
    """Says an integer within one of the right one.

    Args:
        seed: Seed of its random generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Guess."""
        number = observation.content["next"] + self._random.randint(-1, 1)
        return Decision({"text": f"ACTION: {number}"}, "random", "drawn at random")

    def snapshot(self) -> Any:
        """Return the state of its random generator."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Restore the state of its random generator."""
        restore_generator(self._random, snapshot)


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Show how far the count has come and whether it is right so far."""
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
    """Make a line for each mistake and for the end."""
    if event.type == "counting.number_said" and not event.data["correct"]:
        said, expected = event.data["number"], event.data["expected"]
        return [Line(f"{said}, where {expected} was due.", priority=1, label="slip", at=str(expected))]
    if event.type == "counting.finished":
        return [Line(f"{event.data['correct']} of {event.data['turns']} right.", priority=0, label="end")]
    return ()


BRIEF: Final = (
    "You count upwards. The line `next` holds the integer to say now: if next is 3, the text is ACTION: 3."
)
"""The game for small models."""

WORLD = World(
    name="counting",
    version="1.0",
    title="Counting",
    summary="Say the next integer until the count is complete.",
    rendering=Rendering(guide=legend(CountingObservation), brief=BRIEF),
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
