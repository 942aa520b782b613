"""An episode that another process plays, as its viewers here see it; how it is followed, its kinds say."""

from __future__ import annotations

import asyncio
from datetime import datetime

from spectator.bus.base import Overflow, Subscription
from spectator.bus.memory import MemoryBus
from spectator.clock import Clock
from spectator.episodes.record.recorder import Trouble
from spectator.episodes.record.view import State
from spectator.episodes.run.partial_decision import Thinking
from spectator.errors import EpisodeNotFound
from spectator.events import EpisodeEnded


class RemoteView:
    """The part of an :class:`~spectator.episodes.host.episode_view.EpisodeView` that is the same however an
    episode is followed.

    Args:
        episode_id: Its id.
        epoch: Identity of its numbering.
        started_at: When it began, or was come to.
        clock: Time.
        withholds: Whether viewers are shown what is thought only together with what it led to.
    """

    def __init__(
        self, episode_id: str, epoch: str, started_at: datetime, clock: Clock, *, withholds: bool = False
    ) -> None:
        self.withholds = withholds
        self.trouble: Trouble | None = None
        self.episode_id = episode_id
        self.epoch = epoch
        self.started_at = started_at
        self.thinking = Thinking(clock)
        self.head_seq = 0
        self.state: State = {}
        self.turn = 0
        self.ended = False
        self.wanted_s = clock.monotonic()
        """When somebody last wanted to see it, by the clock."""
        self._bus = MemoryBus()
        self._troubled = asyncio.Event()

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
