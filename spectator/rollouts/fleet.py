"""Play a run of rollouts: a worker leases the episodes it can play at once.

The run is in a journal: SQLite in a folder, for processes on one machine, or PostgreSQL, for many machines.
All workers are equal, and any number can play a run together.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from ulid import ULID

from spectator.catalog import LoadWorld
from spectator.clock import Clock, SystemClock
from spectator.core_events import EpisodeEnded, OnFailure
from spectator.environments.world import World
from spectator.episodes.decisions import FailureRule, InvalidEnd
from spectator.episodes.plan import EpisodePlan
from spectator.errors import EpisodeError, FailureClass, typed_as
from spectator.journal.contract import EpisodeLog
from spectator.journal.coordination import FleetRow
from spectator.journal.ownership import INTERVAL_S
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.endpoints import ApiKey
from spectator.llm.rate_limits import AdaptiveLimit
from spectator.policies.policy import Decision
from spectator.policies.spending import Caps, SpendLedger
from spectator.process_environment import read_cast, read_key
from spectator.rollouts.environments import EnvironmentAddress, PreparedStepper
from spectator.rollouts.fleet_plan import IN_FOLDER, Deadlines, FleetPlan, keep_plan, read_plan
from spectator.rollouts.handlers import (
    END_S,
    EpisodeContext,
    EpisodeHandler,
    EpisodeOutcome,
    NullHandler,
    info_of,
    within,
)
from spectator.rollouts.model_seat import FleetSeat, ModelOutage, fleet_client
from spectator.rollouts.request import (
    ACTOR,
    JOURNAL,
    RolloutRequest,
    RolloutRun,
    keep_changes,
    keep_request,
    plan_rollouts,
)
from spectator.rollouts.served_policy import ServedPolicy
from spectator.rollouts.sessions import DataManager
from spectator.rollouts.sinks import AnySink, SinkDelivery
from spectator.runs.actors import ActorHandle
from spectator.runs.attempts import AgentRule, EpisodeSetup, Halt, HaltingRule, play_episode, resume
from spectator.runs.interactor import EpisodesInPlay, InFlight, RunReport, RunState
from spectator.runs.leased_log import PATIENCE_S, Heartbeat, LeasedLog
from spectator.runs.remaining_episodes import Window
from spectator.runs.run_plan import Attempt
from spectator.runs.scheduler import Handle, Result, Scheduler, leases_of, result_of, shared_ledger
from spectator.steppers.http import HttpStepper
from spectator.steppers.local import InlineStepper, OpenStepper, inline, on_a_thread

logger = logging.getLogger(__name__)


class RolloutPlayer:
    """Plays attempts of one run.

    Args:
        open_stepper: Makes the stepper of each episode of a world of the catalogue.
        ended: Called with the id of each episode that has ended.
    """

    def __init__(
        self,
        planned: RolloutRun,
        journal: EpisodeLog,
        clock: Clock,
        seat: FleetSeat,
        ledger: SpendLedger,
        open_stepper: OpenStepper,
        *,
        address: EnvironmentAddress | None = None,
        deadlines: Deadlines | None = None,
        state: RunState | None = None,
        ended: Callable[[str], None] = lambda episode_id: None,
    ) -> None:
        self._ended = ended
        self._planned = planned
        self._run = planned.run
        self._journal = journal
        self._clock = clock
        self._seat = seat
        self.halt = Halt(ledger)
        self._open_stepper = open_stepper
        self._address = address or EnvironmentAddress.read(planned.request.environment)
        self._limits = (deadlines or Deadlines()).limits(planned.request.model.timeout_s)
        self._state = state or RunState(len(planned.run.jobs), 0, clock.monotonic())

    async def open(self, attempt: Attempt) -> Handle:
        """Make the environment of an attempt ready; resets it unless it runs inline.

        Raises:
            EnvironmentUnavailable: Its server is unreachable or full.
        """
        job, address = self._run.jobs[attempt.number], self._address
        make = partial(self._open_stepper, self._planned.world, attempt.episode_id)
        stepper = make()
        if isinstance(stepper, HttpStepper):
            stepper.must_reset = attempt.begun
        if not isinstance(stepper, InlineStepper):
            stepper = prepared = PreparedStepper(make, self._clock, stepper)
            limit_s = self._limits.reset_s
            await prepared.make_ready(
                seed=job.seed, episode_id=attempt.episode_id, options=job.options, limit_s=limit_s
            )
        return ActorHandle(
            address.env_name, attempt.episode_id, job.group, address.transport, address.base_url, stepper,
            attempt, attempt.attempt,
        )  # fmt: skip

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt in its environment, from its beginning or from where its record stops."""
        attempt = handle.job
        member = self._run.jobs[attempt.number].member
        context = EpisodeContext(handle.env_name, handle.env_id, handle.group_id, member)
        world = self._world_of(context, flight)
        if isinstance(handle.stepper, PreparedStepper):
            handle.stepper.waiting = lambda begun: flight.waits("environment" if begun else "journal")

        def rule_of(plan: EpisodePlan) -> _CountingRule:
            rule = AgentRule(plan, self._planned.request, HaltingRule(plan, self.halt))
            return _CountingRule(rule, plan.agent, self._state, flight, self._clock)

        venue = EpisodeSetup(
            self._journal, self._clock, lambda name: world, self.halt.ledger, rule_of,
            lambda world, episode_id: handle.stepper, self._limits,
        )  # fmt: skip
        if attempt.begun:
            ended = await resume(await self._journal.read(attempt.episode_id, checked=False), venue)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, world)
            ended = await play_episode(plan, attempt.episode_id, venue)
        result = result_of(attempt, handle.group_id, ended)
        if ended is not None:
            outcome = EpisodeOutcome(result.total_reward, result.failure_class, _outcome_details(ended))
            info = info_of(getattr(handle.stepper, "shown", None))
            await self._notify_handler(replace(context, step=max(1, result.decisions), info=info), outcome)
            self._ended(attempt.episode_id)
        return result

    async def _notify_handler(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Call the handler at the end of an episode; a failure is only logged."""
        try:
            with typed_as(EpisodeError, passing=()):
                await within(self._seat.handler.on_episode_end(context, outcome), END_S)
        except EpisodeError:
            logger.exception("the handler failed at the end of %s", context.env_id)

    def _world_of(self, context: EpisodeContext, flight: InFlight) -> World:
        world, preset = self._planned.world, partial(self._seat.preset, self._planned.world)
        captains = {**world.captains, ACTOR: preset(context, flight)}
        if self._run.jobs[0].opponent != ACTOR:
            return replace(world, captains=captains)
        rival = preset(context, flight, session=f"{context.env_id}-rival")
        return replace(world, captains=captains, opponents={**world.opponents, ACTOR: rival})


def _outcome_details(ended: EpisodeEnded) -> Mapping[str, object]:
    """Return what a handler learns of an end besides the reward."""
    details = {"turns": ended.turns, "result": ended.result, "detail": ended.detail}
    known = {name: value for name, value in details.items() if value is not None}
    return {"end_reason": ended.reason, **known}


@dataclass(frozen=True, slots=True)
class _CountingRule:
    """A failure rule that also counts the agent's decisions.

    Args:
        rule: Decides what a failed decision does.
        agent: The actor whose decisions are counted.
        state: Counts those of the whole run.
    """

    rule: FailureRule
    agent: str
    state: RunState
    flight: InFlight
    clock: Clock

    def __call__(self, actor: str, decision: Decision) -> OnFailure | InvalidEnd:
        reaction = self.rule(actor, decision)
        failed = decision.failure_class is not None
        if actor == self.agent and not (failed and reaction in ("suspend", "end")):
            self.state.decided(
                self.flight, self.clock.monotonic(), not failed, decision.tokens_in or 0,
                decision.tokens_out or 0,
            )  # fmt: skip
        return reaction


SPARE_FACTOR: Final = 1.2
"""Actors that the only worker of a run leases and makes ready per actor in use."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The results of a run.

    Args:
        halted: Why the rest is not played; ``None`` if nothing is left or the run was asked to stop.
        failed_elsewhere: Why episodes of other processes, or of earlier commands, have no verdict.
        sink_missed: Which sessions of this process did not reach the sink, and why; ``None`` if all did.
    """

    report: RunReport[Attempt]
    total: int
    over: int
    halted: str | None = None
    failed_elsewhere: Sequence[FailureClass] = ()
    sink_missed: str | None = None

    @property
    def only_failures(self) -> bool:
        """Whether this process asked the model and a fallback made every decision."""
        results = self.report.results
        return any(one.decisions for one in results) and not any(one.own for one in results)

    @property
    def succeeded(self) -> bool:
        """Whether every episode of the run has a verdict."""
        return self.report.succeeded and self.over == self.total and not self.failed_elsewhere


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A run while it is played.

    Args:
        model_limit: Limit of concurrent requests to the model's endpoint.
        outage: Whether that endpoint is unreachable.
    """

    state: RunState
    interactor: EpisodesInPlay
    model_limit: AdaptiveLimit | None = None
    outage: ModelOutage | None = None


OnBegin = Callable[[RunningFleet], None]
"""Called once, after the first look at what remains."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What a process needs to play runs.

    Args:
        journal: Written by several processes.
        concurrency: Episodes at once in this process, at least 1.
        rng: Draws waits; what is played does not depend on it.
        key: Reads the key of an endpoint from the variable of this name.
        day: Budget for models per day, over all workers of a run.
        episode: Budget for models per episode.
        handler: Adds to prompts and learns from ends.
        sink: Gets copies of the sessions.
        open_stepper: Makes the stepper of each episode; if omitted, as the run's plan says.
        spare_factor: Actors leased and made ready per actor in use.
        patience_s: Seconds that the database may be unreachable.
        interval_s: Seconds between two heartbeats.
        on_begin: Called once for each run, after the first look at what remains.
        recorded: Called with an episode's id after each commit; must return at once.
        served: The policy that the endpoint serves now, if a trainer changes it.
        window: Limits what this process may begin now; no limit if omitted.
    """

    journal: SqlJournal
    concurrency: int
    clock: Clock
    load: LoadWorld
    rng: random.Random
    key: Callable[[str | None], ApiKey | None] = lambda variable: None
    day: Caps = field(default_factory=Caps)
    episode: Caps = field(default_factory=Caps)
    handler: EpisodeHandler = field(default_factory=NullHandler)
    open_stepper: OpenStepper | None = None
    spare_factor: float = 1.0
    patience_s: float = PATIENCE_S
    interval_s: float = INTERVAL_S
    on_begin: OnBegin = lambda running: None
    recorded: Callable[[str], None] = lambda episode_id: None
    sink: AnySink | None = None
    served: ServedPolicy | None = None
    window: Window | None = None


async def run_rollouts(
    request: RolloutRequest,
    folder: Path,
    *,
    concurrency: int = 16,
    clock: Clock | None = None,
    load: LoadWorld | None = None,
    rng: random.Random | None = None,
    key: ApiKey | None = None,
    handler: EpisodeHandler | None = None,
    sink: AnySink | None = None,
    ledger: SpendLedger | None = None,
    open_stepper: OpenStepper = inline,
    deadlines: Deadlines | None = None,
    on_begin: OnBegin = lambda running: None,
) -> FleetReport:
    """Play the remaining episodes of ``request`` in ``folder``, in this process.

    Killed at any moment, the same call resumes where the journal stops: finished episodes are not played
    again, unfinished ones are rebuilt from their record; no recorded model call is made again. A second
    process that calls it at the same time plays the run together with the first.

    Args:
        folder: The run's folder; created if missing.
        concurrency: Episodes at once, at least 1.
        clock: Time; the system's if omitted.
        load: Finds the world, unless a server has it; the catalogue with this machine's model captains if
            omitted.
        rng: Draws waits; what is played does not depend on it.
        key: The endpoint's key; read from the variable ``request.model.api_key_env`` if omitted.
        handler: Adds to prompts and learns from ends.
        sink: A :class:`~spectator.rollouts.sinks.StepSink`, or what makes it; gets a copy of each session.
        ledger: Holds the caps of the run; no limit if omitted.
        open_stepper: Makes the stepper of each episode; in this thread if omitted.
        on_begin: Called once, after the first look at what remains.

    Raises:
        InvalidRequest: A field is invalid, or the folder holds another run.
        ConfigurationError: Another process holds the journal, or the environment's server is unreachable.
        JournalError: The journal cannot be written.
    """
    clock, load, rng = clock or SystemClock(), load or read_cast().load, rng or random.SystemRandom()
    read = read_key if key is None else lambda variable: key
    day, episode, whole = (ledger or SpendLedger(Caps(), Caps(), clock)).caps
    plan = FleetPlan.of(request, deadlines=deadlines, whole=whole)
    async with opened_run(folder, plan, clock, load, rng) as (row, journal, _):
        worker = Worker(
            journal, concurrency, clock, load, rng, read, day, episode,
            handler or NullHandler(), open_stepper, SPARE_FACTOR, 0.0, on_begin=on_begin, sink=sink,
        )  # fmt: skip
        return await play_run(row, worker)


@asynccontextmanager
async def opened_run(
    folder: Path, plan: FleetPlan, clock: Clock, load: LoadWorld, rng: random.Random
) -> AsyncIterator[tuple[FleetRow, SqlJournal, RolloutRun]]:
    """Begin or reopen the run in a folder; yields its row, its open journal, and its episodes.

    Raises:
        InvalidRequest: A field is invalid, or the folder holds another run; nothing is written.
        ConfigurationError: Another process holds the journal, or the environment's server is unreachable.
        JournalError: The journal cannot be written.
    """
    planned = await plan_run(plan, clock, load, rng, IN_FOLDER)
    began_ms = await asyncio.to_thread(keep_request, folder, plan.request, _now_ms(clock))
    journal = await open_folder(folder)
    try:
        await asyncio.to_thread(keep_changes, folder, plan.request)
        row = await keep_plan(journal, IN_FOLDER, plan.of_world(planned), began_ms)
        yield row, journal, replace(planned, run=replace(planned.run, began_ms=row.began_ms))
    finally:
        await journal.aclose()


async def open_folder(folder: Path, name: str | None = None) -> SqlJournal:
    """Open the journal of a run in a folder, to play it.

    Args:
        name: Name of this process in the journal; unique if omitted.

    Raises:
        ConfigurationError: Another process has it for itself.
        JournalError: It cannot be written.
    """
    shared_as = name or f"process-{os.getpid()}-{str(ULID())[-6:]}"
    return await SqlJournal.open(f"sqlite:///{folder / JOURNAL}", shared_as=shared_as)


async def plan_run(
    plan: FleetPlan, clock: Clock, load: LoadWorld, rng: random.Random, name: str
) -> RolloutRun:
    """Check a plan against the world that it plays.

    Raises:
        InvalidRequest: A field is invalid.
        ConfigurationError: The environment's server is unreachable.
    """
    address = await asyncio.to_thread(EnvironmentAddress.read(plan.request.environment).resolved)
    world = await asyncio.to_thread(address.world, load)
    client = fleet_client(plan.request.model, None, 1, clock=clock, rng=rng)  # makes no request
    try:
        seat = FleetSeat(plan.request.model, client, clock, NullHandler(), plan.request.message_cut)
        return plan_rollouts(plan.request, world, seat.preset(world), _now_ms(clock), name)
    finally:
        await client.aclose()


async def begin_run(name: str, plan: FleetPlan, worker: Worker) -> FleetRow:
    """Store a run in the journal unless it is there already; plays nothing.

    Args:
        worker: Has the journal, and finds the world.

    Raises:
        InvalidRequest: A field is invalid, or the name is that of another run.
        ConfigurationError: The environment's server is unreachable.
        JournalError: The database cannot be written.
    """
    leases_of(worker.journal)
    planned = await plan_run(plan, worker.clock, worker.load, worker.rng, name)
    return await keep_plan(worker.journal, name, plan.of_world(planned), _now_ms(worker.clock))


async def play_run(row: FleetRow, worker: Worker) -> FleetReport:
    """Play the remaining episodes of a run, alongside other workers.

    Episodes are leased, a few at a time. Those of a worker that dies, stalls or loses the database are
    resumed by others from their record; the database rejects what it still sends.

    Returns:
        The results of this process, and the progress of the run.

    Raises:
        InvalidRequest: The run, or the world in this process, is of another version.
        ConfigurationError: The key is missing, the environment's server cannot be reached, or the sink cannot
            be made.
        JournalError: The database cannot be reached at the beginning.
    """
    if worker.sink is None:
        return await _play_run(row, worker, lambda episode_id: None)
    delivery = SinkDelivery(worker.sink, DataManager(read_plan(row).request, worker.journal))
    async with delivery.running():
        report = await _play_run(row, worker, delivery.put)
    return replace(report, sink_missed=delivery.missed)


async def _play_run(row: FleetRow, worker: Worker, ended: Callable[[str], None]) -> FleetReport:
    """See :func:`play_run`; ``ended`` is called with the id of each episode that ends here."""
    plan, clock = read_plan(row), worker.clock
    request, limits = plan.request, plan.limits
    key = worker.key(request.model.api_key_env)
    address = await asyncio.to_thread(EnvironmentAddress.read(request.environment).resolved)
    world = await asyncio.to_thread(address.world, worker.load)
    client = fleet_client(
        request.model, key, worker.concurrency, clock=clock, rng=worker.rng,
        startup_jitter_s=limits.startup_jitter_s, served=worker.served,
    )  # fmt: skip
    outage = ModelOutage(clock, worker.rng, limits.model_wait_s)
    seat = FleetSeat(
        request.model, client, clock, worker.handler, request.message_cut, outage, request.invalid_retries,
        worker.served, request.token_in,
    )  # fmt: skip
    try:
        planned = plan_rollouts(request, world, seat.preset(world), row.began_ms, row.name)
        plan.check_world_version(row.name, planned)
        log = LeasedLog(worker.journal, clock, worker.patience_s, worker.recorded)
        with Heartbeat(leases_of(worker.journal), clock, worker.interval_s):
            caps = (worker.day, worker.episode, plan.whole)
            ledger = await shared_ledger(row.name, caps, worker.journal, log, clock)
            state = RunState(len(planned.run.jobs), 0, clock.monotonic(), deadline_s=request.model.timeout_s)
            stepper = on_a_thread if plan.stepper == "thread" else inline
            player = RolloutPlayer(
                planned, log, clock, seat, ledger, worker.open_stepper or stepper,
                address=address, deadlines=limits, state=state, ended=ended,
            )  # fmt: skip
            scheduler = Scheduler(
                planned.run, worker.journal, log, player, clock, worker.rng, concurrency=worker.concurrency,
                state=state, most=plan.max_in_flight, patience_s=limits.env_wait_s,
                spare_factor=worker.spare_factor, window=worker.window,
            )  # fmt: skip
            await scheduler.look()
            outage.answers = int(state.over > len(scheduler.failed))
            worker.on_begin(RunningFleet(state, scheduler.interactor, client.adaptive, outage))
            played = await scheduler.play(ledger)
            return FleetReport(
                played, state.total, state.over, player.halt.reason, scheduler.failed_elsewhere
            )
    finally:
        await client.aclose()


def _now_ms(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1000)
