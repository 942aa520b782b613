"""Fork an episode: restore its world and continue it with other captains.

The fork's record begins with a copy of the parent's facts under the fork's id, so the fork can be replayed,
verified and recovered without its parent, which may be pruned or edited.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.core_events import Parent, core_fact
from spectator.environments.contract import Stepper
from spectator.episodes.checkpoints import UnfitCheckpoint, ViewOnlyCheckpoint, episode_snapshot, unfit
from spectator.episodes.controls import Pace
from spectator.episodes.derived_stream import Stream
from spectator.episodes.driver import Past
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.reader import ViewReader
from spectator.episodes.recorded_calls import CallsInOrder, streamed_with_whole_replies
from spectator.episodes.replayer import FROM_OUTSIDE, Replay, ReplayDivergence
from spectator.episodes.restore import within
from spectator.episodes.stream import TurnFacts
from spectator.episodes.view import is_derived
from spectator.errors import (
    EnvironmentFault,
    EpisodeError,
    EpisodeNotFound,
    FieldError,
    InvalidRequest,
    JournalError,
    typed_as,
)
from spectator.events import Fact
from spectator.journal.contract import Attachments, Checkpoint, Journal
from spectator.model_calls import ModelCall
from spectator.policies.policy import ScriptedPolicy, Stateless
from spectator.steppers.local import OpenStepper, on_a_thread

logger = logging.getLogger(__name__)


async def give_up_staged(journal: Journal, episode_id: str) -> None:
    """Remove the staged events of a failed fork, now or at the next start; never raises.

    Does nothing if the episode is complete.
    """
    try:
        await journal.unstage(episode_id)
    except JournalError as error:
        logger.warning("the staged events of %s will be removed later: %s", episode_id, error)


class _Differs(InvalidRequest):
    """The replay does not reproduce the parent's record."""


@dataclass(frozen=True, slots=True)
class ParentRecord:
    """The record of a parent episode up to the fork.

    Args:
        records: Reads the record as viewers see it.
        started: Data of its first event.
        derived: Whether its view is derived.
        until: Number of the last event that the fork keeps, in the viewers' numbering.
        characters: Maximum characters of the record to read.
    """

    journal: Journal
    records: ViewReader
    started: Mapping[str, Any]
    derived: bool
    episode_id: str
    until: int
    characters: float


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """An environment and captains restored to where a fork begins."""

    stepper: Stepper
    past: Past


async def restore_start(
    parent: ParentRecord, plan: EpisodePlan, episode_id: str, open_stepper: OpenStepper
) -> ForkPoint:
    """Replay the parent up to the fork, from its newest usable checkpoint or from its start.

    Args:
        plan: The fork's plan; its ``parent.turn`` is at least the turn at which the fork begins.

    Raises:
        InvalidRequest: The fork cannot begin there, or the replay does not reproduce the record.
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
            return ForkPoint(stepper, await _replayed(parent, plan, episode_id, stepper, checkpoint, fresh))
        except (_Differs, UnfitCheckpoint, EnvironmentFault) as error:
            await stepper.aclose()
            if checkpoint is None:
                raise
            level = logging.INFO if isinstance(error, ViewOnlyCheckpoint) else logging.WARNING
            where = f"the checkpoint after event {checkpoint.seq}"
            message = "episode %s: %s cannot be used for its fork and is ignored: %s"
            logger.log(level, message, parent.episode_id, where, error)
        except BaseException:
            await stepper.aclose()
            raise
    raise AssertionError("the whole record comes last")


def _newcomers(started: Mapping[str, Any], plan: EpisodePlan) -> frozenset[str] | None:
    """Return the actors whose captains begin at the fork; ``None`` if one needs the whole past.

    A captain that is the same as in the parent takes over its memory. Scripted captains think along from the
    start unless they are stateless. A model that stays, but with another configuration,
    is given its decisions.
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
        thinks_along = isinstance(policy, ScriptedPolicy) and not isinstance(policy, Stateless)
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
        with typed_as(unfit, passing=(EpisodeError,)):
            snapshot = episode_snapshot(checkpoint.body, plan.world).of_episode(plan.world, episode_id)
            await replay.resume_from(snapshot, boundary, fresh=fresh)
        (at_checkpoint,) = await parent.journal.read(parent.episode_id, after_seq=boundary - 1, limit=1)
        last = at_checkpoint.event
    events = parent.records.stream(parent.episode_id, after_seq=boundary)
    if plan.parent is not None and plan.parent.own_since:  # a model remembers its replies
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
            rule = f"cannot be reproduced from its seed and decisions: event {last.seq}: {difference}"
            raise _Differs([FieldError("episode_id", rule)])
    if last is None or last.seq < parent.until:
        raise beyond(0 if last is None else last.seq)
    if replay.due:
        other = f"{boundary}, the one before it, or the last of it" if boundary else "the last of it"
        raise wrong("seq", f"event {last.seq} is inside the step of turn {last.turn}; use {other}")
    stepped = replay.stepped
    assert stepped is not None
    if stepped.observation.done:
        raise wrong("seq", f"the game is over at event {last.seq}: there is nothing left to play")
    return Past(seats, replay.refusals, last.turn, replay.total, replace(stepped, facts=[]))


