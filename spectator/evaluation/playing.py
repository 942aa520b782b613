"""Owns the playing of one match: here, journaled turn by turn, or in another process, handed over whole."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process
from typing import Any

from spectator.bus.memory import MemoryBus
from spectator.catalog import LoadWorld, load_world
from spectator.clock import Clock, SystemClock
from spectator.episodes.record.opening import Left, Stream, open_stream
from spectator.episodes.record.usage import spent_before
from spectator.episodes.replay.recorded_calls import with_whole_replies
from spectator.episodes.replay.restore import rebuild
from spectator.episodes.run.controls import Control, EndRequest
from spectator.episodes.run.driver import Driver, EpisodeLimits, Past
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import EpisodeError, SpectatorError
from spectator.evaluation.halting import Halt
from spectator.events import EpisodeRecovered, EventData, RecordedEvent, core_fact
from spectator.journal.attachments import Attachments
from spectator.journal.base import Journal
from spectator.model_calls import ModelCall
from spectator.policies.spending import Caps, SpendLedger
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper, on_a_thread

REBUILD_S = 600.0
"""Seconds that putting an unfinished match back to where it stood may take."""


@dataclass(frozen=True, slots=True)
class Venue:
    """What matches are played with in this process.

    Args:
        journal: Where they are recorded.
        clock: Time.
        load: Finds their worlds.
        halt: Told when a model cannot be asked.
        open_stepper: Makes the stepper of each match's environment.
    """

    journal: Journal
    clock: Clock
    load: LoadWorld
    halt: Halt
    open_stepper: OpenStepper = on_a_thread


async def play_here(plan: EpisodePlan, episode_id: str, venue: Venue) -> None:
    """Play a match from its beginning; every turn is in the journal before the next.

    When cancelled the match is left without an end, for :func:`play_on`.
    """
    stream = _stream(episode_id, episode_id[-8:].lower(), plan, venue)
    await _play(plan, stream, venue, venue.open_stepper(plan.world, episode_id), plan.started())


async def play_on(recorded: Sequence[RecordedEvent], venue: Venue) -> None:
    """Play on a match that was left without an end.

    Raises:
        CannotRebuild: The record does not lead back to where it stops.
        StepTimeout: Leading back took too long.
        JournalError: A model's reply that is too long for an event cannot be read.
    """
    recorded = await with_whole_replies(venue.journal, recorded)
    rebuilt = await rebuild(
        recorded, limit_s=REBUILD_S, load=venue.load, attempts=math.inf, open_stepper=venue.open_stepper
    )
    stream = _stream(rebuilt.episode_id, rebuilt.epoch, rebuilt.plan, venue, rebuilt.left)
    opening = EpisodeRecovered(attempt=rebuilt.attempt)
    await _play(rebuilt.plan, stream, venue, rebuilt.stepper, opening, rebuilt.past)


def _stream(episode_id: str, epoch: str, plan: EpisodePlan, venue: Venue, left: Left | None = None) -> Stream:
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
) -> None:
    control = Control(Pace.MAX, venue.clock)
    halt = venue.halt
    if past is not None:
        seats = {actor: halt.watched(plan.preset(actor), policy) for actor, policy in past.seats.items()}
        past = replace(past, seats=seats)
    opponent = None if plan.opponent is None else halt.watching(plan.opponent)
    driver = Driver(
        replace(plan, captain=halt.watching(plan.captain), opponent=opponent),
        stream.episode_id,
        stepper=stepper,
        emit=stream.emit,
        control=control,
        clock=venue.clock,
        limits=EpisodeLimits.patient(plan.patience_s),
        past=past,
        budget=halt.ledger.episode_budget(spent_before(stream.state)),
    )
    try:
        await stream.emit(driver.turn, [core_fact(opening)])
    except BaseException:
        await driver.let_go()
        raise
    try:
        await _drive(driver, control)
    finally:
        await stream.settle()


async def _drive(driver: Driver, control: Control) -> None:
    driving = asyncio.get_running_loop().create_task(driver.run())
    try:
        await asyncio.shield(driving)
    except asyncio.CancelledError:
        control.request_end(EndRequest("suspended", None))
        await driving
        raise


@dataclass(frozen=True, slots=True)
class Job:
    """A match for a process of its own; plain values, so that it can be sent there.

    Args:
        environment: Name of the world.
        captain: Preset in the agent's seat.
        opponent: Preset in the other seats, if there are any.
        pack: Evaluation pack.
        seed: Its seed.
        options: Complete options.
        episode_id: Its id.
    """

    environment: str
    captain: str
    opponent: str | None
    pack: str
    seed: int
    options: Mapping[str, Any]
    episode_id: str

    def plan(self) -> EpisodePlan:
        """How it is played, by this process's own catalogue."""
        world = load_world(self.environment)
        opponent = None if self.opponent is None else world.opponents[self.opponent]
        return EpisodePlan(
            world, world.captains[self.captain], opponent, world.packs[self.pack], self.seed, Pace.MAX, False,
            self.options,
        )  # fmt: skip


def play_apart(job: Job) -> tuple[list[str], Attachments]:
    """Play a match without a journal; its events' texts, in order, and what belongs to them.

    Raises:
        EpisodeError: It could not be played; the only error, since others do not travel between processes.
    """
    gathered = _Gathering()
    try:
        asyncio.run(_play_apart(job, gathered))
    except (SpectatorError, LookupError) as error:
        raise EpisodeError(f"{job.episode_id} could not be played: {error}") from None
    return gathered.texts, Attachments(gathered.calls, gathered.truth)


async def _play_apart(job: Job, gathered: _Gathering) -> None:
    clock = SystemClock()
    venue = Venue(gathered, clock, load_world, Halt(SpendLedger(Caps(), Caps(), clock)))  # type: ignore[arg-type]
    await play_here(job.plan(), job.episode_id, venue)


class _Gathering:
    """As much of a journal as one match needs."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[Sequence[ModelCall]] = []
        self.truth: str | None = None

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        self.texts.extend(recorded.text for recorded in events)
        decisions = sum(recorded.event.type == "decision.made" for recorded in events)
        if attachments is not None:
            self.calls += attachments.calls
            self.truth = attachments.truth or self.truth
            decisions -= len(attachments.calls)
        self.calls += [()] * decisions


def follow_parent() -> None:
    """Let this process end with the one that started it, however that ends; a pool's initializer.

    An interrupt from the keyboard goes to all of them; the one that started it sees to an orderly end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
