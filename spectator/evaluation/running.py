"""The run of a whole evaluation: what is played already is measured, what is still owed is played.

It can be killed at any moment and run again, see :mod:`spectator.runs.runner`. Where a model cannot be
asked, or nothing more may be spent, it is cut short, and owes the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spectator.clock import Clock
from spectator.episodes.recorded_calls import spent_on
from spectator.errors import JournalError, SpectatorError
from spectator.evaluation.figures import EpisodeFigures, figures_of
from spectator.evaluation.folder import JOURNAL, keep_manifest
from spectator.evaluation.schedule import Schedule, ScheduledMatch
from spectator.evaluation.store import FILE, FigureStore
from spectator.events import RecordedEvent
from spectator.journal.contract import Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.runs.halting import Halt, HaltingRule
from spectator.runs.owed import Attempt, progress
from spectator.runs.playing import Venue
from spectator.runs.runner import Runner
from spectator.runs.workers import MakeWorlds

Report = Callable[[int, int], None]
"""Called with the matches that are over and with all, at the beginning and after each."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a run came to.

    Args:
        found: The figures of every match that is played.
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
    ledger: SpendLedger | None = None,
    worlds: MakeWorlds | None = None,
) -> Played:
    """Play what is owed of ``schedule`` and measure everything.

    Args:
        schedule: What is to be played.
        folder: Where the evaluation is kept; made when it is not there.
        jobs: Matches at once: processes for captains that decide at once, connections for those that wait.
        clock: Time.
        report: Hears of the progress.
        ledger: What asking models may take; what the folder's matches took before is counted. No limit when
            left out.
        worlds: Makes what finds worlds in another process; where it is left out, captains that the catalogue
            does not have play here.

    Raises:
        InvalidRequest: The folder holds another evaluation.
        ConfigurationError: Another process works in the folder.
        JournalError: It cannot be written.
    """
    kept = await asyncio.to_thread(keep_manifest, folder, schedule, int(clock.now().timestamp() * 1000))
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    ledger = ledger or SpendLedger(Caps(), Caps(), clock)
    halt = Halt(ledger)
    venue = Venue(journal, clock, lambda _: schedule.world, ledger, lambda plan: HaltingRule(plan, halt))
    try:
        if schedule.paid:
            before = await spent_on(journal, None) if ledger.limits_whole else Spent()
            ledger.begin(await spent_on(journal, ledger.today), before)
        found = _Found(schedule.matches, FigureStore(folder / FILE), report)
        run = schedule.run(kept.began_ms, kept.run_id)
        due = await progress(journal, run)
        await found.recall(due.over, journal)
        await Runner(run, venue, halt, found.take, worlds=worlds).play(due.owed, jobs)
        return Played(found.figures, halt.reason)
    except* SpectatorError as failures:
        raise failures.exceptions[0] from None
    finally:
        await journal.aclose()


@dataclass(slots=True)
class _Found:
    """The figures of the matches that are over."""

    matches: Sequence[ScheduledMatch]
    store: FigureStore
    report: Report
    figures: dict[ScheduledMatch, EpisodeFigures] = field(default_factory=dict)

    async def recall(self, over: Mapping[int, str], journal: Journal) -> None:
        """Take the matches that were over before: measured then, or else read again."""
        known = {one.episode_id: one for one in await asyncio.to_thread(self.store.load)} if over else {}
        for number, episode_id in over.items():
            if episode_id in known:
                self.figures[self.matches[number]] = known[episode_id]
            else:
                await self._measure(number, episode_id, await journal.read(episode_id))
        self.report(len(self.figures), len(self.matches))

    async def take(self, attempt: Attempt, recorded: Sequence[RecordedEvent]) -> None:
        """Measure a match that is over."""
        await self._measure(attempt.number, attempt.episode_id, recorded)
        self.report(len(self.figures), len(self.matches))

    async def _measure(self, number: int, episode_id: str, recorded: Sequence[RecordedEvent]) -> None:
        figures = figures_of(recorded)
        if figures is None:
            raise JournalError(f"the record of {episode_id} has no end")
        await asyncio.to_thread(self.store.save, [figures])
        self.figures[self.matches[number]] = figures
