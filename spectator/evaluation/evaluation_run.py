"""Run an evaluation: play the matches that its journal lacks, and measure all.

It can be killed at any moment and run again, and several processes can run it together. Where a model cannot
be asked, or nothing more may be spent, it stops at once; the same command plays the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ulid import ULID

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.recorded_calls import spent_in
from spectator.errors import (
    ConfigurationError,
    FieldError,
    InvalidRequest,
    JournalError,
    SpectatorError,
    failure_of_end,
)
from spectator.evaluation.figures import EVALUATION, FILE, EpisodeFigures, FigureStore, figures_of
from spectator.evaluation.schedule import JOURNAL, Schedule, ScheduledMatch, identity, keep_manifest
from spectator.journal.contract import EpisodeLog
from spectator.journal.coordination import FleetRow, FleetRuns, rows
from spectator.journal.postgres import telling
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import Preset
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.runs.actors import ActorHandle
from spectator.runs.attempts import EpisodeSetup, Halt, HaltingRule, play_episode, resume
from spectator.runs.interactor import InFlight, RunState
from spectator.runs.leased_log import PATIENCE_S, Heartbeat, LeasedLog
from spectator.runs.run_plan import Attempt, Job, RunPlan, progress
from spectator.runs.scheduler import Handle, Result, Scheduler, SpendCaps, leases_of, result_of, shared_ledger
from spectator.runs.worker_processes import LOOK_S, WorkerProcesses
from spectator.steppers.local import on_a_thread, preferred_stepper


class MatchBudget:
    """Lets a match that costs money begin only while what is left would finish it and those being played.

    What a match takes is the mean of those that have ended; until one has, one is played alone. Only a cap of
    the whole is considered: without one, every match may begin.

    Args:
        ledger: What may be spent.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self._ledger = ledger
        self._changed = asyncio.Condition()
        self._playing = 0
        self._ended = 0
        self._spent = Spent()

    async def begin(self, *, begun: bool) -> str | None:
        """Wait until a match may begin, or be resumed; ``None``, or why none may any more.

        Args:
            begun: Whether it was begun before, so that money is in it already.
        """
        async with self._changed:
            while True:
                refusal = self._ledger.refusal() and await self._ledger.reserve()
                if refusal is not None:
                    return refusal
                if self._may_begin(begun):
                    self._playing += 1
                    return None
                if not self._playing:
                    return (
                        f"what is left would not finish an episode: {self._ended} took {self._shown()} each"
                    )
                await self._changed.wait()

    async def end(self, spent: Spent | None) -> None:
        """Note that a match is no longer played: what it spent, ``None`` if it has not ended."""
        async with self._changed:
            self._playing -= 1
            if spent is not None:
                self._ended += 1
                self._spent += spent
            self._changed.notify_all()

    def _may_begin(self, begun: bool) -> bool:
        if not self._ledger.limits_whole:
            return True
        if not self._ended or begun:
            return not self._playing
        return self._ledger.affords(self._mean.times(self._playing + 1))

    @property
    def _mean(self) -> Spent:
        return self._spent.times(1 / max(1, self._ended))

    def _shown(self) -> str:
        mean = self._mean
        money = f" and US${mean.cost:.4g}" if mean.cost else ""
        return f"{mean.tokens:,} tokens{money}"


