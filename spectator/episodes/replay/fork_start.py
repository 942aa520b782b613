"""Brings a new environment and its captains to where a fork begins, as late in its parent as may be."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from spectator.episodes.replay.checkpoints import UnfitCheckpoint, ViewAlone, episode_snapshot
from spectator.episodes.replay.recorded_calls import streamed_with_whole_replies
from spectator.episodes.replay.replayer import Replay, ReplayDivergence
from spectator.episodes.run.plan import EpisodePlan
from spectator.episodes.run.ports import Past
from spectator.errors import EnvironmentFault, EpisodeError, FieldError, InvalidRequest, typed_as
from spectator.events import RecordedEvent
from spectator.journal.base import Checkpoint, Journal
from spectator.policies.base import DecidesAfresh, ScriptedPolicy
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper

logger = logging.getLogger(__name__)


class _Differs(InvalidRequest):
    """The parent's record does not follow from where the replay of it began."""


class Streams(Protocol):
    """Reads records a batch at a time."""

    def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order."""
        ...


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
    records: Streams
    started: Mapping[str, Any]
    derived: bool
    episode_id: str
    until: int
    characters: float


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
    kept: Sequence[Checkpoint] = ()
    world = plan.world
    if not parent.derived and world.remote is None and world.snapshot_for is not None:
        found = await parent.journal.checkpoints(parent.episode_id)
        kept = [one for one in found if one.seq <= parent.until]
    newcomers = _newcomers(parent.started, plan) if kept else None
    fresh, kept = (frozenset(), ()) if newcomers is None else (newcomers, kept)
    for checkpoint in (*kept, None):
        stepper = open_stepper(plan.world, episode_id)
        try:
            return Brought(stepper, await _replayed(parent, plan, episode_id, stepper, checkpoint, fresh))
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


def _newcomers(started: Mapping[str, Any], plan: EpisodePlan) -> frozenset[str] | None:
    """The actors whose captains begin where the fork does; ``None`` where one has to have seen the past.

    Whoever is the same as in the parent takes its memory. Scripted captains think along from the beginning
    unless they decide afresh; a model that stays, but is asked otherwise now, takes in what it decided.
    """
    fork = plan.parent
    assert fork is not None, "the plan is a fork's"
    before = started.get("parent")
    captains_seed = started["seed"] if before is None else before["captains_seed"]
    fresh = set()
    for actor in plan.world.actors:
        seat, preset = started["seats"][actor], plan.preset(actor)
        same = (preset.name, preset.fingerprint) == (seat["policy"], seat.get("fingerprint"))
        if same and fork.captains_seed == captains_seed:
            continue
        policy = plan.policy(actor)
        thinks_along = isinstance(policy, ScriptedPolicy) and not isinstance(policy, DecidesAfresh)
        if thinks_along or actor in (fork.own_since or {}):
            return None
        fresh.add(actor)
    return frozenset(fresh)


async def _replayed(
    parent: ParentRecord,
    plan: EpisodePlan,
    episode_id: str,
    stepper: Stepper,
    checkpoint: Checkpoint | None,
    fresh: frozenset[str],
) -> Past:
    seats = {actor: plan.policy(actor) for actor in plan.world.actors}
    replay = Replay(plan.world, stepper, seats, episode_id=episode_id, parent=plan.parent)
    boundary, last, size = 0, None, 0
    if checkpoint is not None:
        boundary = checkpoint.seq
        with typed_as(_unfit, passing=(EpisodeError,)):
            stood = episode_snapshot(checkpoint.body, plan.world).of_episode(plan.world, episode_id)
            await replay.go_on_from(stood, boundary, fresh=fresh)
        (at_checkpoint,) = await parent.journal.read(parent.episode_id, after_seq=boundary - 1, limit=1)
        last = at_checkpoint.event
    events = parent.records.stream(parent.episode_id, after_seq=boundary)
    if plan.parent is not None and plan.parent.own_since:  # a model takes in what it decided
        events = streamed_with_whole_replies(parent.journal, parent.episode_id, events)
    async for one in events:
        if one.seq > parent.until:
            break
        size += len(one.text)
        if size > parent.characters:
            raise too_far(parent.characters, one.seq - 1)
        if last is not None and last.turn < one.event.turn:
            boundary = last.seq
        last = one.event
        try:
            differences = await replay.compare(last)
        except ReplayDivergence as divergence:
            differences = [str(divergence)]
        for difference in differences:
            rule = f"is not what its seed and decisions give: event {last.seq}: {difference}"
            raise _Differs([FieldError("episode_id", rule)])
    if last is None or last.seq < parent.until:
        raise beyond(0 if last is None else last.seq)
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
