"""Imports files into a folder that the pages of runs show: each episode once, whatever is read again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from spectator.episodes.record.reader import BEFORE_END, ViewReader
from spectator.errors import JournalError, SequenceConflict
from spectator.importing.building import BuiltEpisode, build, imported_id
from spectator.importing.foreign import ForeignEpisode
from spectator.importing.formats.each_row import UNEXPECTED
from spectator.importing.formats.own_events import EventBatch, batches
from spectator.importing.names import plain_name
from spectator.importing.reading import LeftOut, Source
from spectator.importing.sniffing import FileFormat
from spectator.journal.base import Journal

logger = logging.getLogger(__name__)

TOGETHER: Final = 32
"""Episodes that are handed to the journal together, to share a commit."""

TOGETHER_EVENTS: Final = 2_000
"""Events beyond which no more are added to them."""

TOLD: Final = 20
"""Places of one file that are told singly; the others are counted."""


@dataclass(slots=True)
class ImportReport:
    """What an import came to.

    Args:
        imported: Episodes that were added.
        known: Episodes that were there already.
        left_out: Places of files that were not imported.
        told: The first of these, a sentence each.
    """

    imported: int = 0
    known: int = 0
    left_out: int = 0
    told: list[str] = field(default_factory=list)

    def leave_out(self, source: Source, what: LeftOut) -> None:
        """Count a place that is not imported."""
        self.left_out += 1
        if self.left_out <= TOLD:
            self.told.append(f"{source.path}, {what.place}: {what.reason}")


OnProgress = Callable[[Source, ImportReport], None]


async def import_file(
    source: Source, form: FileFormat, journal: Journal, run: str, report: ImportReport, moved: OnProgress
) -> None:
    """Read a file and record what is new of it.

    Args:
        source: The file.
        form: Its format.
        journal: Where the episodes go.
        run: Name of the run that they are shown in.
        report: Counts what became of them.
        moved: Told of progress, now and then.

    Raises:
        ConfigurationError: The file as a whole cannot be read.
        JournalError: Nothing can be recorded.
    """
    if form.read is None:
        await _import_events(source, journal, report, moved)
        return
    known_at = datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    waiting: list[BuiltEpisode] = []
    entries = form.read(source)
    while (taken := await asyncio.to_thread(_take, entries)) is not None:
        if isinstance(taken, LeftOut):
            report.leave_out(source, taken)
        elif await journal.episode(imported_id(taken)) is not None:
            report.known += 1
        else:
            _build(taken, run, known_at, source, waiting, report)
        if len(waiting) >= TOGETHER or sum(len(one.events) for one in waiting) > TOGETHER_EVENTS:
            await _record(journal, waiting, report)
        moved(source, report)
    await _record(journal, waiting, report)
    moved(source, report)


def _take(entries: Iterator[ForeignEpisode | LeftOut]) -> ForeignEpisode | LeftOut | None:
    return next(entries, None)


def _build(
    episode: ForeignEpisode,
    run: str,
    known_at: datetime,
    source: Source,
    waiting: list[BuiltEpisode],
    report: ImportReport,
) -> None:
    try:
        built = build(episode, plain_name(run), known_at)
    except UNEXPECTED as error:
        report.leave_out(source, LeftOut(f"episode {episode.key!r}"[:120], f"it cannot be recorded: {error}"))
        return
    if any(one.episode_id == built.episode_id for one in waiting):
        report.known += 1
    else:
        waiting.append(built)


async def _record(journal: Journal, waiting: list[BuiltEpisode], report: ImportReport) -> None:
    """Record what waits, each episode whole or not at all."""
    done = await asyncio.gather(
        *(journal.append(one.events, attachments=one.attachments) for one in waiting), return_exceptions=True
    )
    long = [one.episode_id for one in waiting if len(one.events) > BEFORE_END]
    waiting.clear()
    for episode_id in long:
        await _ready_to_open(journal, episode_id)
    for outcome in done:
        if isinstance(outcome, SequenceConflict):
            report.known += 1
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            report.imported += 1


async def _import_events(source: Source, journal: Journal, report: ImportReport, moved: OnProgress) -> None:
    """Record events as they are; what an episode has already is passed over, so that it can be completed."""
    torn: set[str] = set()
    for batch in batches(source):
        if isinstance(batch, LeftOut):
            report.leave_out(source, batch)
        else:
            await _add_events(batch, source, journal, report, torn)
        moved(source, report)
    moved(source, report)


async def _add_events(
    batch: EventBatch, source: Source, journal: Journal, report: ImportReport, torn: set[str]
) -> None:
    episode_id = batch.events[0].episode_id
    summary = await journal.episode(episode_id)
    head = 0 if summary is None else summary.head_seq
    fresh = [one for one in batch.events if one.seq > head]
    begins = batch.events[0].seq == 1
    if not fresh:
        report.known += begins
        return
    if fresh[0].seq > head + 1:
        if episode_id not in torn:
            torn.add(episode_id)
            report.leave_out(
                source, LeftOut(f"line {batch.line}", _after_a_gap(episode_id, head, fresh[0].seq))
            )
        return
    try:
        await journal.append(fresh)
    except (JournalError, *UNEXPECTED) as error:
        report.leave_out(source, LeftOut(f"line {batch.line}", f"events of {episode_id}: {error}"))
        return
    report.imported += begins and head == 0
    if fresh[-1].type == "episode.ended" and fresh[-1].seq > BEFORE_END:
        await _ready_to_open(journal, episode_id)


def _after_a_gap(episode_id: str, head: int, seq: int) -> str:
    missing = f"event {head + 1} is" if seq == head + 2 else f"events {head + 1} to {seq - 1} are"
    shown = f"is shown up to event {head}" if head else "is not shown"
    return f"{episode_id} {shown}: {missing} missing, so those after cannot be recorded"


async def _ready_to_open(journal: Journal, episode_id: str) -> None:
    """Fold a long record once, so that what takes long is kept and its page opens without it."""
    records = ViewReader(journal)
    summary = await journal.episode(episode_id)
    if summary is None or summary.ended_at is None or await records.derives(episode_id):
        return
    try:
        await records.state(summary)
    except JournalError as error:  # whoever opens it is told
        logger.info("episode %s is not folded: %s", episode_id, error)
