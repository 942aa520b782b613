"""Plays a run of rollouts: a worker leases the remaining episodes, as many as it can play at once.

The run is in a journal: SQLite in a folder, for the processes of one machine, or PostgreSQL, for those of
many. All workers are alike, and any number may play a run together.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ulid import ULID

from spectator.catalog import LoadWorld
from spectator.clock import Clock, SystemClock
from spectator.episodes.recorded_calls import spent_on
from spectator.errors import ConfigurationError, FailureClass
from spectator.journal.coordination import FleetRow, Reservations, RunReservations
from spectator.journal.ownership import INTERVAL_S, Ownership
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.endpoints import ApiKey
from spectator.llm.rate_limits import AdaptiveLimit
from spectator.policies.spending import Caps, SharedCaps, SpendLedger, Spent
from spectator.process_environment import read_cast, read_key
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.fleet_plan import IN_FOLDER, FleetPlan, keep_plan, read_plan
from spectator.rollouts.folder import JOURNAL, keep_changes, keep_request
from spectator.rollouts.handlers.base import EpisodeHandler, NullHandler
from spectator.rollouts.heartbeat import Heartbeat
from spectator.rollouts.in_flight import InPlay
from spectator.rollouts.interactor import Interactor, RunReport
from spectator.rollouts.lease_pool import LeasePool, RemainingEpisodes
from spectator.rollouts.leased_log import PATIENCE_S, LeasedLog
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.playing import AttemptPlayer, Result, attempt_after
from spectator.rollouts.progress import FleetState
from spectator.rollouts.request import RolloutRequest, RolloutRun, plan_rollouts
from spectator.runs.owed import Attempt
from spectator.steppers.local import OpenStepper, inline, on_a_thread

CAP_PARTS: Final = 1024
"""Parts of a cap of the whole run, of which each worker has one at a time: so little is lost with each that
dies."""

SPARE_FACTOR: Final = 1.2
"""Actors that the only worker of a run keeps ready for each that is in use."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a run came to.

    Args:
        report: The results of this process.
        total: Episodes of the run.
        over: Those that need not be played any more.
        halted: Why the rest is not played; ``None`` when nothing is left or it was asked to stop.
        failed_elsewhere: Why episodes that others played, or an earlier command, came to no verdict.
    """

    report: RunReport[Attempt]
    total: int
    over: int
    halted: str | None = None
    failed_elsewhere: Sequence[FailureClass] = ()

    @property
    def succeeded(self) -> bool:
        """Whether every episode of the run came to a verdict."""
        return self.report.succeeded and self.over == self.total and not self.failed_elsewhere


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A run while it is played.

    Args:
        state: How far it is.
        interactor: Plays it.
        model_limit: How many requests its model's endpoint bears at once.
        outage: Whether that endpoint is away.
    """

    state: FleetState
    interactor: InPlay
    model_limit: AdaptiveLimit | None = None
    outage: ModelOutage | None = None


OnBegin = Callable[[RunningFleet], None]
"""Called once, when it is known what remains."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What a process brings along to play runs.

    Args:
        journal: Written by several processes.
        concurrency: Episodes at once in this process, at least 1.
        clock: Time.
        load: Finds worlds.
        rng: Draws waits; what is played does not depend on it.
        key: Reads the key of an endpoint from the variable of this name.
        day: What asking models may take in a day, over all workers of a run.
        episode: The same for one episode.
        handler: Adds to prompts and learns from ends.
        open_stepper: Makes the stepper of each episode; as the run's plan says when left out.
        spare_factor: Actors that are kept ready for each that is in use.
        patience_s: Seconds that the database may be away.
        interval_s: Seconds between two heartbeats.
        on_begin: Called once for each run, when it is known what remains.
        recorded: Called with each episode of which something was committed; must return at once.
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

    @property
    def ownership(self) -> Ownership:
        """The leases of the journal.

        Raises:
            ConfigurationError: This process alone may write it.
        """
        if self.journal.ownership is None:
            raise ConfigurationError("a run needs a journal that several processes may write")
        return self.journal.ownership


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
        request: What is to be played.
        folder: Where the run is kept; made when it is not there.
        concurrency: Episodes at once, at least 1.
        clock: Time; the system's if omitted.
        load: Finds the world, unless a server has it; the catalogue with this machine's model captains if
            omitted.
        rng: Draws waits; what is played does not depend on it.
        key: The endpoint's key; read from the variable ``request.model.api_key_env`` if omitted.
        handler: Adds to prompts and learns from ends.
        ledger: Its caps are those of the run; no limit when left out.
        open_stepper: Makes the stepper of each episode; in this thread when left out.
        deadlines: How long anything may take.
        on_begin: Called once, when it is known what remains.

    Raises:
        InvalidRequest: A field is wrong, or the folder holds another run.
        ConfigurationError: A process that writes alone has the journal, or the environment's server cannot
            be reached.
        JournalError: It cannot be written.
    """
    clock, load, rng = clock or SystemClock(), load or read_cast().load, rng or random.SystemRandom()
    read = read_key if key is None else lambda variable: key
    day, episode, whole = (ledger or SpendLedger(Caps(), Caps(), clock)).caps
    plan = FleetPlan.of(request, deadlines=deadlines, whole=whole)
    async with begun_in(folder, plan, clock, load, rng) as (row, journal, _):
        worker = Worker(
            journal, concurrency, clock, load, rng, read, day, episode,
            handler or NullHandler(), open_stepper, SPARE_FACTOR, 0.0, on_begin=on_begin,
        )  # fmt: skip
        return await play_run(row, worker)


