"""An episode that another process plays, followed by its record: its viewers see it as one that runs here."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from spectator.bus.base import Overflow, Subscription
from spectator.bus.memory import MemoryBus
from spectator.clock import Clock
from spectator.episodes.record.reader import EpisodeReader, ViewReader
from spectator.episodes.record.recorder import Trouble
from spectator.episodes.record.view import State, replay_state
from spectator.episodes.run.partial_decision import Thinking
from spectator.errors import EpisodeNotFound
from spectator.events import EpisodeEnded
from spectator.journal.base import EpisodeSummary

READ_EVENTS: Final = 200
"""Events that are taken in at once."""


class FollowedView:
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
        self.withholds = withholds
        self.trouble: Trouble | None = None
        self.episode_id = summary.episode_id
        self.epoch = summary.epoch
        self.started_at = datetime.fromisoformat(summary.started_at)
        self.thinking = Thinking(clock)
        self.head_seq = 0
        self.state: State = {}
        self.turn = 0
        self.ended = False
        self.wanted_s = clock.monotonic()
        """When somebody last wanted to see it, by the clock."""
        self._bus = MemoryBus()
        self._troubled = asyncio.Event()
        self._views = views
        self._records = records
        self._order = asyncio.Lock()

    @property
    def end_recorded(self) -> bool:
        """Whether its end is in the record: it is over only once that is read there."""
        return self.ended

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return self._bus.listeners(self.episode_id) > 0

    def close(self) -> None:
        """Nothing more will come from here."""
        self._bus.finish(self.episode_id)

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Every event after ``head_seq``, as it is read."""
        return self._bus.subscribe(self.episode_id, overflow, capacity=capacity)

    def show_trouble(self, trouble: Trouble | None) -> None:
        """Whoever plays it cannot record it now, or can again; with whatever is recorded that is over."""
        if trouble != self.trouble:
            self.trouble = trouble
            told, self._troubled = self._troubled, asyncio.Event()
            told.set()

    async def news(self) -> Trouble | None:
        """Wait until another trouble is shown, or none any more; for ever where nobody tells of them."""
        await self._troubled.wait()
        return self.trouble

    async def wait(self) -> EpisodeEnded:
        """Nobody waits here for its end; see :attr:`ended`."""
        raise EpisodeNotFound(self.episode_id)

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
