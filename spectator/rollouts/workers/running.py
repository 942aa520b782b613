"""Carries out a run of rollouts by worker processes: one process records, the others play."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from spectator.clock import Clock
from spectator.journal.stores.leases import Leases
from spectator.llm.secret import ApiKey
from spectator.policies.spending import SpendLedger
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.fleet import FleetReport, OnBegin, Underway
from spectator.rollouts.handlers.base import EpisodeHandler, NullHandler
from spectator.rollouts.interactor import RunReport
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.opening import OpenRun, open_run
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.workers.crew import LEASE_S, Crew
from spectator.rollouts.workers.desk import Desk
from spectator.rollouts.workers.launching import Launcher, LocalLauncher
from spectator.rollouts.workers.wire import WorkerSetup
from spectator.runs.workers import MakeWorlds, plain_worlds
from spectator.steppers.opening import OpenStepper, inline


def no_key() -> ApiKey | None:
    """The key of an endpoint that needs none."""
    return None


async def run_by_workers(
    request: RolloutRequest,
    folder: Path,
    *,
    workers: int,
    concurrency: int,
    clock: Clock,
    worlds: MakeWorlds = plain_worlds,
    key: Callable[[], ApiKey | None] = no_key,
    handler: Callable[[], EpisodeHandler] = NullHandler,
    ledger: SpendLedger | None = None,
    open_stepper: OpenStepper = inline,
    deadlines: Deadlines | None = None,
    launcher: Launcher | None = None,
    lease_s: float = LEASE_S,
    on_begin: OnBegin = lambda underway: None,
) -> FleetReport:
    """Play what is owed of ``request`` in ``folder`` by worker processes; see :func:`~..fleet.run_rollouts`.

    Workers take episodes by leases and have every event recorded here. One that dies is replaced, and its
    episodes are played on by others from the record; when this process dies, all of them stop.

    Args:
        request: What is to be played.
        folder: Where the run is kept; made when it is not there.
        workers: Worker processes, at least 1.
        concurrency: Episodes at once in all of them together, at least 1.
        clock: Time.
        worlds: Makes what finds worlds, in every process; a function of a module.
        key: Reads the endpoint's key, in every process; can be pickled.
        handler: Makes what adds to prompts and learns from ends, in every process; can be pickled.
        ledger: What asking the model may take, in all processes together; no limit when left out.
        open_stepper: Makes the stepper of each episode; a function of a module.
        deadlines: How long anything may take.
        launcher: Starts workers; on this machine when left out.
        lease_s: Seconds without a word of a worker after which its episodes go to others.
        on_begin: Called once, when it is known what is owed.

    Raises:
        ValueError: A figure is out of its range.
        InvalidRequest: A field is wrong, or the folder holds another run.
        ConfigurationError: Another process works in the folder, or the environment's server is not reached.
        JournalError: It cannot be written.
    """
    if workers < 1 or concurrency < 1 or lease_s <= 0:
        raise ValueError("workers and concurrency are at least 1, lease_s is greater than 0")
    async with _opened(request, folder, worlds, clock, ledger, launcher) as (run, starting):
        size = max(1, min(workers, concurrency, len(run.owed)))
        setup = WorkerSetup(
            request, run.planned.run.began_ms, -(-concurrency // size), worlds, key, handler,
            open_stepper, deadlines or Deadlines(), run.ledger.caps, answered=run.answered_before,
        )  # fmt: skip
        leases = await Leases.begin(run.journal)
        desk = Desk(
            run, leases, clock, size=size, concurrency=concurrency, lease_s=lease_s,
            env_wait_s=setup.deadlines.env_wait_s,
        )  # fmt: skip
        on_begin(Underway(run.state, desk))
        await Crew(desk, starting, size, setup, clock, lease_s).run()
        return _report(run, desk)


@asynccontextmanager
async def _opened(
    request: RolloutRequest,
    folder: Path,
    worlds: MakeWorlds,
    clock: Clock,
    ledger: SpendLedger | None,
    launcher: Launcher | None,
) -> AsyncIterator[tuple[OpenRun, Launcher]]:
    """The run in its folder, and what starts its workers; both are closed in the end."""
    address = await asyncio.to_thread(EnvironmentAddress.read(request.environment).resolved)
    world = await asyncio.to_thread(address.world, worlds())
    client = fleet_client(request.model, None, 1, clock=clock, rng=random.Random(0))  # asks nothing
    seat = FleetSeat(request.model, client, clock, NullHandler(), request.message_cut)
    launcher = launcher or LocalLauncher([getattr(world.environment, "__module__", __name__)])
    try:
        async with open_run(request, folder, world, seat, clock, ledger) as run:
            yield run, launcher
    finally:
        await launcher.aclose()
        await client.aclose()


def _report(run: OpenRun, desk: Desk) -> FleetReport:
    report = RunReport(tuple(desk.results), drained=run.state.over < run.state.total)
    return FleetReport(report, run.state.total, run.state.over, desk.halted, run.failed_before)
