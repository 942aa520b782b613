"""Playing one episode of a run in this process, turn by turn; left at any turn, it can be played on."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.bus import MemoryBus
from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.environments.contract import Stepper
from spectator.episodes.controls import EndRequest, EpisodeLimits, Pace
from spectator.episodes.decisions import FailureRule
from spectator.episodes.derived_stream import RecordPosition, Stream, open_stream
from spectator.episodes.driver import Past
from spectator.episodes.handle import PreparedEpisode, prepare
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recorded_calls import with_whole_replies
from spectator.episodes.recovery import interrupted
from spectator.episodes.restore import RestoreFailed, UnfinishedRecord, rebuild
from spectator.errors import StepTimeout
from spectator.events import EpisodeEnded, EpisodeRecovered, EventData, RecordedEvent, core_fact
from spectator.journal.contract import EpisodeLog
from spectator.policies.spending import SpendLedger
from spectator.steppers.local import OpenStepper, on_a_thread, preferred_stepper

logger = logging.getLogger(__name__)

REBUILD_S: Final = 600.0
"""Seconds that putting an unfinished episode back to where it stood may take."""


def as_planned(plan: EpisodePlan) -> FailureRule | None:
    """The rule of an episode whose plan says all that is to happen on a failure."""
    return None


@dataclass(frozen=True, slots=True)
class Venue:
    """What the episodes of a run are played with in this process.

    Args:
        journal: Where they are recorded.
        clock: Time.
        load: Finds their worlds.
        ledger: What asking models may take.
        rule_of: Makes the rule of one episode for decisions that fail.
        open_stepper: Makes the stepper of each episode's environment; as the world steps when left out, and
            on a thread of its own where an episode is played on, for that replays all of it.
        limits: How long an episode may wait for whom; as its plan's patience has it when left out.
    """

    journal: EpisodeLog
    clock: Clock
    load: LoadWorld
    ledger: SpendLedger
    rule_of: Callable[[EpisodePlan], FailureRule | None] = as_planned
    open_stepper: OpenStepper | None = None
    limits: EpisodeLimits | None = None


async def play_here(plan: EpisodePlan, episode_id: str, venue: Venue) -> EpisodeEnded | None:
    """Play an episode from its beginning; its steps are recorded as its plan says (``EpisodePlan.commit``).

    When cancelled the episode is left without an end, for :func:`play_on`.

    Returns:
        Its end; ``None`` when it was suspended.
    """
    stream = _stream(episode_id, episode_id[-8:].lower(), plan, venue)
    if venue.open_stepper is None:
        stepper = preferred_stepper(plan.world, episode_id, plan.options)
    else:
        stepper = venue.open_stepper(plan.world, episode_id)
    return await _play(plan, stream, venue, stepper, plan.started())


async def play_on(recorded: Sequence[RecordedEvent], venue: Venue) -> EpisodeEnded | None:
    """Play on an episode that was left without an end.

    Args:
        recorded: All its events.
        venue: What it is played with.

    Returns:
        Its end; ``None`` when it was suspended.

    Raises:
        RestoreFailed: The record does not lead back to where it stops.
        StepTimeout: Leading back took too long.
        JournalError: A model's reply that is too long for an event cannot be read.
    """
    recorded = await with_whole_replies(venue.journal, recorded)
    rebuilt = await rebuild(
        UnfinishedRecord.of(recorded),
        limit_s=REBUILD_S,
        load=venue.load,
        attempts=math.inf,
        open_stepper=venue.open_stepper or on_a_thread,
    )
    stream = _stream(rebuilt.episode_id, rebuilt.epoch, rebuilt.plan, venue, rebuilt.left)
    opening = EpisodeRecovered(attempt=rebuilt.attempt)
    return await _play(rebuilt.plan, stream, venue, rebuilt.stepper, opening, rebuilt.past)


async def resume(left: Sequence[RecordedEvent], venue: Venue) -> EpisodeEnded | None:
    """Play on what was left; what cannot be played on is ended as ``interrupted``, with the class ``killed``.

    Args:
        left: All events of an episode without an end.
        venue: What it is played with.

    Returns:
        Its end; ``None`` when it was suspended again.

    Raises:
        JournalError: Its record cannot be read or written.
    """
    try:
        return await play_on(left, venue)
    except (RestoreFailed, StepTimeout) as error:
        logger.warning("%s cannot be played on: %s", left[0].episode_id, error)
        end = interrupted(left[0].event, left[-1].event, venue.clock, f"it could not be played on: {error}")
        await venue.journal.append([end])
        return EpisodeEnded.model_validate(end.event.data)


def _stream(
    episode_id: str, epoch: str, plan: EpisodePlan, venue: Venue, left: RecordPosition | None = None
) -> Stream:
    return open_stream(
        plan, episode_id, epoch, journal=venue.journal, bus=MemoryBus(), clock=venue.clock, left=left
    )


async def _play(
    plan: EpisodePlan,
    stream: Stream,
    venue: Venue,
    stepper: Stepper,
    opening: EventData,
    past: Past | None = None,
) -> EpisodeEnded | None:
    ready = prepare(
        plan,
        stream,
        stepper,
        clock=venue.clock,
        limits=venue.limits or EpisodeLimits.patient(plan.patience_s),
        ledger=venue.ledger,
        pace=Pace.MAX,
        past=past,
        rule=venue.rule_of(plan),
    )
    try:
        await stream.emit(ready.driver.turn, [core_fact(opening)])
    except BaseException:
        await ready.driver.let_go()
        raise
    del opening  # a fleet has many episodes under way, and it is 3 kB of each
    try:
        return await _drive(ready)
    finally:
        await stream.settle()


async def _drive(ready: PreparedEpisode) -> EpisodeEnded | None:
    driving = asyncio.get_running_loop().create_task(ready.driver.run())
    try:
        return await asyncio.shield(driving)
    except asyncio.CancelledError:
        ready.control.request_end(EndRequest("suspended", None))
        await driving
        raise
