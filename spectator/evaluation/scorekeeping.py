"""Keeps the standings of a journal up to date: every ended episode is read once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from spectator.errors import SpectatorError
from spectator.evaluation.figures import EpisodeFigures, Reading
from spectator.evaluation.standings import Standings
from spectator.evaluation.store import FigureStore
from spectator.journal.contract import EpisodeFilter, Journal

logger = logging.getLogger(__name__)

BATCH: Final = 64
"""Events that are read and taken before others of the process get a turn."""

SAVED: Final = 20
"""Episodes whose figures are written at once."""

PAGE: Final = 500
"""Episodes of the index that are read at once."""

RECHECK_S: Final = 600.0
"""Seconds after which the journal's index is compared again, for episodes that were taken out of it."""


class Scorekeeper:
    """Reads the figures of ended episodes in the background; :attr:`standings` may be looked at any time.

    Args:
        journal: Where episodes are.
        store: Where their figures are kept.
    """

    def __init__(self, journal: Journal, store: FigureStore) -> None:
        self.standings = Standings()
        self._journal = journal
        self._store = store
        self._known: dict[str, EpisodeFigures] = {}
        self._unreadable: set[str] = set()
        self._owed: dict[str, None] = {}
        self._news = asyncio.Event()

    @property
    def known(self) -> Collection[EpisodeFigures]:
        """The figures of all episodes that are in the standings."""
        return self._known.values()

    @property
    def owed(self) -> int:
        """Ended episodes that are not in the standings yet."""
        return len(self._owed)

    def note_ended(self, episode_id: str) -> None:
        """Take note that an episode has ended; returns at once."""
        self._owed[episode_id] = None
        self._news.set()

    async def run(self) -> None:
        """Read whatever is owed, for as long as the process lives."""
        await self._recall()
        while True:
            await self._guarded_compare()
            try:
                async with asyncio.timeout(RECHECK_S):
                    while True:
                        await self._read_owed()
                        await self._news.wait()
            except TimeoutError:
                continue

    async def _recall(self) -> None:
        try:
            kept = await asyncio.to_thread(self._store.load)
        except SpectatorError as error:
            logger.warning("the leaderboard is made anew: %s", error)
            kept = []
        self._known = {one.episode_id: one for one in kept}
        self._sum_up()

    async def _guarded_compare(self) -> None:
        try:
            await self._compare()
        except SpectatorError as error:
            logger.warning("the leaderboard could not be compared with the journal: %s", error)

    async def _compare(self) -> None:
        """Owe what is in the journal's index and not known; forget what is known and not in it."""
        there: set[str] = set()
        before = None
        while page := await self._journal.episodes(EpisodeFilter(ended=True, before=before, limit=PAGE)):
            there.update(summary.episode_id for summary in page)
            before = page[-1].episode_id
        gone = self._known.keys() - there - self._owed.keys()
        if gone:
            for episode_id in gone:
                del self._known[episode_id]
            self._sum_up()
            await asyncio.to_thread(self._store.drop, gone)
        self._owed |= dict.fromkeys(sorted(there - self._known.keys() - self._unreadable))

    def _sum_up(self) -> None:
        standings = Standings()
        for figures in sorted(self._known.values(), key=lambda one: one.ended_at):
            standings.add(figures)
        self.standings = standings

    async def _read_owed(self) -> None:
        self._news.clear()
        owed = list(self._owed)
        for first in range(0, len(owed), SAVED):
            batch = owed[first : first + SAVED]
            await self._save([figures for one in batch if (figures := await self._take(one)) is not None])
            for episode_id in batch:
                self._owed.pop(episode_id, None)

    async def _take(self, episode_id: str) -> EpisodeFigures | None:
        """Read one episode into the standings; nothing when that cannot be done, or was."""
        if episode_id in self._known:
            return None
        figures = await self._figures(episode_id)
        if figures is None:
            self._unreadable.add(episode_id)
            return None
        self._known[episode_id] = figures
        self.standings.add(figures)
        return figures

    async def _figures(self, episode_id: str) -> EpisodeFigures | None:
        reading, seq = Reading(), 0
        try:
            while True:
                batch = await self._journal.read(episode_id, after_seq=seq, limit=BATCH)
                for recorded in batch:
                    reading.take(recorded)
                if len(batch) < BATCH:
                    return reading.figures()
                seq = batch[-1].event.seq
        except SpectatorError as error:
            logger.warning("%s is left out of the leaderboard: %s", episode_id, error)
            return None

    async def _save(self, figures: Sequence[EpisodeFigures]) -> None:
        try:
            if figures:
                await asyncio.to_thread(self._store.save, figures)
        except SpectatorError as error:
            logger.warning("figures of %d episodes are not kept: %s", len(figures), error)
