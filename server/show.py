"""Owns what one viewer is shown: hello, where it stood, and every event from there on, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from spectator.episodes.supervisor import LiveEpisode
from spectator.journal.base import EpisodeSummary

from . import wire
from .audience import Viewer
from .wire import Close, Frame, Position
from .wiring import Services

MAX_MISSING: Final = 2000
"""Most events that are sent again to a viewer who resumes; one further behind gets a snapshot."""

READ_EVENTS: Final = 64
"""Events that are read at once for a viewer, since each may be large."""

Tell = Callable[[Sequence[Frame]], Awaitable[None]]
"""Sends frames to the viewer, waiting while it does not take them."""


class Show:
    """Shows episodes to one viewer.

    Args:
        services: Where episodes come from.
        viewer: What waits for it.
        tell: Sends to it.
    """

    def __init__(self, services: Services, viewer: Viewer, tell: Tell) -> None:
        self._services = services
        self._viewer = viewer
        self._tell = tell

    async def episode(self, episode_id: str, asked: Position | None) -> Close:
        """Show one episode, live or recorded, to its end.

        Args:
            episode_id: Which.
            asked: Where the viewer stood, if it says so.

        Returns:
            Why it is over.
        """
        live = self._services.supervisor.live(episode_id)
        if live is not None:
            await self._live(live, asked)
            return Close.ENDED
        summary = await self._services.journal.episode(episode_id)
        if summary is None:
            return Close.NOT_FOUND
        await self._recorded(summary, asked)
        return Close.ENDED

    async def whatever_is_on(self, asked: Position | None) -> Close:
        """Show the newest episode that runs, then the next, for ever."""
        shown: str | None = None
        told_waiting = False
        while True:
            live = self._newest_but(shown)
            if live is not None:
                await self._live(live, asked)
                shown, told_waiting, asked = live.episode_id, False, None
                continue
            if not told_waiting:
                told_waiting = True
                await self._tell([wire.waiting()])
            if self._newest_but(shown) is None:
                await self._services.stage.next_beginning()

    def _newest_but(self, shown: str | None) -> LiveEpisode | None:
        running = [
            live
            for live in self._services.supervisor.running()
            if live.head_seq and not live.ended and live.episode_id != shown
        ]
        return running[-1] if running else None

    async def _live(self, live: LiveEpisode, asked: Position | None) -> None:
        with self._services.audience.watching(self._viewer, live) as relay:
            viewer, head, snapshot = self._viewer, live.head_seq, relay.snapshot  # no await in between
            resumable = _provable(asked, live.epoch, head)
            first = None if resumable else snapshot()
            await self._tell([wire.hello(live.episode_id, live.epoch, head, len(relay.viewers))])
            if live.trouble is not None:
                await self._tell([wire.trouble(live.trouble)])
            if first is not None:
                await self._tell([first])
            elif asked is not None:
                await self._missing(live.episode_id, asked.seq, head)
            await self._tell(relay.telling.so_far())
            viewer.position = head
            while (batch := await viewer.take()) is not None:
                again, frames = batch
                if again is not None:
                    viewer.position = await self._again(live, again, viewer.position, snapshot)
                fresh = [frame for frame in frames if frame.seq is None or frame.seq > viewer.position]
                await self._tell(fresh)
                viewer.position = max([viewer.position, *(frame.seq for frame in fresh if frame.seq)])

    async def _again(
        self, live: LiveEpisode, asked: Position, position: int, snapshot: Callable[[], Frame]
    ) -> int:
        """Answer a viewer that asks to resume while it watches; returns where it stands then."""
        if _provable(asked, live.epoch, position):
            await self._missing(live.episode_id, asked.seq, position)
            return position
        frame = snapshot()
        await self._tell([frame])
        return frame.seq or 0

    async def _recorded(self, summary: EpisodeSummary, asked: Position | None) -> None:
        epoch, head = summary.epoch, summary.head_seq
        await self._tell([wire.hello(summary.episode_id, epoch, head, 0)])
        if asked is not None and _provable(asked, epoch, head):
            await self._missing(summary.episode_id, asked.seq, head)
        else:
            await self._tell([await self._services.finals.of(summary)])

    async def _missing(self, episode_id: str, after_seq: int, head: int) -> None:
        while after_seq < head:
            recorded = await self._services.journal.read(
                episode_id, after_seq=after_seq, limit=min(READ_EVENTS, head - after_seq)
            )
            if not recorded:
                return
            await self._tell([wire.event_frame(one) for one in recorded])
            after_seq = recorded[-1].event.seq


def _provable(asked: Position | None, epoch: str, head: int) -> bool:
    return asked is not None and asked.epoch == epoch and 0 <= asked.seq <= head <= asked.seq + MAX_MISSING