def wrong(field: str, rule: str) -> InvalidRequest:
    """Return the error for one invalid field of a fork request."""
    return InvalidRequest([FieldError(field, rule)])


def beyond(head_seq: int) -> InvalidRequest:
    """Return the error for a fork at an event that does not exist."""
    return wrong("seq", f"must be from 1 to {head_seq}, the last recorded event")


def too_far(characters: float, last: int) -> InvalidRequest:
    """Return the error for a fork whose past exceeds the size limit of an episode."""
    limit = f"the first {characters / 1e6:g} MB of the record"
    other = f"fork at event {last} or earlier" if last else "not even its first event fits"
    return wrong("seq", f"is beyond {limit}, the size limit of an episode (SPECTATOR_EPISODE_MB); {other}")


NOT_COPIED: Final = FROM_OUTSIDE | {"episode.started", "narration.line", "episode.ended"}
"""Event types that are not copied: they belong to the parent only, or follow from the others."""

BATCH_CHARACTERS: Final = 1_000_000
"""Characters of the parent's record copied at once; limits memory and how long other writers wait."""


@dataclass(slots=True)
class PastBatch:
    """Facts of the parent that the fork records in one commit.

    Args:
        calls: For each decision among them, in order, the model calls behind it.
        characters: Approximate characters of record.
    """

    steps: list[TurnFacts] = field(default_factory=list)
    calls: list[Sequence[ModelCall]] = field(default_factory=list)
    characters: int = 0


async def copy_past(
    parent: ParentRecord, plan: EpisodePlan, stream: Stream, need_time: Callable[[], None]
) -> tuple[Sequence[TurnFacts], Attachments | None]:
    """Stage the fork's past, except for the last batch, invisible to readers; steps no world.

    Args:
        need_time: Called between two batches; raises if the copy must stop.

    Returns:
        The last batch, which completes the episode once recorded, and its attachments.

    Raises:
        JournalError: The parent cannot be read or ends before the fork, or its copy cannot be recorded.
    """
    journal, seq, staged = parent.journal, 0, False
    batch, calls = PastBatch([(0, [core_fact(plan.started())])]), None
    async for one in parent.records.stream(parent.episode_id):
        if one.seq > parent.until:
            break
        seq = one.seq
        if one.type in NOT_COPIED:
            continue
        if batch.characters >= BATCH_CHARACTERS:
            if not staged:
                journal.begin_staging(stream.episode_id)
            staged = True
            attached = Attachments(batch.calls) if any(batch.calls) else None
            await stream.emit_steps(batch.steps, patient=False, attachments=attached)
            need_time()
            batch = PastBatch()
        event = one.event
        batch.steps.append((event.turn, [Fact(event.type, event.data)]))
        batch.characters += len(one.text)
        if event.type == "decision.made":
            behind: Sequence[ModelCall] = ()
            if event.data.get("exchanges"):
                calls = calls or CallsInOrder(journal.calls(parent.episode_id))
                behind = await calls.behind(event.turn)
            batch.calls.append(behind)
    if seq < parent.until:
        raise JournalError(f"events {seq + 1} to {parent.until} of {parent.episode_id} are gone")
    if staged:
        journal.end_staging(stream.episode_id)
    return batch.steps, Attachments(batch.calls) if any(batch.calls) else None


LONG_EVENT: Final = 100_000
"""Characters that few events exceed: a past that fits even if all its events are this long fits."""

