"""An episode that another process plays, followed by its record: its viewers see it as one that runs here."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from spectator.clock import Clock
from spectator.episodes.record.reader import EpisodeReader, ViewReader
from spectator.episodes.record.view import replay_state
from spectator.errors import EpisodeNotFound
from spectator.following.remote_view import RemoteView
from spectator.journal.base import EpisodeSummary

READ_EVENTS: Final = 200
"""Events that are taken in at once."""


class FollowedView(RemoteView):
    """An episode that another process plays; an :class:`~spectator.episodes.host.episode_view.EpisodeView`.

    Args:
        summary: Its line of the index.
        views: Folds what is recorded.
        records: Reads what its viewers may see.
        clock: Time.
        withholds: Whether viewers are shown what is thought only together with what it led to.
    """

    def __init__(
        self,
        summary: EpisodeSummary,
        views: ViewReader,
        records: EpisodeReader,
        clock: Clock,
        *,
        withholds: bool = False,
    ) -> None:
        began = datetime.fromisoformat(summary.started_at)
        super().__init__(summary.episode_id, summary.epoch, began, clock, withholds=withholds)
        self._views = views
        self._records = records
        self._order = asyncio.Lock()

    async def open(self) -> None:
        """Bring ``state`` and ``head_seq`` up to what is recorded; returns at once where they were before."""
        if self.head_seq:
            return
        async with self._order:
            if self.head_seq:  # by somebody else meanwhile, and who listens has what came before only
                return
            summary = await self._records.episode(self.episode_id)
            if summary is None:
                raise EpisodeNotFound(self.episode_id)
            state = await self._views.state(summary)
            last = await self._records.read(self.episode_id, after_seq=summary.head_seq - 1, limit=1)
            self.turn = last[0].event.turn if last else 0
            self.epoch, self.state, self.head_seq = summary.epoch, state, summary.head_seq

    async def advance(self, enough: int | None = None) -> None:
        """Take in what was recorded since, and hand it to whoever listens.

        Args:
            enough: An event after which nothing need be read: who waits for the same reads once.

        Raises:
            JournalError: The record cannot be read.
        """
        await self.open()
        async with self._order:
            goes_on = not self.ended and (enough is None or self.head_seq < enough)
            while goes_on and (
                batch := await self._records.read(self.episode_id, after_seq=self.head_seq, limit=READ_EVENTS)
            ):
                state = await asyncio.to_thread(replay_state, batch, self.state)
                self.state, self.head_seq = state, batch[-1].seq
                self.turn = batch[-1].event.turn
                self.ended = any(one.type == "episode.ended" for one in batch)
                short = enough is not None and self.head_seq < enough
                goes_on = not self.ended and (short or len(batch) == READ_EVENTS)
                self._bus.publish(batch)
                self.show_trouble(None)
        if self.ended:
            self.close()
