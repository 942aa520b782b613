"""Owns playing a recorded episode again, from its seed and its decisions, to see that it says the truth."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.catalog import load_world
from spectator.environments.base import Environment, World
from spectator.episodes.projection import State, fold
from spectator.events import Event, Fact, NarrationLine, RecordedEvent, core_fact
from spectator.observations import Observation

MEASURED: Final[Mapping[str, frozenset[str]]] = {"step.taken": frozenset({"duration_s"})}
"""Fields that are measured, not decided, and so differ from run to run."""

FROM_OUTSIDE: Final = frozenset(
    {"episode.paused", "episode.resumed", "pace.changed", "warning", "narration.clip"}
)
"""Event types that do not follow from seed and decisions; their patches still have to."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Where the record and the world part.

    Args:
        seq: The recorded event.
        message: How they differ.
    """

    seq: int
    message: str


async def verify(recorded: AsyncIterable[RecordedEvent]) -> list[Discrepancy]:
    """Play a recorded episode again and compare every event and every patch.

    Args:
        recorded: All events of one episode, in order.

    Returns:
        What differs, in order; empty when the record says the truth. After an event that should not
        be there, the rest cannot be compared and is left out.

    Raises:
        InvalidRequest: Its world is not in the catalogue.
    """
    retelling: _Retelling | None = None
    found: list[Discrepancy] = []
    expected_seq = 1
    async for one in recorded:
        event = one.event
        if event.seq != expected_seq:
            return [*found, Discrepancy(event.seq, f"event {expected_seq} is missing")]
        if retelling is None:
            if event.type != "episode.started":
                return [Discrepancy(event.seq, f"begins with {event.type}")]
            retelling = _Retelling(event)
        try:
            differences = list(retelling.compare(event))
        except _Unexpected as unexpected:
            return [*found, Discrepancy(event.seq, str(unexpected))]
        found += [Discrepancy(event.seq, difference) for difference in differences]
        expected_seq += 1
    if retelling is not None and not retelling.ended:
        found.append(Discrepancy(expected_seq, "the record stops before the end"))
    return found


class _Unexpected(Exception):
    """The record holds an event that the world does not tell here."""


class _Retelling:
    """The world's own telling of an episode, one recorded event at a time."""

    def __init__(self, started: Event) -> None:
        self.ended = False
        self._world: World = load_world(started.data["environment"])
        self._started = started
        self._environment: Environment = self._world.environment()
        self._due: deque[Fact] = deque()
        self._state: State = {}
        self._observation: Observation | None = None
        self._refusals: dict[str, int] = {}

    def compare(self, event: Event) -> Iterator[str]:
        """Differences between ``event`` and what is due, then go on from what was recorded."""
        if self.ended:
            raise _Unexpected(f"{event.type} after the end")
        self._advance(event)
        self._state, folded = fold(self._state, replace(event, patch={}), self._world.projection)
        if folded.patch != event.patch:
            yield f"the patch of {event.type} is not the one that its data gives"
        lines = self._world.commentator(folded, self._state) if event.type != "narration.line" else ()
        self._due.extendleft(
            core_fact(
                NarrationLine(
                    text=line.text, for_seq=event.seq, priority=line.priority, label=line.label, at=line.at
                )
            )
            for line in reversed(lines)
        )

    def _advance(self, event: Event) -> None:
        if event.type == "episode.started":
            self._begin(event)
        elif event.type == "decision.made":
            self._decide(event)
        elif event.type == "episode.ended":
            self._end(event)
        elif event.type not in FROM_OUTSIDE:
            self._expect(event)

    def _begin(self, event: Event) -> None:
        if event is not self._started:
            raise _Unexpected("the episode starts again")
        version = event.data["environment_version"]
        if version != self._world.version:
            raise _Unexpected(
                f"it was played in version {version} of {self._world.name}; here is {self._world.version}"
            )
        self._observation = self._environment.reset(
            seed=event.data["seed"], episode_id=event.episode_id, options=event.data["options"]
        )
        self._due.extend(self._environment.facts())

    def _decide(self, event: Event) -> None:
        if self._due:
            raise _Unexpected(f"{self._due[0].type} is due before the next decision")
        asked = None if self._observation is None else self._observation.actor
        if event.data["actor"] != asked:
            raise _Unexpected(f"{event.data['actor']} decided where {asked} was asked")
        self._observation = self._environment.step(event.data["action"])
        facts = self._environment.facts()
        self._due.extend(self._told(event, self._observation, list(facts)))

    def _told(self, event: Event, observation: Observation, facts: list[Fact]) -> list[Fact]:
        actor = event.data["actor"]
        if observation.refused is not None:
            self._refusals[actor] = self._refusals.get(actor, 0) + 1
            refused: dict[str, Any] = {"actor": actor, "action": event.data["action"]}
            refused |= {**observation.refused.to_json(), "refusals": self._refusals[actor]}
            return [Fact("action.refused", refused)]
        taken = {
            "actor": actor,
            "next_actor": observation.actor,
            "reward": observation.reward,
            "done": observation.done,
            "rubric": dict(observation.metadata.get("rubric", {})),
        }
        return [*facts, Fact("step.taken", taken)]

    def _expect(self, event: Event) -> None:
        if not self._due:
            raise _Unexpected(f"nothing is due where {event.type} is recorded")
        due = self._due.popleft()
        measured = MEASURED.get(event.type, frozenset())
        told = {name: value for name, value in event.data.items() if name not in measured}
        if event.type != due.type:
            raise _Unexpected(f"{due.type} is due where {event.type} is recorded")
        if told != due.data:
            names = [name for name in {*told, *due.data} if told.get(name) != due.data.get(name)]
            raise _Unexpected(f"{event.type} differs in {', '.join(sorted(names))}")

    def _end(self, event: Event) -> None:
        self.ended = True
        if event.data["reason"] != "finished":
            return
        observation = self._observation
        if self._due or observation is None or not observation.done:
            raise _Unexpected("it is recorded as finished before the world came to its end")
        if event.data["score"] != observation.reward:
            raise _Unexpected(f"the score is recorded as {event.data['score']}, not {observation.reward}")
        result = self._environment.state.get("result")
        if event.data["result"] != result:
            raise _Unexpected(f"the result is recorded as {event.data['result']!r}, not {result!r}")
