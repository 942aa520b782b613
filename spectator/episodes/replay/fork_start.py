"""Brings a new environment and its captains to where a fork begins, as late in its parent as may be."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from spectator.episodes.record.reader import ViewReader
from spectator.episodes.replay.checkpoints import UnfitCheckpoint, ViewAlone, episode_snapshot
from spectator.episodes.replay.recorded_calls import streamed_with_whole_replies
from spectator.episodes.replay.replayer import Replay, ReplayDivergence
from spectator.episodes.run.plan import EpisodePlan
from spectator.episodes.run.ports import Past
from spectator.errors import EnvironmentFault, EpisodeError, FieldError, InvalidRequest, typed_as
from spectator.events import Event, RecordedEvent
from spectator.journal.base import Checkpoint, Journal
from spectator.policies.base import DecidesAfresh, Policy, ScriptedPolicy
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper

logger = logging.getLogger(__name__)


class _Differs(InvalidRequest):
    """The parent's record does not follow from where the replay of it began."""


@dataclass(frozen=True, slots=True)
class ParentRecord:
    """The record of an episode up to where another one is forked from it.

    Args:
        journal: Where it is.
        records: Reads it as viewers see it.
        started: Data of its first event.
        derived: Whether its view is derived.
        episode_id: Which.
        until: Number of the last event that the fork keeps, as viewers number them.
        characters: Characters of it that may be read.
    """

    journal: Journal
    records: ViewReader
    started: Mapping[str, Any]
    derived: bool
    episode_id: str
    until: int
    characters: float

    async def events(self, after: int) -> AsyncGenerator[RecordedEvent, None]:
        """Its events after number ``after``, each reply of a model whole.

        Raises:
            InvalidRequest: There are not so many, or together they are too long.
        """
        recorded = self.records.stream(self.episode_id, after_seq=after)
        seq, size = after, 0
        async for one in streamed_with_whole_replies(self.journal, self.episode_id, recorded):
            if one.seq > self.until:
                break
            size += len(one.text)
            if size > self.characters:
                raise too_far(self.characters, seq)
            seq = one.seq
            yield one
        if seq < self.until:
            raise beyond(seq)

    async def last(self) -> Event:
        """The last event that the fork keeps; of a record whose view is not derived."""
        found = await self.journal.read(self.episode_id, after_seq=self.until - 1, limit=1)
        return found[0].event


@dataclass(frozen=True, slots=True)
class Brought:
    """An environment and captains that stand where a fork begins.

    Args:
        stepper: The environment.
        past: Where the captains stand.
    """

    stepper: Stepper
    past: Past


async def bring(
    parent: ParentRecord, plan: EpisodePlan, episode_id: str, open_stepper: OpenStepper
) -> Brought:
    """Replay the parent up to where the fork begins, from its newest checkpoint that leads there, or whole.

    Args:
        parent: The record.
        plan: The fork's; its parent's turn is at least that at which the fork begins.
        episode_id: Id of the fork.
        open_stepper: Makes the environment's stepper.

    Raises:
        InvalidRequest: Nobody can play on from there, or the record does not follow from its seed.
        JournalError: The record cannot be read.
    """
    for checkpoint in (*await _checkpoints(parent, plan), None):
        stepper = open_stepper(plan.world, episode_id)
        try:
            return Brought(stepper, await _replayed(parent, plan, episode_id, stepper, checkpoint))
        except (_Differs, UnfitCheckpoint, EnvironmentFault) as error:
            await stepper.aclose()
            if checkpoint is None:
                raise
            level = logging.INFO if isinstance(error, ViewAlone) else logging.WARNING
            where = f"the checkpoint after event {checkpoint.seq}"
            told = "episode %s: %s does not lead to its fork and is ignored: %s"
            logger.log(level, told, parent.episode_id, where, error)
        except BaseException:
            await stepper.aclose()
            raise
    raise AssertionError("the whole record comes last")


async def _checkpoints(parent: ParentRecord, plan: EpisodePlan) -> Sequence[Checkpoint]:
    """Where the fork's replay may begin, the latest first."""
    world = plan.world
    if parent.derived or world.remote is not None or world.snapshot_for is None:
        return ()
    if _newcomers(parent.started, plan, _seated(plan)) is None:
        return ()
    kept = await parent.journal.checkpoints(parent.episode_id)
    return [one for one in kept if one.seq <= parent.until]


