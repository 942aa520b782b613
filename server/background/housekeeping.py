"""Housekeeping of the journal: retention, deletion, room, and long records.

A deleted episode leaves its digest, in a line of ``deleted.ndjson``. Unfinished episodes may take half
of the journal's room, so that they cannot push out all others. Long records are read through before
anyone opens them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from pydantic import BaseModel, Field

from spectator.clock import Clock, timestamp
from spectator.episodes.controls import EndRequest
from spectator.episodes.reader import LONG_EVENTS
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeError, JournalError, JournalUnavailable
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.retention import Figures, Keep
from spectator.journal.sql_journal import SqlJournal

from ..journal import TimedJournal

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0


class Housekeeper:
    """Removes episodes that are not to be kept, oldest first; never one that has not ended.

    Args:
        journal: The record.
        keep: What is kept.
        clock: Waits, and tells how old an episode is.
    """

    def __init__(self, journal: SqlJournal, keep: Keep, clock: Clock) -> None:
        self.removed = 0
        """Episodes that were removed by this process."""
        self.removed_bytes = 0
        """About how much room they took."""
        self.size: Figures | None = None
        """How large the record was when house was kept last."""
        self._journal = journal
        self._keep = keep
        self._clock = clock
        self._began = clock.now(), clock.monotonic()

    async def run(self, recovered: asyncio.Event | None = None) -> None:
        """Keep house until cancelled; what cannot be done now is tried again later.

        Args:
            recovered: Set when today's spending is counted, which reads what might be removed, and what an
                earlier process left has ended or is played on; nothing is removed before.
        """
        if recovered is not None:
            await recovered.wait()
        while True:
            try:
                await self.tidy()
            except JournalError as error:
                logger.warning("old episodes could not be removed: %s", error)
            await self._clock.sleep(INTERVAL_S)

    def _now(self) -> datetime:
        """The time, but never further from the beginning than has passed: a clock may be set wrong."""
        then, elapsed = self._began
        return min(self._clock.now(), then + timedelta(seconds=self._clock.monotonic() - elapsed))

    async def tidy(self) -> None:
        """Remove what is not to be kept, and give the room back.

        Raises:
            JournalError: It could not be done, or not all of it.
        """
        for old in await self._journal.surplus(self._keep, self._now()):
            await self._journal.remove(old.episode_id)
            self.removed += 1
            self.removed_bytes += old.bytes
            logger.info(
                "episode %s (ended %s, %d events, %.1f MB) was removed: beyond the limit of %s",
                old.episode_id,
                old.ended_at,
                old.events,
                old.bytes / 1e6,
                old.why,
            )
        await self._journal.tidy()
        self.size = await self._journal.figures()


DELETIONS_FILE: Final = "deleted.ndjson"


class DeletedEpisode(BaseModel):
    """An episode that was deleted."""

    episode_id: str
    digest: str | None = Field(description="The chain's digest up to its last event; null without a chain")
    events: int = Field(ge=0, description="How many it had")
    ended_at: str | None = Field(description="RFC 3339")
    deleted_at: str = Field(description="RFC 3339")


class Deletions:
    """Deletes episodes, and remembers which.

    Args:
        journal: The record.
        folder: Where the lines are kept.
        clock: Dates them.
    """

    def __init__(self, journal: SqlJournal, folder: Path, clock: Clock) -> None:
        self._journal = journal
        self._path = folder / DELETIONS_FILE
        self._clock = clock
        self._order = asyncio.Lock()

    async def delete(self, summary: EpisodeSummary) -> DeletedEpisode:
        """Remove an ended episode from the record; the line that says so is on the disk before.

        Raises:
            JournalUnavailable: The line could not be written; nothing was removed.
            JournalError: It could not be removed, or not all of it; housekeeping goes on with it.
        """
        deleted = DeletedEpisode(
            episode_id=summary.episode_id,
            digest=summary.digest,
            events=summary.head_seq,
            ended_at=summary.ended_at,
            deleted_at=timestamp(self._clock.now()),
        )
        async with self._order:
            await asyncio.to_thread(self._write, deleted.model_dump_json())
            await self._journal.remove(summary.episode_id)
        logger.info("episode %s was deleted by the operator, digest %s", summary.episode_id, summary.digest)
        return deleted

    async def newest(self, limit: int = 20) -> list[DeletedEpisode]:
        """The newest deletions, the newest first."""
        lines = await asyncio.to_thread(self._lines)
        return [DeletedEpisode.model_validate_json(line) for line in reversed(lines[-limit:])]

    def _write(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JournalUnavailable(f"{self._path} cannot be written: {error}") from error

    def _lines(self) -> list[str]:
        try:
            return self._path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []


ROOM_INTERVAL_S: Final = 1.0

ROOM_SHARE: Final = 0.5
"""Of the journal's limit, what has not ended may take."""


