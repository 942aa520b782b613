"""Housekeeping of the journal: removes old episodes at the start, after a recovery, then once a minute."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.retention import Figures, Keep
from spectator.journal.stores.sqlite import SqlJournal

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
