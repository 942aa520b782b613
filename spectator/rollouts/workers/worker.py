"""A worker of a run: plays what it is given a lease of, and has its desk record every event of it.

It keeps nothing: what it has not been told is recorded did not happen. When its desk is gone, or has given
its episodes to somebody else, it stops at once, wherever it is.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from spectator.clock import Clock, SystemClock
from spectator.errors import SpectatorError
from spectator.policies.spending import SpendLedger
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.interactor import Interactor
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.playing import AttemptPlayer
from spectator.rollouts.request import plan_rollouts
from spectator.rollouts.workers.desk_line import DeskLine
from spectator.rollouts.workers.leased import LeasedLog, LeasedPool, SharedLedger
from spectator.rollouts.workers.wire import (
    DeskAnswer,
    FlightsWaiting,
    Granted,
    HaltRun,
    LogLine,
    NoMore,
    Paid,
    WorkerSetup,
)
from spectator.runs.halting import Halt
from spectator.runs.owed import Attempt

WAITING_S: Final = 1.0
"""Seconds between two words on what its episodes wait for."""


def work(connection: socket.socket) -> None:
    """Be a worker until there is nothing more to play; the target of a process.

    Args:
        connection: To the desk.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the desk sees to an orderly end
    with connection:
        connection.settimeout(None)
        asyncio.run(_work(connection))


async def _work(connection: socket.socket) -> None:
    line = DeskLine(connection)
    setup = line.first()
    assert isinstance(setup, WorkerSetup)
    line.start()
    try:
        with _warnings_told(line):
            await _play(setup, line)
    except SpectatorError as error:
        line.send(HaltRun(f"a worker cannot play: {error}"))
    finally:
        line.finish()


class _ToDesk(logging.Handler):
    """Tells the desk what this library warns of."""

    def __init__(self, line: DeskLine) -> None:
        super().__init__(logging.WARNING)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of one."""
        self._line.send(LogLine(record.levelno, record.name, self.format(record)))


@contextmanager
def _warnings_told(line: DeskLine) -> Iterator[None]:
    """Warnings go to the desk, and not across its screen; in a process of others they go where theirs go."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    logger, handler = logging.getLogger("spectator"), _ToDesk(line)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


async def _play(setup: WorkerSetup, line: DeskLine) -> None:
    clock, rng, request, deadlines = SystemClock(), random.SystemRandom(), setup.request, setup.deadlines
    address = await asyncio.to_thread(EnvironmentAddress.read(request.environment).resolved)
    world = await asyncio.to_thread(address.world, setup.worlds())
    client = fleet_client(
        request.model, setup.key(), setup.concurrency,
        clock=clock, rng=rng, startup_jitter_s=deadlines.startup_jitter_s,
    )  # fmt: skip
    try:
        outage = ModelOutage(clock, rng, deadlines.model_wait_s)
        outage.answers = int(setup.answered)
        seat = FleetSeat(request.model, client, clock, setup.handler(), request.message_cut, outage)
        planned = plan_rollouts(request, world, seat.preset(world), setup.began_ms)
        ledger = SharedLedger(*setup.caps[:2], clock, whole=setup.caps[2])
        ledger.line = line
        ledger.begin(setup.today, setup.whole)
        log = LeasedLog(line)
        player = AttemptPlayer(
            planned, log, clock, seat, ledger, setup.open_stepper, address=address, deadlines=deadlines
        )
        pool = LeasedPool(setup.concurrency, line, log, player, clock)
        interactor = Interactor(
            pool, player.play, clock=clock, rng=rng, on_result=pool.result,
            startup_jitter_s=0.0,  # the client spreads its first requests
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            helping = [
                tasks.create_task(_listen(line, log, pool, ledger, interactor.drain)),
                tasks.create_task(_tell_halt(line, player.halt)),
                tasks.create_task(_tell_waiting(line, interactor, clock)),
            ]
            await interactor.run()
            for task in helping:
                task.cancel()
    finally:
        await client.aclose()


async def _listen(
    line: DeskLine, log: LeasedLog, pool: LeasedPool, ledger: SpendLedger, drain: Callable[[], None]
) -> None:
    while True:
        match await line.received.get():
            case DeskAnswer() as answer:
                log.answered(answer)
            case Granted() as granted:
                pool.grant(granted)
            case NoMore():
                drain()
            case Paid(spent):
                ledger.begin(spent, spent)


async def _tell_halt(line: DeskLine, halt: Halt) -> None:
    await halt.wait()
    line.send(HaltRun(halt.reason or "halted"))


async def _tell_waiting(line: DeskLine, interactor: Interactor[Attempt], clock: Clock) -> None:
    while True:
        await clock.sleep(WAITING_S)
        now = clock.monotonic()
        flights = {
            one.episode_id: (one.waiting_for, None if one.until_s is None else one.until_s - now, one.why)
            for one in interactor.in_flight
        }
        line.send(FlightsWaiting(flights))