def _newcomers(
    started: Mapping[str, Any], plan: EpisodePlan, seats: Mapping[str, Policy]
) -> frozenset[str] | None:
    """The actors whose captains begin where the fork does; ``None`` where one has to have seen the past.

    Whoever is the same as in the parent takes its memory. Scripted captains think along from the beginning
    unless they decide afresh; a model that stays, but is asked otherwise now, takes in what it decided.
    """
    fork = plan.parent
    assert fork is not None, "the plan is a fork's"
    before = started.get("parent")
    captains_seed = started["seed"] if before is None else before["captains_seed"]
    fresh = set()
    for actor, policy in seats.items():
        seat, preset = started["seats"][actor], plan.preset(actor)
        same = (preset.name, preset.fingerprint) == (seat["policy"], seat.get("fingerprint"))
        if same and fork.captains_seed == captains_seed:
            continue
        thinks_along = isinstance(policy, ScriptedPolicy) and not isinstance(policy, DecidesAfresh)
        if thinks_along or actor in (fork.own_since or {}):
            return None
        fresh.add(actor)
    return frozenset(fresh)


def _seated(plan: EpisodePlan) -> dict[str, Policy]:
    return {actor: plan.policy(actor) for actor in plan.world.actors}


async def _replayed(
    parent: ParentRecord,
    plan: EpisodePlan,
    episode_id: str,
    stepper: Stepper,
    checkpoint: Checkpoint | None,
) -> Past:
    seats = _seated(plan)
    replay = Replay(plan.world, stepper, seats, episode_id=episode_id, parent=plan.parent)
    boundary, last = 0, None
    if checkpoint is not None:
        boundary = checkpoint.seq
        with typed_as(_unfit, passing=(EpisodeError,)):
            stood = episode_snapshot(checkpoint.body, plan.world).of_episode(plan.world, episode_id)
            fresh = _newcomers(parent.started, plan, seats) or frozenset()
            await replay.go_on_from(stood, boundary, fresh=fresh)
    async with aclosing(parent.events(boundary)) as events:
        async for one in events:
            event = one.event
            if last is not None and last.turn < event.turn:
                boundary = last.seq
            last = event
            try:
                differences = await replay.compare(event)
            except ReplayDivergence as divergence:
                differences = [str(divergence)]
            for difference in differences:
                rule = f"is not what its seed and decisions give: event {event.seq}: {difference}"
                raise _Differs([FieldError("episode_id", rule)])
    return _past(replay, seats, last or await parent.last(), boundary)


def _past(replay: Replay, seats: Mapping[str, Policy], last: Event, boundary: int) -> Past:
    """Where the captains stand after ``last``, if that is the end of a step; one ended at ``boundary``."""
    if replay.due:
        other = f"{boundary}, the one before it, or the last of it" if boundary else "the last of it"
        raise wrong("seq", f"event {last.seq} is inside the step of turn {last.turn}; choose {other}")
    stepped = replay.stepped
    assert stepped is not None
    if stepped.observation.done:
        raise wrong("seq", f"the game is over at event {last.seq}: there is nothing left to play")
    return Past(seats, replay.refusals, last.turn, replay.total, replace(stepped, facts=[]))


def _unfit(error: Exception) -> UnfitCheckpoint:
    return UnfitCheckpoint(f"it cannot be gone on from: {type(error).__name__}: {error}")


def wrong(field: str, rule: str) -> InvalidRequest:
    """The refusal of a fork for one field."""
    return InvalidRequest([FieldError(field, rule)])


def beyond(head_seq: int) -> InvalidRequest:
    """The refusal of a fork at an event that is not there."""
    return wrong("seq", f"must be from 1 to {head_seq}: that is how much is recorded")


def too_far(characters: float, last: int) -> InvalidRequest:
    """The refusal of a fork whose past would be longer than an episode may be."""
    much = f"the first {characters / 1e6:g} MB of the record"
    other = f"fork up to event {last}" if last else "not even its first event fits"
    return wrong("seq", f"lies beyond {much}, as long as an episode may be (SPECTATOR_EPISODE_MB); {other}")
