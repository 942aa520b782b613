"""Play a run in a folder by worker processes (``spectator rollouts worker``).

This process plays nothing. It keeps the workers running, and shows the run's progress from its record.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.errors import FailureClass
from spectator.journal.outline import OwnCount
from spectator.journal.ownership import INTERVAL_S
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import FleetReport, OnBegin, RunningFleet, opened_run
from spectator.rollouts.fleet_plan import IN_FOLDER, FleetPlan
from spectator.runs.interactor import EpisodeResult, InFlight, RunReport, RunState
from spectator.runs.leased_log import Heartbeat
from spectator.runs.run_folder import JOURNAL, RunFolder
from spectator.runs.run_plan import Attempt, RunPlan, progress
from spectator.runs.run_records import FollowedEpisode, RunTail
from spectator.runs.scheduler import leases_of
from spectator.runs.worker_processes import WorkerProcesses

COMMAND: Final = (sys.executable, "-m", "spectator.cli", "rollouts", "worker")
"""The command that starts a worker."""


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
        folder: The run's folder; created if missing.
        workers: Worker processes, at least 1.
        concurrency: Episodes at once over all workers, at least 1.
        load: Finds the world; workers find it by themselves.
        command: Starts a worker; the folder and options are added.
        interval_s: Seconds between two heartbeats of this process.
        on_begin: Called once, after the first look at what remains.

    Raises:
        ValueError: A number is out of range.
        InvalidRequest: A field is invalid, or the folder holds another run.
        ConfigurationError: Another process has the journal for itself, or the environment's server is
            unreachable.
        JournalError: The journal cannot be written.
    """
    if workers < 1 or concurrency < 1:
        raise ValueError("workers and concurrency must be at least 1")
    async with opened_run(folder, plan, clock, load, rng) as (_, journal, planned):
        progressing = RecordedProgress(planned.run, plan, folder, journal, clock)
        await progressing.look()
        left = progressing.state.total - progressing.state.over
        size = max(1, min(workers, concurrency, left))
        each = [*command, str(folder), "--concurrency", str(-(-concurrency // size))]
        supervisor = WorkerProcesses(each, size, journal, folder / JOURNAL, progressing, clock)
        on_begin(RunningFleet(progressing.state, supervisor))
        with Heartbeat(leases_of(journal), clock, interval_s):
            if left:
                await supervisor.run()
        return await progressing.report(supervisor.halted)


class RecordedProgress:
    """The progress of a run, read from its record by :meth:`look`."""

    def __init__(
        self, run: RunPlan, plan: FleetPlan, folder: Path, journal: SqlJournal, clock: Clock
    ) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        attempts = plan.request.attempts
        self._tail = RunTail(RunFolder(folder.name, folder, attempts=attempts), journal, IN_FOLDER)
        self._before: set[str] | None = None
        self._turns: dict[str, int] = {}
        self._numbers: dict[int, dict[str, int]] = {}
        deadline_s = plan.request.model.timeout_s
        self.state = RunState(len(run.jobs), 0, clock.monotonic(), deadline_s=deadline_s)
        self.in_flight: list[InFlight] = []

    @property
    def steps(self) -> int:
        """Decisions and ends that were recorded since this process began."""
        return self.state.turns + self.state.ended

    async def look(self) -> bool:
        """Read what is new since the last look; return whether anything is.

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
        """Return the results of the run since this process began.

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
        state.ended, state.again = len(ended), sum(one.again for one in ended)
        state.settled = state.ended - state.again
        state.ended_turns = sum(one.turns for one in ended)
        state.rewards = array("d", [one.reward for one in ended if one.reward is not None])
        state.penalised = sum(one.penalised for one in ended)
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
        own = one.own or OwnCount()
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
            decisions=own.asked,
            own=own.own,
            refusals=own.refused,
            penalised=one.penalised,
        )
