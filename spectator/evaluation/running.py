"""Owns the run of a whole evaluation: what is played already, what is still owed, and the playing of it.

A match is in the journal whole or not at all when it is played in a process of its own, and turn by turn
when it is played here (captains that wait for an endpoint); what was left unfinished there is played on. So a
run that is killed at any moment owes exactly what is not in its journal, and finds that out from the ids.
Where a model cannot be asked, or nothing more may be spent, it is cut short, and owes the rest as well.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.episodes.host.recovery import interrupted
from spectator.episodes.record.usage import spent_on
from spectator.episodes.replay.restore import CannotRebuild
from spectator.errors import EpisodeError, JournalError, SpectatorError, StepTimeout
from spectator.evaluation.figures import EpisodeFigures, figures_of
from spectator.evaluation.folder import JOURNAL, keep_manifest
from spectator.evaluation.halting import Halt
from spectator.evaluation.playing import Job, Venue, follow_parent, play_apart, play_here, play_on
from spectator.evaluation.schedule import Match, Schedule
from spectator.evaluation.store import FILE, FigureStore
from spectator.events import RecordedEvent, decode
from spectator.journal.attachments import Attachments
from spectator.journal.base import EpisodeFilter, EpisodeSummary
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent

logger = logging.getLogger(__name__)

AGAIN: Final = frozenset({"interrupted", "stopped"})
"""Ends that say nothing about the captains: such a match is played once more, from its beginning."""

PAGE: Final = 1000

Told = Callable[[int, int], None]
"""Called with the matches that are over and with all, at the beginning and after each."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to.

    Args:
        found: The figures of every match that is played.
        cut_short: Why the others are not; ``None`` when there are none.
    """

    found: Mapping[Match, EpisodeFigures]
    cut_short: str | None = None


async def run_evaluation(
    schedule: Schedule,
    folder: Path,
    *,
    jobs: int,
    clock: Clock,
    told: Told,
    ledger: SpendLedger | None = None,
) -> Run:
    """Play what is owed of ``schedule`` and measure everything.

    Args:
        schedule: What is to be played.
        folder: Where the evaluation is kept; made when it is not there.
        jobs: Matches at once: processes for captains that decide at once, connections for those that wait.
        clock: Time.
        told: Hears of the progress.
        ledger: What asking models may take; what the folder's matches took before is counted. No limit when
            left out.

    Raises:
        InvalidRequest: The folder holds another evaluation.
        ConfigurationError: Another process works in the folder.
        JournalError: It cannot be written.
    """
    began_ms = await asyncio.to_thread(keep_manifest, folder, schedule, int(clock.now().timestamp() * 1000))
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    ledger = ledger or SpendLedger(Caps(), Caps(), clock)
    venue = Venue(journal, clock, lambda _: schedule.world, Halt(ledger))
    try:
        if any(schedule.world.captains[name].costs_money for name in schedule.captains):
            before = await spent_on(journal, None) if ledger.limits_whole else Spent()
            ledger.begin(await spent_on(journal, ledger.today), before)
        return await _Running(schedule, venue, FigureStore(folder / FILE), began_ms, told).all(jobs)
    except* SpectatorError as failures:
        raise failures.exceptions[0] from None
    finally:
        await journal.aclose()


class _CutShort(Exception):
    """Ends the tasks of a run that is cut short."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A match that is not played.

    Args:
        match: The match.
        attempt: Number of the attempt that is due.
        left: Whether it was begun, and left without an end.
    """

    match: Match
    attempt: int
    left: bool


class _Running:
    """One run in one folder."""

    def __init__(
        self, schedule: Schedule, venue: Venue, store: FigureStore, began_ms: int, told: Told
    ) -> None:
        self._schedule = schedule
        self._venue = venue
        self._journal = venue.journal
        self._store = store
        self._began_ms = began_ms
        self._told = told
        self._found: dict[Match, EpisodeFigures] = {}

    async def all(self, jobs: int) -> Run:
        index = {summary.episode_id: summary async for summary in self._recorded()}
        known = {one.episode_id: one for one in await asyncio.to_thread(self._store.load)}
        owed: list[_Owed] = []
        for match in self._schedule.matches:
            last, attempt = self._last(match, index)
            if last is None or last.reason is None:
                owed.append(_Owed(match, attempt, left=last is not None))
            elif last.episode_id in known:
                self._found[match] = known[last.episode_id]
            else:
                await self._measure(match, last.episode_id, await self._journal.read(last.episode_id))
        self._tell()
        try:
            await self._play(owed, jobs)
        except* _CutShort:
            pass
        return Run(self._found, self._venue.halt.reason)

    async def _recorded(self) -> AsyncIterator[EpisodeSummary]:
        before = None
        while page := await self._journal.episodes(EpisodeFilter(before=before, limit=PAGE)):
            for summary in page:
                yield summary
            before = page[-1].episode_id

    def _last(self, match: Match, index: Mapping[str, EpisodeSummary]) -> tuple[EpisodeSummary | None, int]:
        """The match's last attempt that counts, ``None`` when there is none yet, and its number."""
        for attempt in itertools.count(1):
            summary = index.get(self._schedule.episode_id(match, self._began_ms, attempt))
            if summary is None or summary.reason not in AGAIN:
                return summary, attempt
        raise AssertionError("there is always another attempt")

    async def _play(self, owed: Sequence[_Owed], jobs: int) -> None:
        here = [one for one in owed if one.left or self._stays(one.match)]
        apart = [one for one in owed if one not in here]
        async with _processes(jobs if apart else 0) as pool, asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            lanes = [
                tasks.create_task(self._lane(following, where))
                for where, matches in ((None, here), (pool, apart))
                for following in [iter(matches)]
                for _ in range(min(jobs, len(matches)))
            ]
            if lanes:
                await asyncio.wait(lanes)
            watching.cancel()

    async def _watch(self) -> None:
        await self._venue.halt.wait()
        raise _CutShort

    async def _lane(self, matches: Iterable[_Owed], pool: ProcessPoolExecutor | None) -> None:
        for owed in matches:
            if (refusal := self._refusal(owed.match)) is not None:
                return self._venue.halt.because(refusal)
            episode_id, recorded = await self._settle(owed, pool)
            await self._measure(owed.match, episode_id, recorded)
            self._tell()

    def _refusal(self, match: Match) -> str | None:
        """Why nothing may be spent on a match that costs money; ``None`` when it may be played."""
        plan = self._schedule.plan(match)
        costs = any(plan.preset(actor).costs_money for actor in plan.world.actors)
        return self._venue.halt.ledger.refusal() if costs else None

    async def _settle(
        self, owed: _Owed, pool: ProcessPoolExecutor | None
    ) -> tuple[str, Sequence[RecordedEvent]]:
        """Play one match; its id and its record."""
        match, journal = owed.match, self._journal
        episode_id = self._schedule.episode_id(match, self._began_ms, owed.attempt)
        if owed.left:
            left = await journal.read(episode_id)
            try:
                await play_on(left, self._venue)
            except (CannotRebuild, StepTimeout) as error:
                logger.warning("%s is played again from its beginning: %s", episode_id, error)
                why = f"it could not be played on: {error}"
                await journal.append([interrupted(left, self._venue.clock, why)])
                return await self._settle(_Owed(match, owed.attempt + 1, left=False), pool)
        elif pool is None:
            await play_here(self._schedule.plan(match), episode_id, self._venue)
        else:
            texts, attachments = await _apart(pool, self._job(match, episode_id))
            recorded = [decode(text) for text in texts]
            await journal.append(recorded, attachments=attachments)
            return episode_id, recorded
        return episode_id, await journal.read(episode_id)

    async def _measure(self, match: Match, episode_id: str, recorded: Sequence[RecordedEvent]) -> None:
        figures = figures_of(recorded)
        if figures is None:
            raise JournalError(f"the record of {episode_id} has no end")
        await asyncio.to_thread(self._store.save, [figures])
        self._found[match] = figures

    def _stays(self, match: Match) -> bool:
        """Whether it is played here: a captain waits for an endpoint, or is known to this process alone."""
        plan, plain = self._schedule.plan(match), load_world(self._schedule.world.name)
        known = [*plain.captains.values(), *plain.opponents.values()]
        presets = [plan.preset(actor) for actor in plan.world.actors]
        return any(preset.source == "model" or preset not in known for preset in presets)

    def _job(self, match: Match, episode_id: str) -> Job:
        schedule = self._schedule
        return Job(
            schedule.world.name, match.home, match.away, schedule.pack.name, match.seed, schedule.options,
            episode_id,
        )  # fmt: skip

    def _tell(self) -> None:
        self._told(len(self._found), len(self._schedule.matches))


async def _apart(pool: ProcessPoolExecutor, job: Job) -> tuple[list[str], Attachments]:
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, play_apart, job)
    except BrokenProcessPool as error:
        raise EpisodeError(
            "a process that played matches died; nothing is lost: run the same command again"
        ) from error


@asynccontextmanager
async def _processes(jobs: int) -> AsyncIterator[ProcessPoolExecutor | None]:
    """A pool whose processes end with this one; none for 0."""
    if not jobs:
        yield None
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=follow_parent)
    try:
        yield pool
    finally:
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)
