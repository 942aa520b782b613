"""Putting an episode that another process left back to where its record stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.opening import Left
from spectator.episodes.replay.checkpoints import UnfitCheckpoint, episode_snapshot
from spectator.episodes.replay.replayer import Replay, ReplayDivergence, Shown
from spectator.episodes.replay.unended import UnendedRecord
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.episodes.run.ports import Past
from spectator.errors import EnvironmentFault, EpisodeError, InvalidRequest, StepTimeout, typed_as
from spectator.events import Parent
from spectator.journal.base import Checkpoint
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper, on_a_thread

logger = logging.getLogger(__name__)

_Replayed = TypeVar("_Replayed")

MAX_ATTEMPTS: Final = 3
"""Recoveries in a row that got nowhere, after which an episode is given up: it may be what kills us."""


class CannotRebuild(EpisodeError):
    """The record does not lead back to where it stops."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An episode as another process left it.

    Args:
        episode_id: Its id.
        epoch: Identity of its numbering.
        left: Where its record stands.
        plan: What is played.
        past: Where its policies stand.
        stepper: Its environment, which stands where the record stops.
        attempt: 1 when the last recovery, if any, got anywhere; else one more than its.
    """

    episode_id: str
    epoch: str
    left: Left
    plan: EpisodePlan
    past: Past
    stepper: Stepper
    attempt: int


async def rebuild(
    record: UnendedRecord,
    *,
    limit_s: float,
    load: LoadWorld | None = None,
    attempts: float = MAX_ATTEMPTS,
    open_stepper: OpenStepper = on_a_thread,
) -> Rebuilt:
    """Play the record again in a new environment, comparing every event as it is read.

    Where the record has a checkpoint that fits, only what comes after it is played again.

    Args:
        record: That of an unended episode; no more of it is held than is read at once.
        limit_s: Seconds that it may take.
        load: Finds the world; the catalogue's own function when left out.
        attempts: Recoveries in a row that may get nowhere; no limit where a person starts each of them.
        open_stepper: Makes the environment's stepper.

    Raises:
        CannotRebuild: The record does not lead back, or leads to a death again and again.
        JournalError: It cannot be read.
        StepTimeout: It took longer.
    """
    first, last = record.first, record.last
    attempt = 1 if record.paused else record.recoveries + 1
    if attempt > attempts:
        raise CannotRebuild(f"the server died {attempts:g} times at turn {last.turn}")
    plan = await asyncio.to_thread(_plan_again, first.data, load or load_world)
    stepper, past, view = await within(limit_s, _replayed(plan, record, open_stepper))
    left = Left(last.seq, view.seq, view.state)
    return Rebuilt(first.episode_id, first.epoch, left, plan, past, stepper, attempt)


async def within(limit_s: float, replayed: Awaitable[_Replayed]) -> _Replayed:
    """What a replay comes to.

    Raises:
        StepTimeout: It took longer than ``limit_s`` seconds.
    """
    try:
        async with asyncio.timeout(limit_s) as scope:
            return await replayed
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise StepTimeout(f"the record could not be played again within {limit_s:g} s") from error


async def _replayed(
    plan: EpisodePlan, record: UnendedRecord, open_stepper: OpenStepper
) -> tuple[Stepper, Past, Shown]:
    """The episode put back, from its newest checkpoint that leads to where the record stops, or whole."""
    episode_id = record.first.episode_id
    for checkpoint in (*record.checkpoints, None):
        stepper = open_stepper(plan.world, episode_id)
        try:
            past, view = await _replay(stepper, plan, record, checkpoint)
        except (UnfitCheckpoint, CannotRebuild, EnvironmentFault) as error:
            await stepper.aclose()
            if checkpoint is None:
                raise
            where = f"the checkpoint after event {checkpoint.seq}"
            logger.warning("episode %s: %s does not lead on and is ignored: %s", episode_id, where, error)
            continue
        except BaseException:
            await stepper.aclose()
            raise
        return stepper, past, view
    raise AssertionError("the whole record comes last")


async def _replay(
    stepper: Stepper, plan: EpisodePlan, record: UnendedRecord, checkpoint: Checkpoint | None
) -> tuple[Past, Shown]:
    seats = {actor: plan.policy(actor) for actor in plan.world.actors}
    replay = Replay(plan.world, stepper, seats, parent=plan.parent, derived=plan.view == "derived")
    after = 0
    if checkpoint is not None:
        after = checkpoint.seq
        with typed_as(_unfit, passing=(EpisodeError,)):
            await replay.go_on_from(episode_snapshot(checkpoint.body, plan.world), after)
    async with aclosing(record.events(after)) as events:
        async for one in events:
            with typed_as(partial(_cannot_replay, one.seq), passing=(EpisodeError,)):
                for difference in await replay.compare(one.event):
                    raise CannotRebuild(f"event {one.seq}: {difference}")
    turn, due = record.last.turn, list(replay.due)
    if due and turn:
        raise CannotRebuild(f"turn {turn} is told only in part: {due[0].type} is missing")
    stepped = replay.stepped
    assert stepped is not None
    past = Past(seats, replay.refusals, turn, replay.total, replace(stepped, facts=due))
    return past, replay.shown


def _unfit(error: Exception) -> UnfitCheckpoint:
    return UnfitCheckpoint(f"it cannot be gone on from: {type(error).__name__}: {error}")


def _cannot_replay(seq: int, error: Exception) -> CannotRebuild:
    why = str(error) if isinstance(error, ReplayDivergence) else f"{type(error).__name__}: {error}"
    return CannotRebuild(f"event {seq}: {why}")


def _plan_again(started: Mapping[str, Any], load: LoadWorld) -> EpisodePlan:
    """The plan of an episode, from its first event."""
    try:
        world = load(started["environment"])
        agent, seats = started["agent"], started["seats"]
        if agent != world.actors[0] or set(seats) != set(world.actors):
            raise CannotRebuild(f"{world.name} has other actors now")
        captain = world.captains[seats[agent]["policy"]]
        others = {seat["policy"] for actor, seat in seats.items() if actor != agent}
        opponent = {**world.captains, **world.opponents}[others.pop()] if others else None
        missing = [preset.missing for preset in (captain, opponent) if preset is not None and preset.missing]
        if missing:
            raise CannotRebuild(f"a policy is not available any more: {missing[0]}")
        options = world.options_type.model_validate(started["options"]).model_dump(mode="json")
        pack, pace = world.packs[started["pack"]], Pace(started["pace"])
        parent = None if started.get("parent") is None else Parent.model_validate(started["parent"])
        return EpisodePlan(
            world, captain, opponent, pack, started["seed"], pace, started["narration"], options, parent,
            on_failure=started.get("on_failure", "fallback"), run_id=started.get("run_id"),
            group_id=started.get("group_id"), attempt=started.get("attempt"),
            view=started.get("view", "live"),
            failed_decisions=started.get("failed_decisions", "fallback"),
            waits_for_rest=started.get("waits_for_rest", False),
        )  # fmt: skip
    except (InvalidRequest, KeyError, ValidationError, ValueError) as error:
        raise CannotRebuild(f"it cannot be planned any more: {error}") from error