class UnfinishedQuota:
    """Cuts the largest running episode short while those without an end take too much.

    Args:
        journal: Knows what they take.
        keep_mb: Million bytes that the journal may take; 0 means no limit.
        supervisor: Ends them.
        clock: Waits.
    """

    def __init__(self, journal: TimedJournal, keep_mb: float, supervisor: Supervisor, clock: Clock) -> None:
        self._journal = journal
        self._most = keep_mb * 1e6 * ROOM_SHARE
        self._supervisor = supervisor
        self._clock = clock

    @property
    def bytes(self) -> int:
        """About what the episodes without an end take."""
        return sum(self._journal.unended.values())

    async def run(self) -> None:
        """Look every second until cancelled; first count what an earlier process left."""
        if not self._most:
            return
        try:
            for episode_id, size in (await self._journal.unended_bytes()).items():
                self._journal.unended[episode_id] += size
        except JournalError as error:
            logger.warning("what has not ended could not be counted: %s", error)
        while True:
            await self._clock.sleep(ROOM_INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """Cut the largest short, if need be."""
        taken = self._journal.unended
        if self.bytes <= self._most:
            return
        live = max(self._supervisor.showing(), key=lambda one: taken[one.episode_id], default=None)
        if live is None or live.ended:
            return
        room = f"cut short: episodes without an end took {self._most / 1e6:g} MB, half of SPECTATOR_KEEP_MB"
        logger.warning("episode %s is %s", live.episode_id, room)
        try:
            await live.end(EndRequest("step_cap", room))
        except EpisodeError as error:
            logger.warning("episode %s could not be ended: %s", live.episode_id, error)


LOOKED_AT: Final = 1_000
"""Newest ended episodes among which long ones are looked for at the start."""

AT_THE_START: Final = 4
"""Long records that are gone through at the start at most; earlier ones are when they are opened."""


class RecordScanner(Protocol):
    """Keeps the states of a long record, in the background."""

    def look_through(self, summary: EpisodeSummary) -> None:
        """Keep the states of all of a record that has ended, if it is long; returns at once."""
        ...


class LongRecordScanner:
    """Has the states of long records kept, so that their pages open without folding them.

    Args:
        journal: Where the episodes are.
        views: Folds them.
    """

    def __init__(self, journal: Journal, views: RecordScanner) -> None:
        self._journal = journal
        self._views = views
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        """Episodes that have just ended, to be looked at soon."""

    async def run(self, recovered: asyncio.Event) -> None:
        """Go through records until cancelled.

        Args:
            recovered: Set when what an earlier process left has ended or is played on: that comes first.
        """
        await recovered.wait()
        await self._try(self._look_at_newest())
        while True:
            await self._try(self._look_at(await self.ended.get()))

    async def _look_at_newest(self) -> None:
        found = await self._journal.episodes(EpisodeFilter(ended=True, limit=LOOKED_AT))
        for summary in [one for one in found if one.head_seq > LONG_EVENTS][:AT_THE_START]:
            self._views.look_through(summary)

    async def _look_at(self, episode_id: str) -> None:
        summary = await self._journal.episode(episode_id)
        if summary is not None and summary.head_seq > LONG_EVENTS:
            self._views.look_through(summary)

    async def _try(self, looking: Awaitable[None]) -> None:
        try:
            await looking
        except JournalError as error:  # whoever opens them waits for it instead
            logger.warning("long records are not gone through beforehand: %s", error)
