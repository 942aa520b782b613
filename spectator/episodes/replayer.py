"""Replay a recorded episode from its seed and decisions, and verify it.

Model calls and the sealed truth are checked against the digests in the events.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.core_events import CALLS_BEHIND, Parent
from spectator.environments.contract import Stepped, Stepper
from spectator.environments.world import World
from spectator.episodes.checkpoints import EpisodeSnapshot, restore_memories
from spectator.episodes.steps import facts_of_step
from spectator.episodes.view import DerivedView, State, is_derived, with_patch
from spectator.errors import EnvironmentFault, JournalError
from spectator.events import Event, Fact, RecordedEvent, encode_json
from spectator.journal.contract import Journal, RecordedCall, truth_digest
from spectator.json_values import apply_patch
from spectator.llm.exchanges import fingerprint
from spectator.narration.commentary import line_fact
from spectator.policies.policy import Policy, Remembers, ScriptedPolicy
from spectator.steppers.local import inline

MEASURED: Final[Mapping[str, frozenset[str]]] = {"step.taken": frozenset({"duration_s"})}
"""Measured fields, which differ from run to run."""

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
"""Event types that do not follow from seed and decisions; their patches still must match."""


class ReplayDivergence(Exception):
    """The record contains an event that the replay does not produce there."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The viewers' state at the end of a record.

    Args:
        seq: Number of the last event in the viewers' numbering.
    """

    state: State
    seq: int


class Replay:
    """Replays a recorded episode, one recorded event at a time, and compares it.

    Args:
        stepper: A new environment of it, not begun; afterwards it is where the record ends. Its calls have
            no deadline: the caller sets one for the whole replay.
        seats: Policies to replay, by actor. Scripted ones are asked again, so that their random generators
            advance, and must decide as recorded; in the part of a fork copied from its parent their
            decisions are ignored. Policies that remember are given their own decisions.
        episode_id: Id given to the environment; the record's own if omitted.
        parent: What the episode was forked from; as recorded if omitted.
        derived: Whether the events contain neither patches nor commentary.
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
        """Facts produced by the replay but not yet found in the record."""
        self.shown = Shown({}, 0)
        """The viewers' state after the last compared event."""
        self.stepped: Stepped | None = None
        """The world's last answer; ``None`` before the beginning."""
        self.refusals: dict[str, int] = {}
        """Number of refused actions, by actor."""
        self.total = 0.0
        """The sum of all rewards so far."""

    async def resume_from(self, snapshot: EpisodeSnapshot, seq: int, *, fresh: Collection[str] = ()) -> None:
        """Restore the state after event ``seq`` instead of replaying up to it.

        Args:
            fresh: Actors with new policies, whose memories are not restored.

        Raises:
            UnfitCheckpoint: A policy cannot restore its memory.
            EnvironmentFault: The environment cannot restore its snapshot.
        """
        restore_memories(self._seats, snapshot.memories, fresh)
        self.stepped = await self._stepper.restore(snapshot.snapshot, limit_s=None)
        self.shown = Shown(snapshot.state, seq)
        self.refusals, self.total = dict(snapshot.refusals), snapshot.total

    async def compare(self, event: Event) -> list[str]:
        """Return the differences between ``event`` and the replay, and advance to the event.

        Raises:
            ReplayDivergence: The replay does not produce this event, or the world failed.
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
            differences.append(f"the patch of {event.type} does not match its data")
        lines = self._world.commentator(folded, state) if event.type != "narration.line" else ()
        self.due.extendleft(line_fact(line, event.seq) for line in reversed(lines))
        return differences

    def _derive(self, event: Event, view: DerivedView) -> list[str]:
        differences = [f"{event.type} has a patch, but the view is derived"] if event.patch else []
        before = view.fault
        view.show(replace(event, epoch=view.epoch, patch={}))
        self.shown = Shown(view.state, view.seq)
        if view.fault != before:
            differences.append(f"the world's projection or commentary of it fails: {view.fault}")
        return differences

    async def _begin(self, event: Event) -> None:
        if self.stepped is not None:
            raise ReplayDivergence("the episode starts again")
        version = event.data["environment_version"]
        if version != self._world.version:
            raise ReplayDivergence(
                f"it was played with version {version} of {self._world.name}, but version "
                f"{self._world.version} is installed"
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
            raise ReplayDivergence(f"{self.due[0].type} is missing before the next decision")
        observation = None if self.stepped is None else self.stepped.observation
        asked = None if observation is None else observation.actor
        if observation is None or asked is None or event.data["actor"] != asked:
            raise ReplayDivergence(f"{event.data['actor']} decided, but {asked} was asked")
        policy, parent = self._seats.get(asked), self._parent
        if isinstance(policy, Remembers) and event.turn > (0 if parent is None else parent.own_after(asked)):
            policy.remember(observation, event.data)
        if isinstance(policy, ScriptedPolicy):
            again = policy.choose(observation).action
            thinks_along = parent is not None and event.turn <= parent.turn
            decided = event.data["action"]
            if not thinks_along and again != decided and _as_recorded(dict(again)) != decided:
                raise ReplayDivergence(f"the decision of {asked} differs from the recorded one")
        self.stepped = await self._stepper.step(event.data["action"], limit_s=None)
        self.total += self.stepped.observation.reward
        decided = Fact(event.type, event.data)
        self.due.extend(facts_of_step(asked, decided, self.stepped, 0.0, self.refusals)[1:])

    def _expect(self, event: Event) -> None:
        if not self.due:
            raise ReplayDivergence(f"{event.type} is recorded, but the replay produces no event")
        due = self.due.popleft()
        measured = MEASURED.get(event.type, frozenset())
        found = {name: value for name, value in event.data.items() if name not in measured}
        if event.type != due.type:
            raise ReplayDivergence(f"{event.type} is recorded, but the replay produces {due.type}")
        expected = {name: value for name, value in due.data.items() if name not in measured}
        if found == expected:
            return
        expected = _as_recorded(expected)
        if found != expected:
            names = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
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
            raise ReplayDivergence("it is recorded as finished before the world ended")
        if event.data["score"] != self.total:
            raise ReplayDivergence(f"the score is recorded as {event.data['score']}, not {self.total}")
        result = stepped.state.get("result")
        if event.data["result"] != result:
            raise ReplayDivergence(f"the result is recorded as {event.data['result']!r}, not {result!r}")


def _as_recorded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``data`` as decoded from its encoding."""
    read: dict[str, Any] = json.loads(encode_json(data))
    return read


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One difference between a record and its replay."""

    seq: int
    message: str


async def verify(
    recorded: AsyncIterable[RecordedEvent], *, load: LoadWorld | None = None
) -> list[Discrepancy]:
    """Replay a recorded episode and compare every event and patch.

    Args:
        recorded: All events of one episode, in order.
        load: Finds the world; the catalogue if omitted.

    Returns:
        The differences, in order; empty if the record is correct. After an unexpected event, the rest
        cannot be compared.

    Raises:
        InvalidRequest: Its world is not in the catalogue.
    """
    comparison = _Comparison(load or load_world)
    try:
        async for one in recorded:
            if not await comparison.take(one.event):
                break
        else:
            comparison.end()
    finally:
        await comparison.aclose()
    return comparison.found


class _Comparison:
    """The differences between a record and its replay so far."""

    def __init__(self, load: LoadWorld) -> None:
        self.found: list[Discrepancy] = []
        self._load = load
        self._expected_seq = 1
        self._replay: Replay | None = None
        self._stepper: Stepper | None = None

    async def take(self, event: Event) -> bool:
        """Compare the next event; return whether later ones can be compared."""
        if event.seq != self._expected_seq:
            return self._note(event.seq, f"event {self._expected_seq} is missing")
        if self._replay is None:
            if event.type != "episode.started":
                return self._note(event.seq, f"begins with {event.type}")
            world = self._load(event.data["environment"])
            self._stepper = inline(world, event.episode_id)
            self._replay = Replay(world, self._stepper, derived=is_derived(event))
        try:
            differences = await self._replay.compare(event)
        except ReplayDivergence as divergence:
            return self._note(event.seq, str(divergence))
        for difference in differences:
            self._note(event.seq, difference)
        self._expected_seq += 1
        return True

    def end(self) -> None:
        """Note that the record ends here."""
        if self._replay is not None and not self._replay.ended:
            self._note(self._expected_seq, "the record stops before the end")

    async def aclose(self) -> None:
        """Close the world."""
        if self._stepper is not None:
            await self._stepper.aclose()

    def _note(self, seq: int, message: str) -> bool:
        self.found.append(Discrepancy(seq, message))
        return False


async def verify_attachments(
    journal: Journal, episode_id: str, *, see: Callable[[RecordedCall], None] = lambda call: None
) -> AsyncIterator[Discrepancy]:
    """Yield where model calls and sealed truth differ from the events' digests, in order.

    Args:
        journal: The journal; the episode's chain of digests must be checked already.
        see: Called with every call that matches its digest.

    Raises:
        ConfigurationError: The extra needed to check model calls is not installed.
        JournalError: An event cannot be read.
    """
    calls = _Calls(journal.calls(episode_id), see)
    async for one in journal.stream(episode_id):
        event = one.event
        if event.type in CALLS_BEHIND:
            async for discrepancy in calls.compare(event):
                yield discrepancy
        if event.type == "episode.ended":
            async for discrepancy in _compare_truth(journal, event):
                yield discrepancy
    async for discrepancy in calls.left():
        yield discrepancy


class _Calls:
    """Compares the recorded calls, in order, with the decisions that state them."""

    def __init__(self, calls: AsyncIterator[RecordedCall], see: Callable[[RecordedCall], None]) -> None:
        self._calls = calls
        self._see = see
        self._next: RecordedCall | None = None
        self._broken = False

    async def compare(self, decided: Event) -> AsyncIterator[Discrepancy]:
        """Yield what is wrong with the calls behind one decision, made or failed."""
        stated = decided.data.get("undecided", decided.data)
        for place, exchange in enumerate(stated.get("exchanges") or ()):
            if exchange.get("digest") is None or self._broken:
                continue
            try:
                found = await self._take(decided.seq, place)
            except JournalError as error:
                self._broken = True
                yield Discrepancy(decided.seq, str(error))
                return
            if found is None:
                yield Discrepancy(decided.seq, f"call {place} behind it is missing")
            elif wrong := _wrong(found, exchange):
                yield Discrepancy(decided.seq, f"call {place} behind it {wrong}")
            else:
                self._see(found)

    async def left(self) -> AsyncIterator[Discrepancy]:
        """Yield calls that no decision states."""
        try:
            while not self._broken and (one := self._next or await anext(self._calls, None)) is not None:
                self._next = None
                yield Discrepancy(one.decided.seq, f"call {one.place} behind it was added")
        except JournalError as error:
            yield Discrepancy(0, str(error))

    async def _take(self, seq: int, place: int) -> RecordedCall | None:
        """Return the call of that decision and place, if it is the next one."""
        if self._next is None:
            self._next = await anext(self._calls, None)
        found = self._next
        if found is None or (found.decided.seq, found.place) != (seq, place):
            return None
        self._next = None
        return found


def _wrong(found: RecordedCall, exchange: Mapping[str, Any]) -> str | None:
    asked = fingerprint(found.call.messages, found.call.tools)
    if asked != exchange["request"]:
        return "does not match the messages digest of the event"
    if found.call.digest(asked) != exchange["digest"]:
        return "does not match its digest in the event"
    return None


async def _compare_truth(journal: Journal, ended: Event) -> AsyncIterator[Discrepancy]:
    stated = ended.data.get("truth")
    try:
        truth = await journal.truth(ended.episode_id)
    except JournalError as error:
        yield Discrepancy(ended.seq, str(error))
        return
    if truth is None and stated is not None:
        yield Discrepancy(ended.seq, "its truth is missing")
    elif truth is not None and stated is None:
        yield Discrepancy(ended.seq, "a truth was added that the event does not state")
    elif truth is not None and truth_digest(truth) != stated:
        yield Discrepancy(ended.seq, "the truth does not match its digest in the event")
