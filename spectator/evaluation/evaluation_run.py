"""Run an evaluation: play the matches that are missing from its journal, and measure all of them.

It can be killed at any moment and run again, and several processes can run it together. If a model does not
answer or a cap is reached, it stops at once; the same command plays the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ulid import ULID

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.errors import ConfigurationError, FieldError, InvalidRequest, JournalError, failure_of_end
from spectator.evaluation.cross_table import looking_at
from spectator.evaluation.figure_store import FILE, FigureStore
from spectator.evaluation.figures import EVALUATION, EpisodeFigures
from spectator.evaluation.match_player import MatchPlayer, measure, plays_anywhere
from spectator.evaluation.schedule import JOURNAL, Schedule, ScheduledMatch, identity, keep_manifest
from spectator.evaluation.sequential import StoppingRule, follow
from spectator.journal.coordination import FleetRow, FleetRuns, rows
from spectator.journal.postgres import telling
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.interactor import InFlight, RunState
from spectator.runs.leased_log import PATIENCE_S, Heartbeat, LeasedLog
from spectator.runs.run_plan import RunPlan, progress
from spectator.runs.scheduler import Scheduler, SpendCaps, leases_of, shared_ledger
from spectator.runs.worker_processes import LOOK_S, WorkerProcesses

Report = Callable[[int, int], None]
"""Called with the number of finished matches and the total, at the start and after each change."""

NO_CAPS: Final[SpendCaps] = (Caps(), Caps(), Caps())

COMMAND: Final = (sys.executable, "-m", "spectator.cli", "evaluate")
"""Command of a worker process; the folder and a name are added."""

ALONE_S: Final = 1.0
"""Seconds that this process plays alone: a worker takes as long to start, and 0.5 s of CPU."""

WORTH_S: Final = 2.0
"""Workers are started if this process would need more than these seconds for the rest."""


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run in PostgreSQL, so that several machines can play one evaluation.

    Args:
        url: URL of the journal.
        options: Command-line options that select the run, for worker processes.
    """

    url: str
    name: str
    options: Sequence[str] = ()

    @property
    def run_id(self) -> str:
        """Id of the run, with the prefix of evaluations."""
        return EVALUATION + self.name


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a run.

    Args:
        found: The figures of every finished match.
        cut_short: Why matches are missing; ``None`` if all are finished.
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
    shared: SharedRun | None = None,
) -> Played:
    """Play the remaining matches of ``schedule``, and measure all of them.

    Matches with language models, and with captains that only this process knows, are played in this process.
    The others are also played by worker processes, if enough of them remain.

    Args:
        folder: The evaluation's folder; created if missing.
        jobs: Matches at once, at least 1: concurrent matches with models, or else processes.
        caps: Limits of model usage; earlier runs in the folder count.
        on_begin: Called with the ledger once earlier usage is known.
        rng: Draws waits; the matches do not depend on it.
        shared: The run in a database; ``None`` records in the folder.

    Raises:
        InvalidRequest: The folder, or the run, belongs to another evaluation.
        ConfigurationError: Another process has locked the journal.
        JournalError: The journal cannot be written.
    """
    now_ms, store = int(clock.now().timestamp() * 1000), FigureStore(folder / FILE)
    anywhere = {number for number, job in enumerate(schedule.jobs) if plays_anywhere(job, schedule.world)}
    row = await asyncio.to_thread(_row_of, schedule, anywhere, folder, shared, now_ms)
    async with _opened(folder, shared, clock) as (journal, log):
        row = await _keep_row(journal, row)
        if shared is not None:
            await asyncio.to_thread(keep_manifest, folder, schedule, row.began_ms, row.name)
        run = schedule.run(row.began_ms, row.name)
        due = await progress(journal, run, run_id=run.run_id)
        matches = RecordedMatches(journal, run, len(due.over), report)
        reason = None
        if due.remaining:
            rng = rng or random.SystemRandom()
            playing = _Playing(schedule, folder, run, journal, log, clock, rng, jobs, matches, store, shared)
            with Heartbeat(leases_of(journal), clock):
                limits = caps if schedule.paid else NO_CAPS
                ledger = await shared_ledger(row.name, limits, journal, log, clock)
                on_begin(ledger)
                reason = await playing.play(ledger, {one.number for one in due.remaining}, anywhere)
            due = await progress(journal, run, run_id=run.run_id)
        found = await _measured(schedule, due.over, journal, store)
        matches.report_over(len(found))
        if not due.remaining:
            return Played(found)
        return Played(found, reason or f"{len(due.remaining)} matches are played by other processes")