class MatchPlayer:
    """Plays attempts at the matches of an evaluation; see :class:`~spectator.runs.scheduler.AttemptPlayer`.

    Args:
        run: The matches.
        world: What is played.
        log: Where they are recorded.
        clock: Time.
        ledger: What asking models may take.
        store: Keeps the figures of those that are over.
    """

    def __init__(
        self,
        run: RunPlan,
        world: World,
        log: EpisodeLog,
        clock: Clock,
        ledger: SpendLedger,
        store: FigureStore,
    ) -> None:
        self._run = run
        self._world = world
        self._log = log
        self._clock = clock
        self._store = store
        self._budget = MatchBudget(ledger)
        self.halt = Halt(ledger)

    async def open(self, attempt: Attempt) -> Handle:
        """Open the environment of an attempt, on a thread where it is resumed: that replays all of it."""
        job, world, episode_id = self._run.jobs[attempt.number], self._world, attempt.episode_id
        if attempt.begun:
            stepper = on_a_thread(world, episode_id)
        else:
            stepper = preferred_stepper(world, episode_id, job.options)
        return ActorHandle(
            world.name, episode_id, job.group, "inproc", None, stepper, attempt, attempt.attempt
        )

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt, from its beginning or from where its record stops."""
        attempt, job = handle.job, self._run.jobs[handle.job.number]
        presets = _presets(job, self._world)
        if not any(preset.costs_money for preset in presets):
            return await self._played(handle)
        if (refusal := await self._budget.begin(begun=attempt.begun)) is not None:
            self.halt.because(refusal)
            return result_of(attempt, handle.group_id, None)
        spent = None
        try:
            result = await self._played(handle)
            if result.end_reason is not None:
                spent = spent_in(await self._log.read(attempt.episode_id, checked=False))
        finally:
            await self._budget.end(spent)
        return result

    async def _played(self, handle: Handle) -> Result:
        attempt = handle.job
        venue = EpisodeSetup(
            self._log,
            self._clock,
            lambda name: self._world,
            self.halt.ledger,
            lambda plan: HaltingRule(plan, self.halt),
            lambda world, episode_id: handle.stepper,
        )
        if attempt.begun:
            ended = await resume(await self._log.read(attempt.episode_id, checked=False), venue)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, self._world)
            ended = await play_episode(plan, attempt.episode_id, venue)
        result = result_of(attempt, handle.group_id, ended)
        if ended is not None and self._run.policy.after(result.failure_class, attempt.attempt) == "keep":
            await measure(attempt.episode_id, self._log, self._store)
        return result


async def measure(episode_id: str, journal: EpisodeLog, store: FigureStore) -> EpisodeFigures:
    """Measure a match that is over, and keep its figures.

    Raises:
        JournalError: Its record cannot be read, or has no end; or the figures cannot be kept.
    """
    figures = figures_of(await journal.read(episode_id))
    if figures is None:
        raise JournalError(f"the record of {episode_id} has no end")
    await asyncio.to_thread(store.save, [figures])
    return figures


def plays_anywhere(job: Job, world: World) -> bool:
    """Whether any process can play a match: its captains wait for nothing, and are those of the catalogue.

    Args:
        job: The match.
        world: Its world in this process.
    """
    presets = _presets(job, world)
    if any(preset.source in ("model", "human") for preset in presets):
        return False
    try:
        plain = load_world(job.environment)
    except SpectatorError:
        return False
    known = (*plain.captains.values(), *plain.opponents.values())
    return world.environment is plain.environment and all(one in known for one in presets)


def _presets(job: Job, world: World) -> list[Preset]:
    """Who plays a match."""
    opponents = {**world.captains, **world.opponents}
    return [world.captains[job.captain], *([] if job.opponent is None else [opponents[job.opponent]])]


Report = Callable[[int, int], None]
"""Called with the matches that are over and with all, at the beginning and as more are."""

NO_CAPS: Final[SpendCaps] = (Caps(), Caps(), Caps())

COMMAND: Final = (sys.executable, "-m", "spectator.cli", "evaluate")
"""What worker processes are started with; the folder and a name are added."""

ALONE_S: Final = 1.0
"""Seconds that this process plays alone: another takes as long to start, and 0.5 s of CPU."""

WORTH_S: Final = 2.0
"""Seconds that this process would need for the rest, above which others are started."""


@dataclass(frozen=True, slots=True)
class SharedRun:
    """An evaluation that several machines play: a run in a journal on a database server.

    Args:
        url: The journal.
        name: The run's name there.
        options: The options of the command that name it, for worker processes.
    """

    url: str
    name: str
    options: Sequence[str] = ()

    @property
    def run_id(self) -> str:
        """The run, apart from those of other kinds."""
        return EVALUATION + self.name


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
    shared: SharedRun | None = None,
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
        shared: Where it is recorded, if not in the folder.

    Raises:
        InvalidRequest: The folder, or the run, is of another evaluation.
        ConfigurationError: A process that writes alone has its journal.
        JournalError: It cannot be written.
    """
    now_ms, store = int(clock.now().timestamp() * 1000), FigureStore(folder / FILE)
    anywhere = {number for number, job in enumerate(schedule.jobs) if plays_anywhere(job, schedule.world)}
    plan = json.dumps({"evaluation": identity(schedule), "schedule": schedule.only(anywhere).to_json()})
    if shared is None:
        kept = await asyncio.to_thread(keep_manifest, folder, schedule, now_ms)
        row = FleetRow(kept.run_id, plan, kept.began_ms)
    else:
        row = FleetRow(shared.run_id, plan, now_ms)
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


async def play_as_worker(
    folder: Path, name: str, *, clock: Clock, rng: random.Random, shared: SharedRun | None = None
) -> str | None:
    """Be a worker process of the evaluation in ``folder``: play its matches of scripted captains.

    Args:
        folder: The evaluation's.
        name: What this process is called in the journal.
        clock: Time.
        rng: Draws waits.
        shared: Where it is recorded, if not in the folder.

    Returns:
        Why it cannot play on; ``None`` when nothing remains.

    Raises:
        InvalidRequest: The world in this process is of another version.
        ConfigurationError: There is no evaluation, or a process that writes alone has its journal.
        JournalError: Its journal cannot be written.
    """
    stop = asyncio.current_task()
    assert stop is not None
    async with _opened(folder, shared, clock, name) as (journal, log):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.cancel)
        run_id = None if shared is None else shared.run_id
        found = await journal.look(lambda connection: rows(connection, run_id))
        if not found:
            raise ConfigurationError(f"{folder} holds no evaluation to join; start it first")
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


@dataclass(frozen=True, slots=True)
class _Playing:
    """Plays what remains of an evaluation, in this process and in others."""

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
        """Play ``remaining`` matches; why some were not played, where it is known.

        This process plays those that only it can play, or else takes part in the others.
        """
        here = remaining - anywhere
        jobs = [job for number, job in enumerate(self.run.jobs) if not here or number not in anywhere]
        part = replace(self.run, jobs=jobs)
        player = MatchPlayer(part, self.schedule.world, self.log, self.clock, ledger, self.store)
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
            await self.matches.look()
            if workers.pids and self.matches.over < len(self.run.jobs):
                await helping
        finally:
            helping.cancel()
            with suppress(asyncio.CancelledError):
                await helping

    async def _help(self, workers: WorkerProcesses, wait_s: float) -> None:
        """Report the progress, and start worker processes once they are worth it."""
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
    """The journal of an evaluation, to be written alongside others, and how this process records in it."""
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
    """Keep the run, with the matches that workers may play, or check that it is the same evaluation.

    Raises:
        InvalidRequest: It is another one; names what differs.
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
    """The figures of the matches that are over: measured when they ended, or read again."""
    known = {one.episode_id: one for one in await asyncio.to_thread(store.load)} if over else {}
    return {
        schedule.matches[number]: known.get(episode_id) or await measure(episode_id, journal, store)
        for number, episode_id in over.items()
    }
