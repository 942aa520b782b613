"""Worker processes of a run in a folder: each is the command ``spectator rollouts worker``.

This process plays nothing. It replaces workers that die, and shows how far the run is by its record.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from spectator.catalog import LoadWorld
from spectator.clock import Clock, first_of
from spectator.errors import FailureClass, JournalError
from spectator.journal.ownership import INTERVAL_S, Ownership, living
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import FleetReport, OnBegin, RunningFleet, begun_in
from spectator.rollouts.fleet_plan import IN_FOLDER, FleetPlan
from spectator.rollouts.heartbeat import Heartbeat
from spectator.rollouts.in_flight import InFlight
from spectator.rollouts.interactor import EpisodeResult, RunReport
from spectator.rollouts.progress import FleetState
from spectator.runs.jobs import RunPlan
from spectator.runs.owed import Attempt, progress
from spectator.runs.run_folder import JOURNAL, RunFolder
from spectator.runs.run_records import FollowedEpisode, RunTail

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-m", "spectator.cli", "rollouts", "worker")
"""What each worker is started with."""

LOOK_S: Final = 0.5
"""Seconds between two looks at the record and at the workers."""

GONE_LOOKS: Final = 10
"""Looks after which a worker is killed that others took for dead, and that has not ended by itself."""

PAUSE_S: Final = 0.2
"""Seconds before a worker is replaced, for each that died in a row while the run did not progress."""

LONGEST_PAUSE_S: Final = 5.0

BARREN: Final = 10
"""Workers that die in a row without any progress of the run, after which it is halted."""

STOP_S: Final = 10.0
"""Seconds that a worker may take to end when it is asked to."""

HALTED: Final = 3
"""Exit code of a worker that cannot play on."""

HALTED_LINE: Final = "halted: "
"""What the line of its standard error begins with that says why."""

WRITE_LOCK: Final = 120
"""The byte of SQLite's shared memory file whose lock a writer holds (SQLite's WAL format, section 2.3.2)."""

LEFT: Final = frozenset({0, 1, 130, 143})
"""Exit codes of workers that found nothing left to play, or were asked to end."""


@dataclass(slots=True)
class _WorkerProcess:
    """A worker.

    Args:
        name: What it is called in the journal.
        number: The same as a number.
        process: The process.
        joined: Whether it was seen in the journal.
        missing: Looks in a row at which it was not there any more.
        halted: Why it cannot play on, once it said so.
    """

    name: str
    number: int
    process: asyncio.subprocess.Process
    joined: bool = False
    missing: int = 0
    halted: str = "a worker could not play on"


async def run_workers(
    plan: FleetPlan,
    folder: Path,
    *,
    workers: int,
    concurrency: int,
    clock: Clock,
    load: LoadWorld,
    rng: random.Random,
    command: Sequence[str] = COMMAND,
    interval_s: float = INTERVAL_S,
    on_begin: OnBegin = lambda running: None,
) -> FleetReport:
    """Play a run in a folder by worker processes of this machine.

    A worker that dies is replaced at once, and one that stalls after :data:`SILENT_CHECKS` heartbeats;
    others resume its episodes from the record. When this process dies, all workers end.

    Args:
        plan: What is played, and how.
        folder: Where the run is kept; made when it is not there.
        workers: Worker processes, at least 1.
        concurrency: Episodes at once in all of them together, at least 1.
        clock: Time.
        load: Finds the world; workers find it by themselves.
        rng: Draws waits.
        command: Starts a worker; the folder and options are added.
        interval_s: Seconds between two heartbeats of this process.
        on_begin: Called once, when it is known what remains.

    Raises:
        ValueError: A number is out of range.
        InvalidRequest: A field is wrong, or the folder holds another run.
        ConfigurationError: A process that writes alone has the journal, or the environment's server cannot
            be reached.
        JournalError: It cannot be written.
    """
    if workers < 1 or concurrency < 1:
        raise ValueError("workers and concurrency must be at least 1")
    async with begun_in(folder, plan, clock, load, rng) as (_, journal, planned):
        assert journal.ownership is not None
        progressing = RecordedProgress(planned.run, plan, folder, journal, clock)
        await progressing.look()
        left = progressing.state.total - progressing.state.over
        size = max(1, min(workers, concurrency, left))
        each = [*command, str(folder), "--concurrency", str(-(-concurrency // size))]
        supervisor = WorkerProcesses(each, size, journal.ownership, journal, progressing, clock)
        on_begin(RunningFleet(progressing.state, supervisor))
        with Heartbeat(journal.ownership, clock, interval_s):
            if left:
                await supervisor.run()
        return await progressing.report(supervisor.halted)


class RecordedProgress:
    """How far a run is, by its record alone; kept current by :meth:`look`.

    Args:
        run: The run.
        plan: What it plays.
        folder: Its folder.
        journal: Its record.
        clock: Time.
    """

    def __init__(
        self, run: RunPlan, plan: FleetPlan, folder: Path, journal: SqlJournal, clock: Clock
    ) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        attempts = plan.request.attempts
        self._tail = RunTail(RunFolder(folder.name, folder, attempts=attempts), journal, IN_FOLDER)
        self.journal_file = folder / JOURNAL
        self._before: set[str] | None = None
        self._turns: dict[str, int] = {}
        self._numbers: dict[int, dict[str, int]] = {}
        deadline_s = plan.request.model.timeout_s
        self.state = FleetState(len(run.jobs), 0, clock.monotonic(), deadline_s=deadline_s)
        self.in_flight: list[InFlight] = []

    async def look(self) -> bool:
        """Take in what came since the last look; whether anything did.

        Raises:
            JournalError: The record cannot be read.
        """
        changed = await self._tail.look()
        if self._before is None:
            self._before = {one.episode_id for one in self._tail.episodes.values() if one.reason is not None}
            self._turns = {one.episode_id: one.turns for one in self._tail.episodes.values()}
        for episode_id in changed:
            one = self._tail.episodes[episode_id]
            self.state.turns += max(0, one.turns - self._turns.get(episode_id, 0))
            self._turns[episode_id] = one.turns
        if changed:
            self._count([one for one in self._tail.episodes.values() if one.reason is not None])
        owners = {lease.episode_id: lease.owner for lease in await self._journal.leases()}
        self.in_flight = [
            self._flight(one, owners[one.episode_id])
            for one in self._tail.episodes.values()
            if one.reason is None and one.episode_id in owners
        ]
        return bool(changed)

    async def report(self, halted: str | None) -> FleetReport:
        """What the run came to while this process looked.

        Raises:
            JournalError: The record cannot be read.
        """
        await self.look()
        found = await progress(self._journal, self._run, run_id=IN_FOLDER)
        before = self._before or set()
        ended = [one for one in self._tail.episodes.values() if one.reason is not None]
        results = [self._result(one) for one in ended if one.episode_id not in before]
        elsewhere: list[FailureClass] = [
            failure for number, failure in found.failed.items() if found.over[number] in before
        ]
        total, over = len(self._run.jobs), len(found.over)
        halted = None if over == total else halted
        return FleetReport(RunReport(results, drained=over < total), total, over, halted, elsewhere)

    def _count(self, all_ended: Sequence[FollowedEpisode]) -> None:
        state, before = self.state, self._before or set()
        state.over = sum(not one.again for one in all_ended)
        ended = [one for one in all_ended if one.episode_id not in before]
        rewards = [one.reward for one in ended if one.reward is not None]
        state.ended, state.again = len(ended), sum(one.again for one in ended)
        state.settled = state.ended - state.again
        state.ended_turns = sum(one.turns for one in ended)
        state.rewards, state.reward_sum = len(rewards), sum(rewards)
        state.failures.clear()
        for one in ended:
            if one.failure is not None:
                state.failures[one.failure] = state.failures.get(one.failure, 0) + 1

    def _flight(self, one: FollowedEpisode, owner: str) -> InFlight:
        now, now_s = self._clock.now(), self._clock.monotonic()

        def then_s(at: str) -> float:
            return now_s - (now - datetime.fromisoformat(at)).total_seconds()

        flight = InFlight(
            one.episode_id, 0, then_s(one.started_at), one.attempt, one.turns, moved_s=then_s(one.moved_at)
        )
        flight.waits("worker", why=owner)
        return flight

    def _result(self, one: FollowedEpisode) -> EpisodeResult[Attempt]:
        numbers = self._numbers.get(one.attempt)
        if numbers is None:
            jobs = enumerate(self._run.jobs)
            numbers = {self._run.episode_id(job, one.attempt): number for number, job in jobs}
            self._numbers[one.attempt] = numbers
        return EpisodeResult(
            Attempt(numbers[one.episode_id], one.attempt, one.episode_id, True),
            one.episode_id,
            one.group_id,
            one.reason,
            total_reward=one.reward,
            failure_class=one.failure,
            detail=one.detail,
            turns=one.turns,
            again=one.again,
            attempt=one.attempt,
        )


class WorkerProcesses:
    """Keeps workers at work; see :class:`~.in_flight.InPlay`.

    Args:
        command: Starts a worker; its name is added.
        size: Workers at once, at least 1.
        ownership: The leases of the journal.
        journal: The journal.
        progressing: How far the run is.
        clock: Time.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        ownership: Ownership,
        journal: SqlJournal,
        progressing: RecordedProgress,
        clock: Clock,
    ) -> None:
        self._command = command
        self._ownership = ownership
        self._journal = journal
        self._progress = progressing
        self._clock = clock
        self._alive: dict[str, _WorkerProcess] = {}
        self._named = 0
        self._barren = 0
        self._draining = asyncio.Event()
        self.workers = size
        """Workers at once."""
        self.halted: str | None = None
        """Why a worker halted, or the run; ``None`` when none did."""

    @property
    def in_flight(self) -> list[InFlight]:
        """Episodes that are being played, oldest first."""
        return self._progress.in_flight

    @property
    def pids(self) -> dict[str, int]:
        """The processes that are at work, by the names of the workers."""
        return {name: worker.process.pid for name, worker in self._alive.items()}

    def drain(self) -> None:
        """Finish what is being played, and take no more."""
        if not self._draining.is_set():
            self._draining.set()
            for worker in self._alive.values():
                _signal(worker, signal.SIGINT)

    async def run(self) -> None:
        """Keep workers at work until nothing remains that they can play, or the run is halted."""
        looking = asyncio.create_task(self._look())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self.workers):
                    tasks.create_task(self._keep())
        finally:
            looking.cancel()

    async def _keep(self) -> None:
        """Keep one worker at work, one after another."""
        while not self._draining.is_set():
            worker = await self._start()
            try:
                code = await self._ended(worker)
            finally:
                del self._alive[worker.name]
            if code == HALTED:  # others may still play what it could not
                self.halted = self.halted or worker.halted
            if code == HALTED or code in LEFT:
                return
            await self._replace(worker, code)

    async def _start(self) -> _WorkerProcess:
        self._named += 1
        name = f"w-{self._named}-{os.getpid()}"
        process = await asyncio.create_subprocess_exec(
            *self._command, "--name", name, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        logger.info("worker %s is process %d", name, process.pid)
        worker = self._alive[name] = _WorkerProcess(name, self._named, process)
        return worker

    async def _ended(self, worker: _WorkerProcess) -> int:
        """Wait for the end of a worker, and log what it says; its exit code."""
        assert worker.process.stderr is not None
        try:
            async for line in worker.process.stderr:
                text = line.decode(errors="replace").strip()
                if text.startswith(HALTED_LINE):
                    worker.halted = text.removeprefix(HALTED_LINE)
                if text:
                    logger.warning("worker %s: %s", worker.name, text)
            return await worker.process.wait()
        except asyncio.CancelledError:
            await self._stop(worker)
            raise

    async def _stop(self, worker: _WorkerProcess) -> None:
        """End a worker; its episodes are resumed later."""
        _signal(worker, signal.SIGTERM)
        try:
            await asyncio.wait_for(worker.process.wait(), STOP_S)
        except TimeoutError:
            _signal(worker, signal.SIGKILL)
            await worker.process.wait()

    async def _replace(self, worker: _WorkerProcess, code: int) -> None:
        """Let others resume the episodes of a worker that died."""
        progressed = self._progress.state.turns + self._progress.state.ended
        try:
            freed = await self._ownership.depose(worker.name)
            logger.warning(
                "worker %s died (exit code %d); %d episodes go on elsewhere", worker.name, code, len(freed)
            )
            await self._progress.look()
        except JournalError as error:
            return self._halt(f"worker {worker.name} died, and its episodes cannot be freed: {error}")
        self._barren = (
            0 if self._progress.state.turns + self._progress.state.ended > progressed else self._barren + 1
        )
        if self._barren >= BARREN:
            return self._halt(
                f"{self._barren} workers in a row died (exit code {code}) without any progress of the run"
            )
        await first_of(self._clock.sleep(min(LONGEST_PAUSE_S, PAUSE_S * self._barren)), self._draining.wait())

    async def _look(self) -> None:
        """Keep the progress current, and kill workers that others took for dead, or that hold others up."""
        stuck = 0
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                changed = await self._progress.look()
                self._barren = 0 if changed else self._barren
                beats = await self._journal.look(living)
            except JournalError as error:
                logger.warning("the progress cannot be read: %s", error)
                continue
            holder = write_lock_holder(self._progress.journal_file)
            stuck = stuck + 1 if holder in self.pids.values() and not changed else 0
            for worker in list(self._alive.values()):
                if stuck >= GONE_LOOKS and worker.process.pid == holder:
                    logger.error("worker %s stopped responding while it was writing", worker.name)
                    _signal(worker, signal.SIGKILL)
                worker.joined = worker.joined or worker.name in beats
                worker.missing = 0 if worker.name in beats else worker.missing + worker.joined
                if worker.missing == GONE_LOOKS:  # else it may be ending
                    logger.error("worker %s stopped responding", worker.name)
                    _signal(worker, signal.SIGKILL)

    def _halt(self, reason: str) -> None:
        self.halted = self.halted or reason
        self.drain()


def write_lock_holder(journal: Path) -> int | None:
    """The process that is writing an embedded journal, as Linux tells it; ``None`` where none is known."""
    try:
        inode = os.stat(f"{journal}-shm").st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        kind, *_, mode, pid, file, first, last = line.split()[-7:]
        if (kind, mode) == ("POSIX", "WRITE") and file.endswith(f":{inode}"):
            if int(first) <= WRITE_LOCK and (last == "EOF" or WRITE_LOCK <= int(last)):
                return int(pid)
    return None


def _signal(worker: _WorkerProcess, number: int) -> None:
    with suppress(ProcessLookupError):
        worker.process.send_signal(number)