async def run_by_rule(
    schedule: Schedule, rule: StoppingRule, play: Callable[[Schedule], Awaitable[Played]], folder: Path
) -> tuple[Schedule, Played]:
    """Play an evaluation until its rule stops it; the same results give the same decisions.

    Args:
        schedule: All matches that the rule may choose from.
        rule: When it stops, and who plays next.
        play: Plays the remaining matches of a schedule; see :func:`run_evaluation`.
        folder: The evaluation's folder, whose stored figures save reading its journal for each decision.

    Returns:
        The matches that were chosen, and their figures.
    """
    found = await asyncio.to_thread(_stored, schedule, folder)
    while True:
        path = follow(rule, schedule.compared, looking_at(schedule, found))
        chosen = schedule.part(path.planned)
        played = await play(chosen)
        if path.finished or played.cut_short is not None:
            return chosen, played
        found = played.found


def _stored(schedule: Schedule, folder: Path) -> Mapping[ScheduledMatch, EpisodeFigures]:
    """The stored figures of the matches of ``schedule``."""
    if not (folder / FILE).exists():
        return {}
    stored: dict[tuple[int, str, str | None], EpisodeFigures] = {}
    for one in FigureStore(folder / FILE).load():
        away = one.seats[1].captain if schedule.world.opponents else None
        stored[one.seed, one.seats[0].captain, away] = one
    keys = ((match, (match.seed, match.home, match.away)) for match in schedule.matches)
    return {match: stored[key] for match, key in keys if key in stored}


def _row_of(
    schedule: Schedule, anywhere: set[int], folder: Path, shared: SharedRun | None, now_ms: int
) -> FleetRow:
    """The run as other processes see it; writes or checks the folder's manifest if it is not shared."""
    plan = json.dumps({"evaluation": identity(schedule), "schedule": schedule.only(anywhere).to_json()})
    if shared is not None:
        return FleetRow(shared.run_id, plan, now_ms)
    kept = keep_manifest(folder, schedule, now_ms)
    return FleetRow(kept.run_id, plan, kept.began_ms)


async def play_as_worker(
    folder: Path, name: str, *, clock: Clock, rng: random.Random, shared: SharedRun | None = None
) -> str | None:
    """Play an evaluation's matches between scripted captains, in a worker process.

    Args:
        folder: The evaluation's folder.
        name: Name of this process in the journal.
        rng: Draws waits.
        shared: The run in a database; ``None`` reads the folder's journal.

    Returns:
        Why it stopped early; ``None`` if nothing remains.

    Raises:
        InvalidRequest: This process has another version of the world.
        ConfigurationError: There is no evaluation, or another process has locked the journal.
        JournalError: The journal cannot be written.
    """
    stop = asyncio.current_task()
    assert stop is not None
    async with _opened(folder, shared, clock, name) as (journal, log):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.cancel)
        run_id = None if shared is None else shared.run_id
        found = await journal.look(lambda connection: rows(connection, run_id))
        if not found:
            raise ConfigurationError(f"{folder} does not contain an evaluation; start one first")
        row = found[-1]
        schedule = Schedule.from_json(json.loads(row.plan)["schedule"], load_world)
        run = schedule.run(row.began_ms, row.name)
        ledger = SpendLedger(Caps(), Caps(), clock)
        player = MatchPlayer(run, schedule.world, log, clock, ledger, FigureStore(folder / FILE))
        state = RunState(len(run.jobs), 0, clock.monotonic())
        scheduler = Scheduler(run, journal, log, player, clock, rng, concurrency=1, state=state)
        with Heartbeat(leases_of(journal), clock):
            await scheduler.play(ledger)
        return player.halt.reason or scheduler.left


class RecordedMatches:
    """The recorded progress of an evaluation; a :class:`~spectator.runs.worker_processes.RunProgress`.

    Args:
        run: The matches.
        over: Finished matches at the start.
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
        """Finished matches."""
        self.in_flight: list[InFlight] = []
        report(over, len(run.jobs))

    @property
    def steps(self) -> int:
        """Events recorded since this process started watching."""
        return sum(self._heads.values())

    async def look(self) -> bool:
        """Read the changes since the last call; return whether there were any.

        Raises:
            JournalError: The journal cannot be read.
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
        """Report the number of finished matches, if it changed."""
        if over != self.over:
            self.over = over
            self._report(over, len(self._run.jobs))


