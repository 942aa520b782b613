"""The rules of counting: say the next integer, ``options.turns`` times."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.environments.base import ObservationModel, OptionsModel, StateModel
from spectator.events import EventData, Fact
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.base import Action

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
                }
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    },
)


class CountingAction(BaseModel):
    """What the counter says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(max_length=100_000, description="Any text that holds ACTION: <integer>")


class CountingOptions(OptionsModel):
    """Options of a count."""

    turns: int = Field(default=10, ge=1, le=1_000_000, description="How far to count")
    payload_bytes: int = Field(
        default=0, ge=0, le=65_536, description="About how many bytes of extra data each event carries"
    )


class CountingObservation(ObservationModel):
    """What the counter sees."""

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
    """A snapshot as one of another episode."""
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
        """Hear the next integer."""
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
        """The state and the generator behind the payload."""
        return json.dumps([self.state, self._payload_bytes, self._random.getstate()]).encode()

    def restore(self, snapshot: bytes) -> Observation:
        """Go on from ``snapshot``."""
        state, self._payload_bytes, (version, internal, gauss) = json.loads(snapshot)
        self._random.setstate((version, tuple(internal), gauss))
        self._episode_id, self._turn, self._turns = state["episode_id"], state["turn"], state["turns"]
        self._correct, self._facts = state["correct"], []
        return self._observe(reward=self._score if self._done else 0.0)

    def facts(self) -> Sequence[Fact]:
        """What was said since the last call."""
        facts, self._facts = self._facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Nothing is hidden."""
        return {}

    @property
    def _done(self) -> bool:
        return self._turn >= self._turns

    @property
    def _score(self) -> float:
        return 1.0 if self._correct == self._turns else 0.0

    def _observe(self, *, reward: float = 0.0, refused: Refusal | None = None) -> Observation:
        """What is seen now; its rubric is what is right so far, what is said, and both together."""
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
