"""Replays a recorded episode from its seed and decisions, one event at a time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.environments.world import World
from spectator.episodes.record.derived import DerivedView
from spectator.episodes.record.view import State, with_patch
from spectator.episodes.replay.checkpoints import EpisodeSnapshot, restore_memories
from spectator.episodes.run.step_events import facts_of_step
from spectator.errors import EnvironmentFault
from spectator.events import Event, Fact, Parent, encode_json
from spectator.merge_patch import apply_patch
from spectator.narration.base import line_fact
from spectator.policies.base import Policy, Remembers, ScriptedPolicy
from spectator.steppers.base import Stepped, Stepper

MEASURED: Final[Mapping[str, frozenset[str]]] = {"step.taken": frozenset({"duration_s"})}
"""Fields that are measured, not decided, and so differ from run to run."""

FROM_OUTSIDE: Final = frozenset(
    {
        "episode.paused",
        "episode.recovered",
        "episode.resumed",
        "episode.suspended",
        "narration.clip",
        "pace.changed",
        "warning",
    }
)
"""Event types that do not follow from seed and decisions; their patches still have to."""


class ReplayDivergence(Exception):
    """The record holds an event that the replay does not produce here."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What viewers see where a record stops.

    Args:
        state: Their state.
        seq: Number of the last event that they got.
    """

    state: State
    seq: int


class Replay:
    """A recorded episode played again, one recorded event at a time, and compared.

    Args:
        world: The episode's world.
        stepper: A new environment of it, not begun; afterwards it stands where the record stops. Its calls
            have no deadline of their own: whoever replays sets one for the whole.
        seats: Policies to bring along, by actor: scripted ones are asked again, so that their own
            generators stand where the record stops, and must decide as recorded. In the part of a fork
            that is its parent's they think along, and decide nothing. Those that remember take in what
            they decided themselves.
        episode_id: What the environment is told that it plays; the record's own id when left out.
        parent: What the episode was forked from, if it was; as the record has it when left out.
        derived: Whether the events hold neither patches nor commentary.
    """

    def __init__(
        self,
        world: World,
        stepper: Stepper,
        seats: Mapping[str, Policy] | None = None,
        *,
        episode_id: str | None = None,
        parent: Parent | None = None,
        derived: bool = False,
    ) -> None:
        self.ended = False
        self._derived = DerivedView(world, "") if derived else None
        self._world = world
        self._stepper = stepper
        self._seats = seats or {}
        self._episode_id = episode_id
        self._parent = parent
        self.due: deque[Fact] = deque()
        """Facts that the replay has produced and the record does not hold yet."""
        self.shown = Shown({}, 0)
        """What viewers see where the record stops."""
        self.stepped: Stepped | None = None
        """What the world answered last; ``None`` before the beginning."""
        self.refusals: dict[str, int] = {}
        """Refused actions so far, by actor."""
        self.total = 0.0
        """The sum of all rewards so far."""

    async def go_on_from(self, stood: EpisodeSnapshot, seq: int, *, fresh: Collection[str] = ()) -> None:
        """Stand where the episode stood after event ``seq``, instead of replaying all before the next.

        Args:
            stood: Where it stood.
            seq: Number of the event.
            fresh: Actors whose policies are others than then, and take nobody's memory.

        Raises:
            UnfitCheckpoint: A policy does not take its memory back.
            EnvironmentFault: The environment does not take its snapshot back.
        """
        restore_memories(self._seats, stood.memories, fresh)
        self.stepped = await self._stepper.restore(stood.snapshot, limit_s=None)
        self.shown = Shown(stood.state, seq)
        self.refusals, self.total = dict(stood.refusals), stood.total

    async def compare(self, event: Event) -> list[str]:
        """Differences between ``event`` and what is due; then go on from what was recorded.

        Raises:
            ReplayDivergence: The record holds an event that the replay does not produce, or the world failed.
        """
        if self.ended:
            raise ReplayDivergence(f"{event.type} after the end")
        try:
            match event.type:
                case "episode.started":
                    await self._begin(event)
                case "decision.made":
                    await self._decide(event)
                case "episode.ended":
                    self._end(event)
                case kind if kind not in FROM_OUTSIDE:
                    self._expect(event)
        except EnvironmentFault as error:
            raise ReplayDivergence(f"the world failed: {error}") from error
        return self._compare_patch(event) if self._derived is None else self._derive(event, self._derived)

    def _compare_patch(self, event: Event) -> list[str]:
        differences = []
        folded = with_patch(self.shown.state, replace(event, patch={}), self._world.projection)
        state = apply_patch(self.shown.state, folded.patch)
        self.shown = Shown(state, event.seq)
        if folded.patch != event.patch:
            differences.append(f"the patch of {event.type} is not the one that its data gives")
        lines = self._world.commentator(folded, state) if event.type != "narration.line" else ()
        self.due.extendleft(line_fact(line, event.seq) for line in reversed(lines))
        return differences

    def _derive(self, event: Event, view: DerivedView) -> list[str]:
        differences = [f"{event.type} holds a patch, and the view is to be derived"] if event.patch else []
        before = view.fault
        view.show(replace(event, epoch=view.epoch, patch={}))
        self.shown = Shown(view.state, view.seq)
        if view.fault != before:
            differences.append(f"the world's view of it fails: {view.fault}")
        return differences

    async def _begin(self, event: Event) -> None:
        if self.stepped is not None:
            raise ReplayDivergence("the episode starts again")
        version = event.data["environment_version"]
        if version != self._world.version:
            raise ReplayDivergence(
                f"it was played in version {version} of {self._world.name}; here is {self._world.version}"
            )
        self.stepped = await self._stepper.reset(
            seed=event.data["seed"],
            episode_id=self._episode_id or event.episode_id,
            options=event.data["options"],
            limit_s=None,
        )
        if self._parent is None and event.data.get("parent") is not None:
            self._parent = Parent.model_validate(event.data["parent"])
        self.total += self.stepped.observation.reward
        self.due.extend(self.stepped.facts)

    async def _decide(self, event: Event) -> None:
        if self.due:
            raise ReplayDivergence(f"{self.due[0].type} is due before the next decision")
        observation = None if self.stepped is None else self.stepped.observation
        asked = None if observation is None else observation.actor
        if observation is None or asked is None or event.data["actor"] != asked:
            raise ReplayDivergence(f"{event.data['actor']} decided where {asked} was asked")
        policy, parent = self._seats.get(asked), self._parent
        if isinstance(policy, Remembers) and event.turn > (0 if parent is None else parent.own_after(asked)):
            policy.remember(observation, event.data)
        if isinstance(policy, ScriptedPolicy):
            again = policy.choose(observation).action
            thinks_along = parent is not None and event.turn <= parent.turn
            decided = event.data["action"]
            if not thinks_along and again != decided and _as_recorded(dict(again)) != decided:
                raise ReplayDivergence(f"{asked} now decides otherwise than recorded")
        self.stepped = await self._stepper.step(event.data["action"], limit_s=None)
        self.total += self.stepped.observation.reward
        decided = Fact(event.type, event.data)
        self.due.extend(facts_of_step(asked, decided, self.stepped, 0.0, self.refusals)[1:])

    def _expect(self, event: Event) -> None:
        if not self.due:
            raise ReplayDivergence(f"nothing is due where {event.type} is recorded")
        due = self.due.popleft()
        measured = MEASURED.get(event.type, frozenset())
        told = {name: value for name, value in event.data.items() if name not in measured}
        if event.type != due.type:
            raise ReplayDivergence(f"{due.type} is due where {event.type} is recorded")
        expected = {name: value for name, value in due.data.items() if name not in measured}
        if told == expected:
            return
        expected = _as_recorded(expected)
        if told != expected:
            names = [name for name in {*told, *expected} if told.get(name) != expected.get(name)]
            raise ReplayDivergence(f"{event.type} differs in {', '.join(sorted(names))}")

    def _end(self, event: Event) -> None:
        self.ended = True
        total = event.data.get("total_reward")
        if total is not None and total != self.total:
            raise ReplayDivergence(f"the total reward is recorded as {total}, not {self.total}")
        if event.data["reason"] != "finished":
            return
        stepped = self.stepped
        if self.due or stepped is None or not stepped.observation.done:
            raise ReplayDivergence("it is recorded as finished before the world came to its end")
        if event.data["score"] != self.total:
            raise ReplayDivergence(f"the score is recorded as {event.data['score']}, not {self.total}")
        result = stepped.state.get("result")
        if event.data["result"] != result:
            raise ReplayDivergence(f"the result is recorded as {event.data['result']!r}, not {result!r}")


def _as_recorded(data: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` as it reads once it has been written."""
    read: dict[str, Any] = json.loads(encode_json(data))
    return read