@dataclass(frozen=True, slots=True)
class _Playing:
    """Plays the remaining matches, in this process and in worker processes."""

    schedule: Schedule
    folder: Path
    run: RunPlan
    journal: SqlJournal
    log: LeasedLog
    clock: Clock
    rng: random.Random
    jobs: int
    matches: RecordedMatches
    store: FigureStore
    shared: SharedRun | None

    async def play(self, ledger: SpendLedger, remaining: set[int], anywhere: set[int]) -> str | None:
        """Play ``remaining`` matches; return why some were not played, if known.

        This process plays the matches that only it can play; if there are none, it shares the others.
        """
        here = remaining - anywhere
        jobs = [job for number, job in enumerate(self.run.jobs) if not here or number not in anywhere]
        part = replace(self.run, jobs=jobs)
        finished = len({*range(len(self.run.jobs))} - remaining - anywhere)
        player = MatchPlayer(part, self.schedule.world, self.log, self.clock, ledger, self.store, finished)
        scheduler = Scheduler(
            part, self.journal, self.log, player, self.clock, self.rng,
            concurrency=self.jobs if here else 1, state=RunState(len(jobs), 0, self.clock.monotonic()),
        )  # fmt: skip
        most = min(self.jobs, os.cpu_count() or 1) if here else self.jobs - 1
        others = min(most, len(remaining & anywhere))
        options, file = ((), self.folder / JOURNAL) if self.shared is None else (self.shared.options, None)
        command = [*COMMAND, "--out", str(self.folder), *options]
        workers = WorkerProcesses(command, others, self.journal, file, self.matches, self.clock)
        wait_s = 0.0 if here else ALONE_S
        playing = asyncio.create_task(self._all(scheduler, workers, ledger, wait_s))
        halted = asyncio.create_task(player.halt.wait())
        try:
            await asyncio.wait({playing, halted}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():  # stop at once: unfinished matches are resumed later
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
            await self.matches.look()
            if workers.pids and self.matches.over < len(self.run.jobs):
                await helping
        finally:
            helping.cancel()
            with suppress(asyncio.CancelledError):
                await helping

    async def _help(self, workers: WorkerProcesses, wait_s: float) -> None:
        """Report the progress, and start worker processes if enough matches remain."""
        before, began_s, total = self.matches.over, self.clock.monotonic(), len(self.run.jobs)
        await self.matches.look()
        while True:
            over, left = self.matches.over - before, total - self.matches.over
            took_s = self.clock.monotonic() - began_s
            if workers.workers and took_s >= wait_s and (not over or left * took_s / over > WORTH_S):
                return await workers.run()
            await self.clock.sleep(LOOK_S)
            with suppress(JournalError):
                await self.matches.look()


@asynccontextmanager
async def _opened(
    folder: Path, shared: SharedRun | None, clock: Clock, name: str | None = None
) -> AsyncIterator[tuple[SqlJournal, LeasedLog]]:
    """Open the journal of an evaluation, shared with other processes, and a log to record into it."""
    url = f"sqlite:///{folder / JOURNAL}" if shared is None else shared.url
    name = name or f"evaluation-{os.getpid()}-{str(ULID())[-6:]}"
    journal = await SqlJournal.open(url, shared_as=name)
    try:
        if shared is None:
            yield journal, LeasedLog(journal, clock, 0.0)
        else:
            async with telling(url, clock) as recorded:
                yield journal, LeasedLog(journal, clock, PATIENCE_S, recorded)
    finally:
        await journal.aclose()


async def _keep_row(journal: SqlJournal, row: FleetRow) -> FleetRow:
    """Store the run with the matches for workers, or check that it is the same evaluation.

    Raises:
        InvalidRequest: It is another evaluation; the message names the differences.
    """
    runs = FleetRuns(journal)
    kept = await runs.begin(row)
    if kept.plan != row.plan:
        then, now = json.loads(kept.plan).get("evaluation", {}), json.loads(row.plan)["evaluation"]
        if shown := "; ".join(
            f"{key} {then.get(key)!r}, now {now[key]!r}" for key in now if then.get(key) != now[key]
        ):
            rule = f"{row.name} is another evaluation ({shown}); choose another name"
            raise InvalidRequest([FieldError("run", rule)])
        await runs.change(row.name, row.plan)
    return kept


async def _measured(
    schedule: Schedule, over: Mapping[int, str], journal: SqlJournal, store: FigureStore
) -> dict[ScheduledMatch, EpisodeFigures]:
    """The figures of the finished matches; those that were not kept are measured now."""
    known = {one.episode_id: one for one in await asyncio.to_thread(store.load)} if over else {}
    return {
        schedule.matches[number]: known.get(episode_id) or await measure(episode_id, journal, store)
        for number, episode_id in over.items()
    }
