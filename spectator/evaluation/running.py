"""Owns the run of a whole evaluation: what is played already, what is still owed, and the playing of it.

A match is in the journal whole or not at all when it is played in a process of its own, and turn by turn
when it is played here (captains that wait for an endpoint); what was left unfinished there is played on. So a
run that is killed at any moment owes exactly what is not in its journal, and finds that out from the ids.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.episodes.recovery import recover
from spectator.errors import EpisodeError, JournalError, SpectatorError
from spectator.evaluation.figures import EpisodeFigures, figures_of
from spectator.evaluation.folder import JOURNAL, keep_manifest
from spectator.evaluation.playing import Job, follow_parent, play_apart, play_here, play_on
from spectator.evaluation.schedule import Match, Schedule
from spectator.evaluation.store import FILE, FigureStore
from spectator.events import RecordedEvent, decode
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.sql import SqlJournal

logger = logging.getLogger(__name__)

AGAIN: Final = frozenset({"interrupted", "stopped"})
"""Ends that say nothing about the captains: such a match is played once more, from its beginning."""

PAGE: Final = 1000

Told = Callable[[int, int], None]
"""Called with the matches that are over and with all, at the beginning and after each."""


async def run_evaluation(
    schedule: Schedule, folder: Path, *, jobs: int, clock: Clock, told: Told
) -> dict[Match, EpisodeFigures]:
    """Play what is owed of ``schedule`` and measure everything.

    Args:
        schedule: What is to be played.
        folder: Where the evaluation is kept; made when it is not there.
        jobs: Matches at once: processes for captains that decide at once, connections for those that wait.
        clock: Time.
        told: Hears of the progress.

    Raises:
        InvalidRequest: The folder holds another evaluation.
        ConfigurationError: Another process works in the folder.
        JournalError: It cannot be written.
    """
    began_ms = await asyncio.to_thread(keep_manifest, folder, schedule, int(clock.now().timestamp() * 1000))
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    try:
        return await _Run(schedule, journal, FigureStore(folder / FILE), clock, began_ms, told).all(jobs)
    except* SpectatorError as failures:
        raise failures.exceptions[0] from None
    finally:
        await journal.aclose()


class _Run:
    """One run in one folder."""

    def __init__(
        self,
        schedule: Schedule,
        journal: Journal,
        store: FigureStore,
        clock: Clock,
        began_ms: int,
        told: Told,
    ) -> None:
        self._schedule = schedule
        self._journal = journal
        self._store = store
        self._clock = clock
        self._began_ms = began_ms
        self._told = told
        self._found: dict[Match, EpisodeFigures] = {}

    async def all(self, jobs: int) -> dict[Match, EpisodeFigures]:
        await self._finish_what_was_left()
        index = {summary.episode_id: summary async for summary in self._recorded()}
        known = {one.episode_id: one for one in await asyncio.to_thread(self._store.load)}
        owed: dict[Match, str] = {}
        for match in self._schedule.matches:
            episode_id, played = self._where(match, index)
            if not played:
                owed[match] = episode_id
            elif episode_id in known:
                self._found[match] = known[episode_id]
            else:
                await self._measure(match, episode_id, await self._journal.read(episode_id))
        self._tell()
        await self._play(owed, jobs)
        return {match: self._found[match] for match in self._schedule.matches}

    async def _recorded(self, ended: bool | None = None) -> AsyncIterator[EpisodeSummary]:
        before = None
        while page := await self._journal.episodes(EpisodeFilter(ended=ended, before=before, limit=PAGE)):
            for summary in page:
                yield summary
            before = page[-1].episode_id

    async def _finish_what_was_left(self) -> None:
        """Play on the matches that another run was in the middle of; what cannot be is ended."""
        async for summary in self._recorded(ended=False):
            try:
                recorded = await self._journal.read(summary.episode_id)
                await play_on(recorded, self._journal, self._clock, lambda _: self._schedule.world)
            except EpisodeError as error:
                logger.warning("%s is played again from its beginning: %s", summary.episode_id, error)
        await recover(self._journal, self._clock)

    def _where(self, match: Match, index: Mapping[str, EpisodeSummary]) -> tuple[str, bool]:
        """The id of the match's last attempt, and whether it has been played."""
        for attempt in itertools.count(1):
            episode_id = self._schedule.episode_id(match, self._began_ms, attempt)
            summary = index.get(episode_id)
            if summary is None:
                return episode_id, False
            if summary.reason not in AGAIN:
                return episode_id, True
        raise AssertionError("there is always another attempt")

    async def _play(self, owed: Mapping[Match, str], jobs: int) -> None:
        here = {match: episode_id for match, episode_id in owed.items() if self._stays(match)}
        apart = {match: episode_id for match, episode_id in owed.items() if match not in here}
        async with _processes(jobs if apart else 0) as pool, asyncio.TaskGroup() as tasks:
            for lane, matches in ((None, here), (pool, apart)):
                following = iter(matches.items())
                for _ in range(min(jobs, len(matches))):
                    tasks.create_task(self._lane(following, lane))

    async def _lane(self, matches: Iterable[tuple[Match, str]], pool: ProcessPoolExecutor | None) -> None:
        for match, episode_id in matches:
            if pool is None:
                await play_here(self._schedule.plan(match), episode_id, self._journal, self._clock)
                recorded = await self._journal.read(episode_id)
            else:
                recorded = [decode(text) for text in await _apart(pool, self._job(match, episode_id))]
                await self._journal.append(recorded)
            await self._measure(match, episode_id, recorded)
            self._tell()

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


async def _apart(pool: ProcessPoolExecutor, job: Job) -> list[str]:
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
