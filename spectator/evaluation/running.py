"""Runs a whole evaluation: plays the matches that its journal does not hold yet, and measures all of them.

It can be killed at any moment and run again, and several processes can run it together. Where a model cannot
be asked, or nothing more may be spent, it stops at once; the same command plays the rest.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ulid import ULID

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.errors import ConfigurationError, JournalError
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.folder import JOURNAL, keep_manifest
from spectator.evaluation.matches import MatchPlayer, measure, plays_anywhere
from spectator.evaluation.schedule import Schedule, ScheduledMatch
from spectator.evaluation.store import FILE, FigureStore
from spectator.failures import failure_of_end
from spectator.journal.stores.fleet_runs import FleetRow, FleetRuns, rows
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.heartbeat import Heartbeat
from spectator.runs.in_flight import InFlight
from spectator.runs.jobs import RunPlan
from spectator.runs.leased_log import LeasedLog
from spectator.runs.owed import progress
from spectator.runs.progress import FleetState
from spectator.runs.scheduler import Scheduler, SpendCaps, leases_of, shared_ledger
from spectator.runs.worker_processes import LOOK_S, WorkerProcesses

Report = Callable[[int, int], None]
"""Called with the matches that are over and with all, at the beginning and as more are."""

NO_CAPS: Final[SpendCaps] = (Caps(), Caps(), Caps())

COMMAND: Final = (sys.executable, "-m", "spectator.cli", "evaluate")
"""What worker processes are started with; the folder and a name are added."""

ALONE_S: Final = 2.0
"""Seconds that this process plays alone: others take nearly as long to start."""

WORTH_S: Final = 4.0
"""Seconds that this process would need for the rest, above which others are started."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a run came to.

    Args:
        found: The figures of every match that is over.
        cut_short: Why the others are not; ``None`` when there are none.
    """

    found: Mapping[ScheduledMatch, EpisodeFigures]
    cut_short: str | None = None


async def run_evaluation(
    schedule: Schedule,
    folder: Path,
    *,
    jobs: int,
    clock: Clock,
    report: Report,
    caps: SpendCaps = NO_CAPS,
    on_begin: Callable[[SpendLedger], None] = lambda ledger: None,
    rng: random.Random | None = None,
) -> Played:
    """Play what remains of ``schedule``, and measure everything.

    Matches of language models, and of captains that only this process knows, are played in this process.
    Others are played in worker processes too, once that is worth starting them.

    Args:
        schedule: What is to be played.
        folder: Where the evaluation is kept; made when it is not there.
        jobs: Matches at once: as many that wait for models in this process, or as many processes; at least 1.
        clock: Time.
        report: Called with the progress.
        caps: What asking models may take; earlier runs in the folder count.
        on_begin: Called with what was and is spent, once it is known.
        rng: Draws waits; what is played does not depend on it.

    Raises:
        InvalidRequest: The folder holds another evaluation.
        ConfigurationError: A process that writes alone has its journal.
        JournalError: It cannot be written.
    """
    kept = await asyncio.to_thread(keep_manifest, folder, schedule, int(clock.now().timestamp() * 1000))
    run = schedule.run(kept.began_ms, kept.run_id)
    store = FigureStore(folder / FILE)
    async with _opened(folder, f"evaluation-{os.getpid()}-{str(ULID())[-6:]}") as journal:
        due = await progress(journal, run)
        matches = RecordedMatches(journal, run, len(due.over), report)
        reason = None
        if due.owed:
            anywhere = {number for number, job in enumerate(run.jobs) if plays_anywhere(job, schedule.world)}
            await _keep(journal, kept.run_id, kept.began_ms, schedule.only(anywhere))
            playing = _Playing(
                schedule, folder, run, journal, clock, rng or random.SystemRandom(), jobs, matches, store
            )
            with Heartbeat(leases_of(journal), clock):
                ledger = await shared_ledger(
                    kept.run_id, caps if schedule.paid else NO_CAPS, journal, playing.log, clock
                )
                on_begin(ledger)
                remaining = {one.number for one in due.owed}
                reason = await playing.play(ledger, remaining, anywhere)
            due = await progress(journal, run)
        found = await _measured(schedule, due.over, journal, store)
        matches.report_over(len(found))
        if not due.owed:
            return Played(found)
        return Played(found, reason or f"{len(due.owed)} matches are played by other processes")


async def play_as_worker(folder: Path, name: str, *, clock: Clock, rng: random.Random) -> str | None:
    """Be a worker process of the evaluation in ``folder``: play its matches of scripted captains.

    Args:
        folder: The evaluation's.
        name: What this process is called in the journal.
        clock: Time.
        rng: Draws waits.

    Returns:
        Why it cannot play on; ``None`` when nothing remains.

    Raises:
        InvalidRequest: The world in this process is of another version.
        ConfigurationError: There is no evaluation, or a process that writes alone has its journal.
        JournalError: Its journal cannot be written.
    """
    stop = asyncio.current_task()
    assert stop is not None
    async with _opened(folder, name) as journal:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.cancel)
        found = await journal.look(rows)
        if not found:
            raise ConfigurationError(f"{folder} holds no evaluation to join; start it first")
        row = found[-1]
        schedule = Schedule.from_json(row.plan, load_world)
        run = schedule.run(row.began_ms, row.name)
        ledger, log = SpendLedger(*NO_CAPS[:2], clock), LeasedLog(journal, clock, 0.0)
        player = MatchPlayer(run, schedule.world, log, clock, ledger, FigureStore(folder / FILE))
        state = FleetState(len(run.jobs), 0, clock.monotonic())
        scheduler = Scheduler(run, journal, log, player, clock, rng, concurrency=1, state=state)
        with Heartbeat(leases_of(journal), clock):
            await scheduler.play(ledger)
        return player.halt.reason or scheduler.left


class RecordedMatches:
    """How far an evaluation is, by its record; see :class:`~spectator.runs.worker_processes.RunProgress`.

    Args:
        journal: The record.
        run: The matches.
        over: How many are over.
        report: Called with the progress.
    """

    def __init__(self, journal: SqlJournal, run: RunPlan, over: int, report: Report) -> None:
        self._journal = journal
        self._run = run
        self._report = report
        self._mark: int | None = None
        self._heads: dict[str, int] = {}
        self._ended: set[str] = set()
        self._began = over
        self.over = over
        """Matches that are over."""
        self.in_flight: list[InFlight] = []
        report(over, len(run.jobs))

    @property
    def steps(self) -> int:
        """Events that were recorded while this process looked."""
        return sum(self._heads.values())

    async def look(self) -> bool:
        """Take in what came since the last look; whether anything did.

        Raises:
            JournalError: The record cannot be read.
        """
        begun = self._mark is not None
        found = await self._journal.news(self._mark, self._run.run_id)
        self._mark = found.mark
        for one in found.episodes:
            self._heads[one.row["episode_id"]] = one.head_seq
            if begun and one.row["reason"] is not None:
                failure = failure_of_end({"reason": one.row["reason"]})
                if self._run.policy.after(failure, one.row["attempt"] or 1) == "keep":
                    self._ended.add(one.row["episode_id"])
        self.report_over(min(self._began + len(self._ended), len(self._run.jobs)))
        return bool(found.episodes)

    def report_over(self, over: int) -> None:
        """Report how many matches are over, where that is news."""
        if over != self.over:
            self.over = over
            self._report(over, len(self._run.jobs))


class _Playing:
    """Plays what remains of an evaluation, in this process and in others."""

    def __init__(
        self,
        schedule: Schedule,
        folder: Path,
        run: RunPlan,
        journal: SqlJournal,
        clock: Clock,
        rng: random.Random,
        jobs: int,
        matches: RecordedMatches,
        store: FigureStore,
    ) -> None:
        self._schedule = schedule
        self._folder = folder
        self._run = run
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._jobs = jobs
        self._matches = matches
        self._store = store
        self.log = LeasedLog(journal, clock, 0.0)

    async def play(self, ledger: SpendLedger, remaining: set[int], anywhere: set[int]) -> str | None:
        """Play ``remaining`` matches; why some were not played, where it is known.

        This process plays those that only it can play, or else takes part in the others.
        """
        here = remaining - anywhere
        jobs = [job for number, job in enumerate(self._run.jobs) if not here or number not in anywhere]
        part = replace(self._run, jobs=jobs)
        player = MatchPlayer(part, self._schedule.world, self.log, self._clock, ledger, self._store)
        scheduler = Scheduler(
            part, self._journal, self.log, player, self._clock, self._rng,
            concurrency=self._jobs if here else 1, state=FleetState(len(jobs), 0, self._clock.monotonic()),
        )  # fmt: skip
        most = min(self._jobs, os.cpu_count() or 1) if here else self._jobs - 1
        others = min(most, len(remaining & anywhere))
        workers = WorkerProcesses(
            [*COMMAND, "--out", str(self._folder)], others, self._journal, self._folder / JOURNAL,
            self._matches, self._clock,
        )  # fmt: skip
        wait_s = 0.0 if here else ALONE_S
        playing = asyncio.create_task(self._all(scheduler, workers, ledger, wait_s))
        halted = asyncio.create_task(player.halt.wait())
        try:
            await asyncio.wait({playing, halted}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():  # stop at once: what is being played is resumed later
                playing.cancel()
            await asyncio.wait({playing})
            if not playing.cancelled():
                playing.result()
        finally:
            halted.cancel()
            playing.cancel()
            await asyncio.gather(playing, halted, return_exceptions=True)
        return player.halt.reason or workers.halted or scheduler.left

    async def _all(
        self, scheduler: Scheduler, workers: WorkerProcesses, ledger: SpendLedger, wait_s: float
    ) -> None:
        helping = asyncio.create_task(self._help(workers, wait_s))
        try:
            await scheduler.play(ledger)
            await self._matches.look()
            if workers.pids and self._matches.over < len(self._run.jobs):
                await helping
        finally:
            helping.cancel()
            with suppress(asyncio.CancelledError):
                await helping

    async def _help(self, workers: WorkerProcesses, wait_s: float) -> None:
        """Report the progress, and start worker processes once they are worth it."""
        before, began_s, total = self._matches.over, self._clock.monotonic(), len(self._run.jobs)
        await self._matches.look()
        while True:
            over, left = self._matches.over - before, total - self._matches.over
            took_s = self._clock.monotonic() - began_s
            if workers.workers and took_s >= wait_s and (not over or left * took_s / over > WORTH_S):
                return await workers.run()
            await self._clock.sleep(LOOK_S)
            with suppress(JournalError):
                await self._matches.look()


@asynccontextmanager
async def _opened(folder: Path, name: str) -> AsyncIterator[SqlJournal]:
    """The journal of the evaluation in ``folder``, to be written beside others."""
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}", shared_as=name)
    try:
        yield journal
    finally:
        await journal.aclose()


async def _keep(journal: SqlJournal, name: str, began_ms: int, schedule: Schedule) -> None:
    """Keep the matches that workers may play."""
    runs, plan = FleetRuns(journal), schedule.to_json()
    kept = await runs.begin(FleetRow(name, plan, began_ms))
    if kept.plan != plan:
        await runs.change(name, plan)


async def _measured(
    schedule: Schedule, over: Mapping[int, str], journal: SqlJournal, store: FigureStore
) -> dict[ScheduledMatch, EpisodeFigures]:
    """The figures of the matches that are over: measured when they ended, or read again."""
    known = {one.episode_id: one for one in await asyncio.to_thread(store.load)} if over else {}
    return {
        schedule.matches[number]: known.get(episode_id) or await measure(episode_id, journal, store)
        for number, episode_id in over.items()
    }
