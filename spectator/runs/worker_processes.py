"""Worker processes of a run: each runs the same command, which leases remaining episodes and plays them.

The process that starts them replaces those that die and kills those that stall.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from spectator.clock import Clock, first_of
from spectator.errors import JournalError
from spectator.journal.ownership import living
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.interactor import InFlight
from spectator.runs.scheduler import leases_of

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""Seconds between two looks at the record and at the workers."""

MISSED_LOOKS: Final = 10
"""Looks after which a worker is killed that was deposed and has not exited."""

PAUSE_S: Final = 0.2
"""Seconds before a worker is replaced, times the deaths in a row without progress."""

LONGEST_PAUSE_S: Final = 5.0

FRUITLESS_DEATHS: Final = 10
"""Deaths in a row without any progress after which the run is halted."""

STOP_S: Final = 10.0
"""Seconds that a worker may take to exit when asked to."""

HALTED: Final = 3
"""Exit code of a worker that cannot continue."""

HALTED_LINE: Final = "halted: "
"""Prefix of the line on standard error that gives the reason."""

WRITE_LOCK: Final = 120
"""The byte of SQLite's shared memory file whose lock a writer holds (SQLite's WAL format, section 2.3.2)."""

LEFT: Final = frozenset({0, 1, 130, 143})
"""Exit codes of workers that found nothing left to play or were asked to exit."""


class RunProgress(Protocol):
    """The progress of a run, read from its record."""

    @property
    def steps(self) -> int:
        """Steps recorded so far; a look that finds anything new increases it."""

    @property
    def in_flight(self) -> list[InFlight]:
        """Episodes that are being played, oldest first."""

    async def look(self) -> bool:
        """Read what is new since the last look; return whether anything is.

        Raises:
            JournalError: The record cannot be read.
        """


@dataclass(slots=True)
class _WorkerProcess:
    """A worker.

    Args:
        joined: Whether it was seen in the journal.
        missing: Looks in a row at which it had disappeared from there.
        halted: Why it cannot continue, once it said so.
    """

    name: str
    number: int
    process: asyncio.subprocess.Process
    joined: bool = False
    missing: int = 0
    halted: str = "a worker could not continue"


class WorkerProcesses:
    """Keeps worker processes running; see :class:`~.interactor.EpisodesInPlay`.

    Args:
        command: Starts a worker; its name is added.
        size: Workers at once, at least 1.
        journal_file: Its file; ``None`` for a database server.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        journal: SqlJournal,
        journal_file: Path | None,
        progress: RunProgress,
        clock: Clock,
    ) -> None:
        self._command = command
        self._ownership = leases_of(journal)
        self._journal = journal
        self._journal_file = journal_file
        self._progress = progress
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
        """Process ids of the running workers, by name."""
        return {name: worker.process.pid for name, worker in self._alive.items()}

    def drain(self) -> None:
        """Finish the episodes in play and start no more."""
        if not self._draining.is_set():
            self._draining.set()
            for worker in self._alive.values():
                _signal(worker, signal.SIGINT)

    async def run(self) -> None:
        """Keep workers running until nothing remains that they can play, or the run is halted."""
        looking = asyncio.create_task(self._look())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self.workers):
                    tasks.create_task(self._keep())
        finally:
            looking.cancel()

    async def _keep(self) -> None:
        """Keep one worker running, and replace it when it dies."""
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
        """Wait until a worker exits, and log its output; return the exit code."""
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
        """Stop a worker; its episodes are resumed later."""
        _signal(worker, signal.SIGTERM)
        try:
            await asyncio.wait_for(worker.process.wait(), STOP_S)
        except TimeoutError:
            _signal(worker, signal.SIGKILL)
            await worker.process.wait()

    async def _replace(self, worker: _WorkerProcess, code: int) -> None:
        """Let others resume the episodes of a worker that died."""
        progressed = self._progress.steps
        try:
            freed = await self._ownership.depose(worker.name)
            logger.warning(
                "worker %s died (exit code %d); other workers resume its %d episodes",
                worker.name,
                code,
                len(freed),
            )
            await self._progress.look()
        except JournalError as error:
            return self._halt(f"worker {worker.name} died, and its episodes cannot be freed: {error}")
        self._barren = 0 if self._progress.steps > progressed else self._barren + 1
        if self._barren >= FRUITLESS_DEATHS:
            return self._halt(
                f"{self._barren} workers in a row died (exit code {code}) without any progress of the run"
            )
        await first_of(self._clock.sleep(min(LONGEST_PAUSE_S, PAUSE_S * self._barren)), self._draining.wait())

    async def _look(self) -> None:
        """Keep the progress current, and kill workers that were deposed or that block others."""
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
            holder = None if self._journal_file is None else write_lock_holder(self._journal_file)
            stuck = stuck + 1 if holder in self.pids.values() and not changed else 0
            for worker in list(self._alive.values()):
                if stuck >= MISSED_LOOKS and worker.process.pid == holder:
                    logger.error("worker %s stopped responding while it was writing", worker.name)
                    _signal(worker, signal.SIGKILL)
                worker.joined = worker.joined or worker.name in beats
                worker.missing = 0 if worker.name in beats else worker.missing + worker.joined
                if worker.missing == MISSED_LOOKS:  # before that, it may be exiting
                    logger.error("worker %s stopped responding", worker.name)
                    _signal(worker, signal.SIGKILL)

    def _halt(self, reason: str) -> None:
        self.halted = self.halted or reason
        self.drain()


def write_lock_holder(journal: Path) -> int | None:
    """Return the process that is writing an SQLite journal, by ``/proc/locks``; ``None`` if unknown."""
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


def end_with_parent() -> None:
    """Wait until the parent process is gone, then exit at once; for a thread of a worker."""
    while os.read(0, 1):
        continue
    os._exit(1)
