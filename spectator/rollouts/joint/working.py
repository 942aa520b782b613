"""Plays a run that lies in a database: alone or beside any number of others that do the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.journal.stores.fleet_runs import FleetRow
from spectator.journal.stores.ownership import Ownership
from spectator.journal.stores.signs import INTERVAL_S
from spectator.journal.stores.sqlite import SqlJournal
from spectator.llm.secret import ApiKey
from spectator.policies.spending import Caps
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.fleet import FleetReport, OnBegin, begin
from spectator.rollouts.handlers.base import NullHandler
from spectator.rollouts.interactor import Interactor, RunReport
from spectator.rollouts.joint.held_log import PATIENCE_S, HeldLog
from spectator.rollouts.joint.life import Life
from spectator.rollouts.joint.owed import Owed
from spectator.rollouts.joint.plan import FleetPlan, keep_plan, read_plan
from spectator.rollouts.joint.pool import OwedPool
from spectator.rollouts.joint.purse import FleetLedger
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.playing import AttemptPlayer, Result, attempt_after
from spectator.rollouts.progress import FleetState
from spectator.rollouts.request import RolloutRun, plan_rollouts
from spectator.runs.owed import Attempt
from spectator.steppers.opening import inline, on_a_thread


@dataclass(frozen=True, slots=True)
class Here:
    """What a process brings along to play runs.

    Args:
        journal: On a database server, opened to be written.
        concurrency: Episodes at once in this process, at least 1.
        clock: Time.
        load: Finds worlds.
        rng: Draws waits.
        key: Reads the key of an endpoint from the variable of this name.
        day: What asking models may take here in a day.
        episode: The same for one episode.
        patience_s: Seconds that the database may be away.
        interval_s: Seconds between two signs of life, and two looks at those of others.
        on_begin: Called once for each run, when it is known what is owed.
        recorded: Is told of every episode of which something was committed; returns at once.
    """

    journal: SqlJournal
    concurrency: int
    clock: Clock
    load: LoadWorld
    rng: random.Random
    key: Callable[[str | None], ApiKey | None] = lambda variable: None
    day: Caps = field(default_factory=Caps)
    episode: Caps = field(default_factory=Caps)
    patience_s: float = PATIENCE_S
    interval_s: float = INTERVAL_S
    on_begin: OnBegin = lambda underway: None
    recorded: Callable[[str], None] = lambda episode_id: None

    def need_server(self) -> Ownership:
        """The leases of the journal.

        Raises:
            ConfigurationError: It is an embedded one.
        """
        if self.journal.ownership is None:
            raise ConfigurationError("a run that several processes play needs a journal on a database server")
        return self.journal.ownership


async def begin_run(name: str, plan: FleetPlan, here: Here) -> FleetRow:
    """Keep a run in the database, where it is not there yet; nothing is played.

    Args:
        name: The run.
        plan: What it plays.
        here: Where it is kept, and where its world is found.

    Raises:
        InvalidRequest: A field is wrong, or the name is that of another run.
        ConfigurationError: The environment's server is not reached.
        JournalError: The database cannot be written.
    """
    here.need_server()
    now_ms = int(here.clock.now().timestamp() * 1000)
    address = await asyncio.to_thread(EnvironmentAddress.read(plan.request.environment).resolved)
    world = await asyncio.to_thread(address.world, here.load)
    client = fleet_client(plan.request.model, None, 1, clock=here.clock, rng=here.rng)  # asks nothing
    try:
        seat = FleetSeat(plan.request.model, client, here.clock, NullHandler(), plan.request.message_cut)
        planned = plan_rollouts(plan.request, world, seat.preset(world), now_ms, name)
    finally:
        await client.aclose()
    return await keep_plan(here.journal, name, plan.of_world(planned), now_ms)


async def play_run(row: FleetRow, here: Here) -> FleetReport:
    """Play what is owed of a run, until nothing of it is, beside whoever does the same.

    Episodes are taken by leases, a few at a time. Those of a process that dies, stalls or loses the database
    are played on by the others from their record; what it still sends is refused.

    Args:
        row: The run.
        here: What this process brings along.

    Returns:
        What was played here, and how far the run is.

    Raises:
        InvalidRequest: The run is of another version, or its world is here.
        ConfigurationError: The key is missing, or the environment's server is not reached.
        JournalError: The database cannot be reached at the beginning.
    """
    plan = read_plan(row)
    request, limits = plan.request, plan.limits
    key = here.key(request.model.api_key_env)
    address = await asyncio.to_thread(EnvironmentAddress.read(request.environment).resolved)
    world = await asyncio.to_thread(address.world, here.load)
    client = fleet_client(
        request.model, key, here.concurrency, clock=here.clock, rng=here.rng,
        startup_jitter_s=limits.startup_jitter_s,
    )  # fmt: skip
    outage = ModelOutage(here.clock, here.rng, limits.model_wait_s)
    seat = FleetSeat(request.model, client, here.clock, NullHandler(), request.message_cut, outage)
    try:
        planned = plan_rollouts(request, world, seat.preset(world), row.began_ms, row.name)
        plan.need_same_world(row.name, planned)
        log = HeldLog(here.journal, here.clock, here.patience_s, here.recorded)
        ledger = FleetLedger((here.day, here.episode, plan.whole), here.clock, row.name, here.journal, log)
        with Life(here.need_server(), here.interval_s):
            await ledger.join()
            state = FleetState(
                len(planned.run.jobs), 0, here.clock.monotonic(), deadline_s=request.model.timeout_s
            )
            player = AttemptPlayer(
                planned, log, here.clock, seat, ledger, on_a_thread if plan.stepper == "thread" else inline,
                address=address, deadlines=limits, state=state,
            )  # fmt: skip
            owed = Owed(
                planned.run, here.journal, here.need_server(), log, state, here.clock, plan.max_in_flight
            )
            await owed.look()
            outage.answers = int(state.over > 0)
            pool = OwedPool(here.concurrency, owed, player, here.clock, here.rng, state, limits.env_wait_s)
            part = _Share(planned, here, player, state, log, owed)
            beginning = partial(begin, here.on_begin, state, client.adaptive, outage)
            return await part.play(pool, ledger, beginning)
    finally:
        await client.aclose()


class _Share:
    """The part of one process in one run."""

    def __init__(
        self,
        planned: RolloutRun,
        here: Here,
        player: AttemptPlayer,
        state: FleetState,
        log: HeldLog,
        owed: Owed,
    ) -> None:
        self._run = planned.run
        self._here = here
        self._player = player
        self._state = state
        self._log = log
        self._owed = owed
        self._results: list[Result] = []

    async def play(
        self, pool: OwedPool, ledger: FleetLedger, beginning: Callable[[Interactor[Attempt]], None]
    ) -> FleetReport:
        """Play until nothing is owed, the run is halted here, or it is asked to stop."""
        interactor = Interactor(
            pool, self._player.play, clock=self._here.clock, rng=self._here.rng, on_result=self._take,
            startup_jitter_s=0.0,  # the client spreads its first requests
            again=self._again,
        )  # fmt: skip
        beginning(interactor)
        helping = [
            asyncio.create_task(interactor.drain_after(self._player.halt.wait)),
            asyncio.create_task(ledger.keep_up()),
        ]
        try:
            report = await interactor.run()
        finally:
            for task in helping:
                task.cancel()
            await ledger.finish()
        if self._player.halt.reason is None:
            await self._owed.look()
        played = RunReport(tuple(self._results), drained=report.drained)
        return FleetReport(played, self._state.total, self._state.over, self._player.halt.reason)

    def _again(self, result: Result) -> Attempt | None:
        if result.episode_id in self._log.lost:
            return None  # others play it on
        following = attempt_after(self._run, self._player.halt, result)
        if result.end_reason is None:
            self._owed.leave_out(result.episode_id)
        return following

    def _take(self, result: Result) -> None:
        if result.episode_id not in self._log.lost:
            self._results.append(result)
            self._state.take(result)
