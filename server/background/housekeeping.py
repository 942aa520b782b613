"""Housekeeping of the journal: retention, deletion, disk quota, and long records.

A deleted episode leaves its digest in a line of ``deleted.ndjson``. Unfinished episodes may take half of
the journal's quota, so that they cannot displace all others. Long records are read in advance, so that
their pages open quickly.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from spectator.clock import Clock, timestamp
from spectator.episodes.controls import EndRequest
from spectator.episodes.reader import LONG_EVENTS, ViewReader
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeError, JournalError, JournalUnavailable
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal
from spectator.journal.replicas import Replica, replicas
from spectator.journal.retention import Figures, Keep
from spectator.journal.sql_journal import SqlJournal

from ..journal import TimedJournal

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0

LITTLE_FREE: Final = 1_000_000_000
"""Bytes of free disk below which an operator should act."""


class Housekeeper:
    """Removes ended episodes beyond the retention limits, oldest first."""

    def __init__(self, journal: SqlJournal, keep: Keep, clock: Clock) -> None:
        self.removed = 0
        """Episodes removed by this process."""
        self.removed_bytes = 0
        """Approximate bytes that they took."""
        self.size: Figures | None = None
        """Size of the journal at the last run."""
        self.replicas: Sequence[Replica] = ()
        """Standbys of the journal's database at the last run."""
        self._journal = journal
        self._keep = keep
        self._clock = clock
        self._began = clock.now(), clock.monotonic()

    async def run(self, recovered: asyncio.Event | None = None) -> None:
        """Remove old episodes until cancelled; failures are retried.

        Args:
            recovered: Set once today's spending is counted, which reads episodes that might be removed, and
                earlier episodes are recovered; nothing is removed before.
        """
        if recovered is not None:
            await recovered.wait()
        while True:
            try:
                await self.tidy()
            except JournalError as error:
                logger.warning("cannot remove old episodes: %s", error)
            await self._clock.sleep(INTERVAL_S)

    def _now(self) -> datetime:
        """Return the time, limited by the monotonic time since the start.

        A wrongly set clock must not remove new episodes.
        """
        then, elapsed = self._began
        return min(self._clock.now(), then + timedelta(seconds=self._clock.monotonic() - elapsed))

    async def tidy(self) -> None:
        """Remove episodes beyond the limits, and free their disk space.

        Raises:
            JournalError: It failed, possibly after some removals.
        """
        for old in await self._journal.surplus(self._keep, self._now()):
            await self._journal.remove(old.episode_id)
            self.removed += 1
            self.removed_bytes += old.bytes
            logger.info(
                "removed episode %s (ended %s, %d events, %.1f MB), beyond the limit of %s",
                old.episode_id,
                old.ended_at,
                old.events,
                old.bytes / 1e6,
                old.why,
            )
        await self._journal.tidy()
        self.size = await self._journal.figures()
        if self._journal.ownership is not None:  # only a database server has standbys
            self.replicas = await self._journal.look(replicas)


DELETIONS_FILE: Final = "deleted.ndjson"


class DeletedEpisode(BaseModel):
    """An episode that was deleted."""

    episode_id: str
    digest: str | None = Field(description="The chain's digest up to its last event; null without a chain")
    events: int = Field(ge=0, description="Number of its events")
    ended_at: str | None = Field(description="RFC 3339")
    deleted_at: str = Field(description="RFC 3339")


class Deletions:
    """Deletes episodes, and logs deletions in a file."""

    def __init__(self, journal: SqlJournal, folder: Path, clock: Clock) -> None:
        self._journal = journal
        self._path = folder / DELETIONS_FILE
        self._clock = clock
        self._order = asyncio.Lock()

    async def delete(self, summary: EpisodeSummary) -> DeletedEpisode:
        """Delete an ended episode; the line that says so is on disk first.

        Raises:
            JournalUnavailable: The line cannot be written; nothing was deleted.
            JournalError: The deletion failed, possibly in part; housekeeping completes it.
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
        logger.info("the operator deleted episode %s, digest %s", summary.episode_id, summary.digest)
        return deleted

    async def newest(self, limit: int = 20) -> list[DeletedEpisode]:
        """Return the newest deletions, newest first."""
        lines = await asyncio.to_thread(self._lines)
        return [DeletedEpisode.model_validate_json(line) for line in reversed(lines[-limit:])]

    def _write(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JournalUnavailable(f"cannot write {self._path}: {error}") from error

    def _lines(self) -> list[str]:
        try:
            return self._path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []


ROOM_INTERVAL_S: Final = 1.0

ROOM_SHARE: Final = 0.5
"""Share of the journal's limit that unfinished episodes may take."""


class UnfinishedQuota:
    """Ends the largest running episode while unfinished episodes take too much space.

    Args:
        keep_mb: Limit of the journal in million bytes; 0 means no limit.
    """

    def __init__(self, journal: TimedJournal, keep_mb: float, supervisor: Supervisor, clock: Clock) -> None:
        self._journal = journal
        self._most = keep_mb * 1e6 * ROOM_SHARE
        self._supervisor = supervisor
        self._clock = clock

    @property
    def bytes(self) -> int:
        """Approximate size of unfinished episodes."""
        return sum(self._journal.unended.values())

    async def run(self) -> None:
        """Count the episodes of an earlier process, then check every second."""
        if not self._most:
            return
        try:
            for episode_id, size in (await self._journal.unended_bytes()).items():
                self._journal.unended[episode_id] += size
        except JournalError as error:
            logger.warning("cannot count unfinished episodes: %s", error)
        while True:
            await self._clock.sleep(ROOM_INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """End the largest episode, if the quota is exceeded."""
        taken = self._journal.unended
        if self.bytes <= self._most:
            return
        live = max(self._supervisor.showing(), key=lambda one: taken[one.episode_id], default=None)
        if live is None or live.ended:
            return
        reason = f"cut short: unfinished episodes took {self._most / 1e6:g} MB, half of SPECTATOR_KEEP_MB"
        logger.warning("episode %s is %s", live.episode_id, reason)
        try:
            await live.end(EndRequest("step_cap", reason))
        except EpisodeError as error:
            logger.warning("cannot end episode %s: %s", live.episode_id, error)


LOOKED_AT: Final = 1_000
"""Newest ended episodes that are searched for long ones at startup."""

AT_THE_START: Final = 4
"""Most long records read at startup; earlier ones are read when opened."""


class LongRecordScanner:
    """Stores states of long records in advance, so that their pages open quickly."""

    def __init__(self, journal: Journal, views: ViewReader) -> None:
        self._journal = journal
        self._views = views
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        """Episodes that have just ended."""

    async def run(self, recovered: asyncio.Event) -> None:
        """Read long records until cancelled.

        Args:
            recovered: Set once earlier episodes are recovered, which comes first.
        """
        await recovered.wait()
        await self._look(EpisodeFilter(ended=True, limit=LOOKED_AT))
        while True:
            await self._look(await self.ended.get())

    async def _look(self, wanted: EpisodeFilter | str) -> None:
        """Read the newest long records in a list, or one episode, if it is long."""
        try:
            if isinstance(wanted, str):
                summary = await self._journal.episode(wanted)
                found = [] if summary is None else [summary]
            else:
                found = await self._journal.episodes(wanted)
            for summary in [one for one in found if one.head_seq > LONG_EVENTS][:AT_THE_START]:
                self._views.look_through(summary)
        except JournalError as error:  # their first viewer waits instead
            logger.warning("cannot read long records in advance: %s", error)