ANY_TURN: Final = 2**53 - 1
"""Placeholder for the turn at which a fork begins while that is unknown."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A request for a fork.

    Args:
        seq: The last event to keep, in the viewers' numbering: the last of a step, before the world's end.
        captain: Preset for the agent's seat; ``None`` for the parent's.
        opponent: Preset for the other seats; ``None`` for the parent's.
        seed: Seed of the policies, 0 .. 2**53 - 1; ``None`` for the parent's. The world keeps its own: the
            same actions have the same consequences as in the parent.
    """

    episode_id: str
    seq: int
    captain: str | None = None
    opponent: str | None = None
    seed: int | None = None
    pace: Pace = Pace.BROADCAST


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork that is ready to play once its past is recorded.

    Args:
        stepper: Its environment, restored to where the fork begins.
        parent: The parent's record, to be copied.
    """

    plan: EpisodePlan
    past: Past
    stepper: Stepper
    parent: ParentRecord


async def start_fork(
    journal: Journal,
    request: ForkRequest,
    episode_id: str,
    *,
    limit_s: float,
    characters: float = math.inf,
    load: LoadWorld | None = None,
    open_stepper: OpenStepper = on_a_thread,
    plan: EpisodePlan | None = None,
) -> Forked:
    """Restore a new environment to where the fork begins, from a checkpoint or the parent's start.

    Scripted captains think along, and a language model that stays in its seat remembers its decisions; other
    captains, and people, begin at the fork.

    Args:
        limit_s: Time limit of the replay, in seconds.
        characters: Maximum characters of the parent's record to copy.
        load: Finds the world; the catalogue if omitted.
        plan: The result of :func:`plan_fork` for ``request``; computed if omitted.

    Raises:
        EpisodeNotFound: There is no such parent.
        InvalidRequest: Names every invalid field, as in ``POST /custom/fork``.
        JournalError: The parent cannot be read.
        StepTimeout: The replay took longer than ``limit_s``.
    """
    plan = plan or await plan_fork(journal, request, load)
    name, seq = request.episode_id, request.seq
    head = await journal.read(name, limit=1)
    if not head:
        raise EpisodeNotFound(name)
    first = head[0].event
    derived = is_derived(first)
    if not derived and not await journal.read(name, after_seq=seq - 1, limit=1):
        summary = await journal.episode(name)
        raise beyond(0 if summary is None else summary.head_seq)
    if not derived and seq * LONG_EVENT > characters:
        last = await journal.last_within(name, int(characters), until=seq)
        if last < seq:
            raise too_far(characters, last)

    records = ViewReader(journal, load)
    parent = ParentRecord(journal, records, first.data, derived, name, seq, characters)
    start = await within(limit_s, restore_start(parent, plan, episode_id, open_stepper))
    assert plan.parent is not None, "the plan is a fork's"
    origin = plan.parent.model_copy(update={"turn": start.past.turn})
    return Forked(replace(plan, parent=origin), start.past, start.stepper, parent)


async def plan_fork(journal: Journal, request: ForkRequest, load: LoadWorld | None = None) -> EpisodePlan:
    """Plan a fork without replaying anything; its turn is still unknown.

    Args:
        journal: Where the parent is recorded; its first event is read.
        load: Finds the world; the catalogue if omitted.

    Raises:
        EpisodeNotFound: There is no such parent.
        InvalidRequest: See :func:`start_fork`.
        JournalError: The parent cannot be read.
    """
    first = await journal.read(request.episode_id, limit=1)
    if not first:
        raise EpisodeNotFound(request.episode_id)
    started = first[0].event.data
    world = (load or load_world)(started["environment"])
    if world.version != started["environment_version"]:
        raise wrong(
            "episode_id",
            f"was played with version {started['environment_version']} of {world.name}, but version "
            f"{world.version} is installed; only episodes of the same version can be forked",
        )
    agent, seats = started["agent"], started["seats"]
    asked = EpisodeRequest(
        environment=world.name,
        captain=request.captain or seats[agent]["policy"],
        opponent=request.opponent,
        pack=started["pack"],
        seed=started["seed"],
        pace=request.pace,
        narration=started["narration"],
        options=started["options"],
        on_failure=started.get("on_failure", "fallback"),
        failed_decisions=started.get("failed_decisions", "fallback"),
        waits_for_rest=started.get("waits_for_rest", False),
    )
    plan = plan_episode(asked, draw_seed=lambda: 0, load=load)
    if request.opponent is None and plan.opponent is not None:
        plan = replace(plan, opponent=_same_opponent(plan, seats, agent))
    before = Parent.model_validate(started["parent"]) if started.get("parent") else None
    seed = request.seed
    if seed is None:
        seed = started["seed"] if before is None else before.captains_seed
    own_since = {  # for models that stay in their seats
        actor: 0 if before is None else before.own_after(actor)
        for actor, seat in seats.items()
        if seat["source"] == "model" and plan.preset(actor).name == seat["policy"]
    }
    origin = Parent(
        episode_id=request.episode_id, seq=request.seq, turn=ANY_TURN, captains_seed=seed,
        own_since=own_since or None,
    )  # fmt: skip
    return replace(plan, parent=origin)


def _same_opponent(plan: EpisodePlan, seats: Mapping[str, Mapping[str, Any]], agent: str) -> Any:
    world = plan.world
    name = next(seat["policy"] for actor, seat in seats.items() if actor != agent)
    preset = {**world.captains, **world.opponents}.get(name)
    if preset is None or preset.missing is not None:
        raise wrong(
            "opponent_choice", f"the parent's opponent {name!r} is not available here; choose another"
        )
    return preset
