"""Deletes single episodes for the operator; of each its digest is kept, in a line of ``deleted.ndjson``."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from spectator.clock import Clock, timestamp
from spectator.errors import JournalUnavailable
from spectator.journal.base import EpisodeSummary
from spectator.journal.stores.sqlite import SqlJournal

logger = logging.getLogger(__name__)

FILE: Final = "deleted.ndjson"


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
        self._path = folder / FILE
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
