"""A worker of a run: plays what it is given a lease of, and has its desk record every event of it.

It keeps nothing: what it has not been told is recorded did not happen. When its desk is gone, or has given
its episodes to somebody else, it stops at once, wherever it is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from spectator import errors
from spectator.clock import Clock, SystemClock
from spectator.errors import FailureClass, JournalError, SpectatorError
from spectator.events import RecordedEvent, decode
from spectator.journal.attachments import Attachments, RecordedCall
from spectator.policies.spending import SpendLedger, Spent
from spectator.rollouts.actors import RecyclingPool
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.interactor import Interactor
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.playing import AttemptPlayer, Handle, Result
from spectator.rollouts.request import plan_rollouts
from spectator.rollouts.workers.calls import CallsUnderLease
from spectator.rollouts.workers.wire import (
    BEAT_S,
    Append,
    AttemptOver,
    Beat,
    DeskAnswer,
    FlightsWaiting,
    Frames,
    Granted,
    HaltRun,
    NoMore,
    Paid,
    Read,
    Want,
    WorkerSetup,
    frame,
)
from spectator.runs.halting import Halt
from spectator.runs.owed import Attempt

logger = logging.getLogger(__name__)

ORPHANED: Final = 70
"""Exit code of a worker whose desk is gone."""

DEPOSED: Final = 71
"""Exit code of a worker whose episodes are played elsewhere."""

BROKEN: Final = 72
"""Exit code of a worker that cannot send what it has to say."""

WAITING_S: Final = 1.0
"""Seconds between two words on what its episodes wait for."""

READ_BYTES: Final = 1 << 18


class DeskLine:
    """A worker's end of its connection: two threads, so that a busy event loop keeps nobody waiting.

    One sends, and sends a :class:`~.wire.Beat` where there is nothing else to say; one receives, and ends the
    process when the other side is gone.

    Args:
        connection: To the desk, blocking.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = Frames()
        self._out: SimpleQueue[object] = SimpleQueue()
        self._turned_s = time.monotonic()
        self._sender = threading.Thread(target=self._send, name="line-send", daemon=True)
        self.received: asyncio.Queue[object] = asyncio.Queue()

    def first(self) -> object:
        """Wait for the first message; nothing else may be received yet."""
        while True:
            data = self._connection.recv(READ_BYTES)
            if not data:
                os._exit(ORPHANED)
            if messages := self._frames.take(data):
                for message in messages[1:]:
                    self.received.put_nowait(message)
                return messages[0]

    def start(self) -> None:
        """Begin to send and to receive; called in the event loop."""
        loop = asyncio.get_running_loop()
        self._turn(loop)
        self._sender.start()
        threading.Thread(target=self._receive, args=(loop,), name="line-receive", daemon=True).start()

    def send(self, message: object) -> None:
        """Send ``message`` soon."""
        self._out.put(message)

    def finish(self) -> None:
        """Send what waits, and nothing more; blocks until then."""
        self._out.put(None)
        self._sender.join()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turned_s = time.monotonic()
        loop.call_later(BEAT_S, self._turn, loop)

    def _send(self) -> None:
        code: int | None = BROKEN
        try:
            while True:
                messages = self._due()
                over = messages[-1] is None
                self._connection.sendall(frame(messages[:-1] if over else messages))
                if over:
                    code = None
                    return
        except OSError:
            code = ORPHANED
        finally:
            if code == BROKEN:
                logger.error("a message cannot be sent", exc_info=True)
            if code is not None:
                os._exit(code)

    def _due(self) -> list[object]:
        try:
            messages = [self._out.get(timeout=BEAT_S)]
        except Empty:
            return [Beat(max(0.0, time.monotonic() - self._turned_s - BEAT_S))]
        while messages[-1] is not None:
            try:
                messages.append(self._out.get_nowait())
            except Empty:
                break
        return messages

    def _receive(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                data = self._connection.recv(READ_BYTES)
                messages = self._frames.take(data)
            except (OSError, ValueError):
                os._exit(ORPHANED)
            if not data:
                os._exit(ORPHANED)
            loop.call_soon_threadsafe(self._hand_on, messages)

    def _hand_on(self, messages: Sequence[object]) -> None:
        for message in messages:
            self.received.put_nowait(message)


class LeasedLog:
    """The run's journal as a worker reaches it: by asking its desk.

    Args:
        line: To the desk.
    """

    def __init__(self, line: DeskLine) -> None:
        self._line = line
        self._fences: dict[str, tuple[int, CallsUnderLease]] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    def hold(self, granted: Granted) -> None:
        """Record the episode of ``granted`` under its lease from now on."""
        self._fences[granted.attempt.episode_id] = (granted.fence, CallsUnderLease())

    def let_go(self, episode_id: str) -> int | None:
        """Forget the lease of an episode; its number."""
        lease = self._fences.pop(episode_id, None)
        return None if lease is None else lease[0]

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`spectator.journal.base.EpisodeLog.append`."""
        if not events:
            return
        lease = self._fences.get(events[0].episode_id)
        if lease is None:
            raise JournalError(f"there is no lease of {events[0].episode_id} here")
        fence, calls = lease
        texts = [recorded.text for recorded in events]
        await self._ask(Append(self._next(), fence, texts, calls.packed(attachments)))

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """See :meth:`spectator.journal.base.EpisodeLog.read`; nothing is checked on the way to a worker."""
        texts = await self._ask(Read(self._next(), episode_id, "events", after_seq, limit))
        return [decode(text) for text in texts]

    async def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """See :meth:`spectator.journal.base.EpisodeLog.calls`."""
        for call in await self._ask(Read(self._next(), episode_id, "calls")):
            yield call

    def answered(self, answer: DeskAnswer) -> None:
        """Take an answer of the desk; one that says that a lease is lost ends the process."""
        asked = self._asked.pop(answer.number, None)
        if answer.error is None:
            if asked is not None and not asked.done():
                asked.set_result(answer.value)
            return
        kind, says = answer.error
        if kind == errors.LeaseLost.__name__:
            os._exit(DEPOSED)
        if asked is not None and not asked.done():
            asked.set_exception(_error(kind, says))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _ask(self, question: Append | Read) -> Any:
        answer = self._asked[question.number] = asyncio.get_running_loop().create_future()
        self._line.send(question)
        return await answer


def _error(kind: str, says: str) -> JournalError:
    known = getattr(errors, kind, JournalError)
    return known(says) if issubclass(known, JournalError) else JournalError(says)


class LeasedPool(RecyclingPool[Attempt]):
    """Makes an actor for each lease that the desk grants, and asks it for another when one is given back.

    Args:
        size: Actors that may be leased at once.
        line: To the desk.
        log: Records under the leases.
        player: Makes the actors.
        clock: Waits between attempts to make one.
        patience_s: Seconds that a server of environments may be gone while no actor is leased.
    """

    def __init__(
        self,
        size: int,
        line: DeskLine,
        log: LeasedLog,
        player: AttemptPlayer,
        clock: Clock,
        patience_s: float,
    ) -> None:
        super().__init__(
            (), player.open, size,
            clock=clock, on_failed=self._failed, spare_factor=1.0, patience_s=patience_s, fed=True,
        )  # fmt: skip
        self._line = line
        self._log = log

    async def start(self) -> None:
        """Ask for as many leases as can be played at once."""
        for _ in range(self.pool_size):
            self._line.send(Want())

    def grant(self, granted: Granted) -> None:
        """Take a lease."""
        self._log.hold(granted)
        self.feed(granted.attempt)

    def result(self, result: Result) -> None:
        """Tell the desk what became of an attempt; its end, where it has one, is recorded already."""
        ended = result.end_reason is not None
        self._let_go(
            result.episode_id, None if ended else result.failure_class, None if ended else result.detail
        )

    async def done(self, handle: Handle, *, again: Attempt | None = None) -> None:
        """Let go of an actor, and ask for another lease."""
        await super().done(handle)
        self._let_go(handle.env_id, None, None)
        self._line.send(Want())

    def _failed(self, attempt: Attempt, error: SpectatorError) -> None:
        self._let_go(attempt.episode_id, getattr(error, "failure_class", "env_infra"), str(error))
        self._line.send(HaltRun(f"no environment could be had (env_infra): {error}"))

    def _let_go(self, episode_id: str, failure_class: FailureClass | None, detail: str | None) -> None:
        fence = self._log.let_go(episode_id)
        if fence is not None:
            self._line.send(AttemptOver(fence, failure_class, detail))


class SharedLedger(SpendLedger):
    """What asking may take, told to the desk, which tells the others; see :class:`SpendLedger`."""

    line: DeskLine

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` here and elsewhere."""
        super().pay(spent)
        self.line.send(Paid(spent))


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
        await _play(setup, line)
    except SpectatorError as error:
        line.send(HaltRun(f"a worker cannot play: {error}"))
    finally:
        line.finish()


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
        pool = LeasedPool(setup.concurrency, line, log, player, clock, deadlines.env_wait_s)
        interactor = Interactor(
            pool, player.play, clock=clock, rng=rng, on_result=pool.result,
            startup_jitter_s=0.0,  # the client spreads its first requests
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            helping = [
                tasks.create_task(_listen(line, log, pool, ledger)),
                tasks.create_task(_tell_halt(line, player.halt)),
                tasks.create_task(_tell_waiting(line, interactor, clock)),
            ]
            await interactor.run()
            for task in helping:
                task.cancel()
    finally:
        await client.aclose()


async def _listen(line: DeskLine, log: LeasedLog, pool: LeasedPool, ledger: SpendLedger) -> None:
    while True:
        match await line.received.get():
            case DeskAnswer() as answer:
                log.answered(answer)
            case Granted() as granted:
                pool.grant(granted)
            case NoMore():
                pool.no_more()
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