@asynccontextmanager
async def begun_in(
    folder: Path, plan: FleetPlan, clock: Clock, load: LoadWorld, rng: random.Random
) -> AsyncIterator[tuple[FleetRow, SqlJournal, RolloutRun]]:
    """The run in a folder, begun or found there again; its journal, open to be played; and its episodes.

    Raises:
        InvalidRequest: A field is wrong, or the folder holds another run; nothing is written.
        ConfigurationError: A process that writes alone has the journal, or the environment's server cannot
            be reached.
        JournalError: It cannot be written.
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
        folder: The run's.
        name: What this process is called there; a name of its own when left out.

    Raises:
        ConfigurationError: A process that writes alone has it.
        JournalError: It cannot be written.
    """
    shared_as = name or f"process-{os.getpid()}-{str(ULID())[-6:]}"
    return await SqlJournal.open(f"sqlite:///{folder / JOURNAL}", shared_as=shared_as)


async def plan_run(
    plan: FleetPlan, clock: Clock, load: LoadWorld, rng: random.Random, name: str
) -> RolloutRun:
    """Check a plan against the world that it plays.

    Raises:
        InvalidRequest: A field is wrong.
        ConfigurationError: The environment's server cannot be reached.
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
    """Keep a run in the journal, unless it is there already; nothing is played.

    Args:
        name: The run.
        plan: What it plays.
        worker: Has the journal, and finds the world.

    Raises:
        InvalidRequest: A field is wrong, or the name is that of another run.
        ConfigurationError: The environment's server cannot be reached.
        JournalError: The database cannot be written.
    """
    _ = worker.ownership
    planned = await plan_run(plan, worker.clock, worker.load, worker.rng, name)
    return await keep_plan(worker.journal, name, plan.of_world(planned), _now_ms(worker.clock))


async def play_run(row: FleetRow, worker: Worker) -> FleetReport:
    """Play the remaining episodes of a run, alongside other workers.

    Episodes are leased, a few at a time. Those of a worker that dies, stalls or loses the database are
    resumed by others from their record; the database rejects what it still sends.

    Args:
        row: The run.
        worker: What this process brings along.

    Returns:
        What was played here, and how far the run is.

    Raises:
        InvalidRequest: The run, or the world in this process, is of another version.
        ConfigurationError: The key is missing, or the environment's server cannot be reached.
        JournalError: The database cannot be reached at the beginning.
    """
    plan, clock = read_plan(row), worker.clock
    request, limits = plan.request, plan.limits
    key = worker.key(request.model.api_key_env)
    address = await asyncio.to_thread(EnvironmentAddress.read(request.environment).resolved)
    world = await asyncio.to_thread(address.world, worker.load)
    client = fleet_client(
        request.model, key, worker.concurrency, clock=clock, rng=worker.rng,
        startup_jitter_s=limits.startup_jitter_s,
    )  # fmt: skip
    outage = ModelOutage(clock, worker.rng, limits.model_wait_s)
    seat = FleetSeat(request.model, client, clock, worker.handler, request.message_cut, outage)
    try:
        planned = plan_rollouts(request, world, seat.preset(world), row.began_ms, row.name)
        plan.need_same_world(row.name, planned)
        log = LeasedLog(worker.journal, clock, worker.patience_s, worker.recorded)
        with Heartbeat(worker.ownership, clock, worker.interval_s):
            ledger = await run_ledger(plan, row.name, worker, log)
            total = len(planned.run.jobs)
            state = FleetState(total, 0, clock.monotonic(), deadline_s=request.model.timeout_s)
            stepper = on_a_thread if plan.stepper == "thread" else inline
            player = AttemptPlayer(
                planned, log, clock, seat, ledger, worker.open_stepper or stepper,
                address=address, deadlines=limits, state=state,
            )  # fmt: skip
            remaining = RemainingEpisodes(
                planned.run, worker.journal, worker.ownership, log, state, clock, plan.max_in_flight
            )
            await remaining.look()
            outage.answers = int(state.over > len(remaining.failed))
            pool = LeasePool(
                worker.concurrency, remaining, player, clock, worker.rng, state, limits.env_wait_s,
                worker.spare_factor, 0 if plan.max_in_flight else worker.concurrency,
            )  # fmt: skip
            share = _Share(planned, worker, player, state, log, remaining)
            running = RunningFleet(state, share.interactor(pool), client.adaptive, outage)
            worker.on_begin(running)
            return await share.play(ledger)
    finally:
        await client.aclose()


async def run_ledger(plan: FleetPlan, name: str, worker: Worker, log: LeasedLog) -> SpendLedger:
    """What asking the model may take, shared by all workers, with all that the record says was spent.

    Args:
        plan: Has the caps of the whole run.
        name: The run.
        worker: Has the caps of a day and of an episode.
        log: Where parts of the caps are reserved.

    Raises:
        JournalError: The database cannot be reached.
    """
    day = SharedCaps(Reservations(log), f"run {name} ", by=", by all workers together")
    whole = SharedCaps(RunReservations(log, name), parts=CAP_PARTS)
    ledger = SpendLedger(
        worker.day, worker.episode, worker.clock, whole=plan.whole, day_shared=day, whole_shared=whole
    )
    journal = worker.journal
    today = Spent() if worker.day == Caps() else await spent_on(journal, ledger.today, run_id=name)
    before = Spent() if plan.whole == Caps() else await spent_on(journal, None, run_id=name)
    await ledger.begin_shared(today, before)
    return ledger


class _Share:
    """What one process plays of one run."""

    def __init__(
        self,
        planned: RolloutRun,
        worker: Worker,
        player: AttemptPlayer,
        state: FleetState,
        log: LeasedLog,
        remaining: RemainingEpisodes,
    ) -> None:
        self._run = planned.run
        self._worker = worker
        self._player = player
        self._state = state
        self._log = log
        self._remaining = remaining
        self._results: list[Result] = []

    def interactor(self, pool: LeasePool) -> Interactor[Attempt]:
        """Make what plays the episodes that ``pool`` leases."""
        self._interactor = Interactor(
            pool, self._player.play, clock=self._worker.clock, rng=self._worker.rng, on_result=self._take,
            startup_jitter_s=0.0,  # the client spreads its first requests
            again=self._again,
        )  # fmt: skip
        return self._interactor

    async def play(self, ledger: SpendLedger) -> FleetReport:
        """Play until nothing remains, the run is halted here, or it is asked to stop."""
        helping = [
            asyncio.create_task(self._interactor.drain_after(self._player.halt.wait)),
            asyncio.create_task(ledger.keep_up()),
        ]
        try:
            report = await self._interactor.run()
        finally:
            for task in helping:
                task.cancel()
            await ledger.give_back()
        if self._player.halt.reason is None:
            await self._remaining.look()
        played = RunReport(tuple(self._results), drained=report.drained)
        mine = {one.episode_id for one in self._results}
        elsewhere = [why for episode_id, why in self._remaining.failed.items() if episode_id not in mine]
        return FleetReport(played, self._state.total, self._state.over, self._player.halt.reason, elsewhere)

    def _again(self, result: Result) -> Attempt | None:
        if result.episode_id in self._log.lost:
            return None  # others resume it
        following = attempt_after(self._run, self._player.halt, result)
        if result.end_reason is None:
            self._remaining.leave_out(result.episode_id)
        return following

    def _take(self, result: Result) -> None:
        if result.episode_id not in self._log.lost:
            self._results.append(result)
            self._state.take(result)


def _now_ms(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1000)
