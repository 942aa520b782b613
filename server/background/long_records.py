"""Has long records gone through before anybody opens them: at the start the newest, then each as it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, Protocol

from spectator.episodes.record.reader import LONG_EVENTS
from spectator.errors import JournalError
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal

logger = logging.getLogger(__name__)

LOOKED_AT: Final = 1_000
"""Newest ended episodes among which long ones are looked for at the start."""

AT_THE_START: Final = 4
"""Long records that are gone through at the start at most; earlier ones are when they are opened."""


class LooksThrough(Protocol):
    """Keeps the states of a long record, in the background."""

    def look_through(self, summary: EpisodeSummary) -> None:
        """Keep the states of all of a record that has ended, if it is long; returns at once."""
        ...


class LongRecords:
    """Has the states of long records kept, so that their pages open without folding them.

    Args:
        journal: Where the episodes are.
        views: Folds them.
    """

    def __init__(self, journal: Journal, views: LooksThrough) -> None:
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
