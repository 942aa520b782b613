"""Owns what one viewer is shown: hello, where it stood, and every event from there on, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spectator.episodes.host.episode_view import EpisodeView
from spectator.journal.base import EpisodeSummary

from ..http.archive import EPISODE_ID
from ..wiring import Services
from . import wire
from .audience import Relay
from .ports import Tell
from .viewer import Viewer
from .wire import Close, Frame, Position

MAX_MISSING: Final = 2000
"""Most events that are sent again to a viewer who resumes; one further behind gets a snapshot."""

READ_EVENTS: Final = 64
"""Events that are read at once for a viewer, since each may be large."""


class Show:
    """Shows one episode, live or recorded, or whatever is on, to one viewer.

    Args:
        services: Where episodes come from.
        viewer: What waits for it.
        tell: Sends to it.
        episode_id: Which; ``None`` for the newest that runs, then the next, for ever.
        asked: Where the viewer stood, if it says so.
    """

    __slots__ = (
        "_asked",
        "_episode_id",
        "_relay",
        "_services",
        "_shown",
        "_tell",
        "_told_waiting",
        "_viewer",
    )

    def __init__(
        self, services: Services, viewer: Viewer, tell: Tell, episode_id: str | None, asked: Position | None
    ) -> None:
        self._services = services
        self._viewer = viewer
        self._tell = tell
        self._episode_id = episode_id
        self._asked = asked
        self._relay: Relay | None = None
        self._shown: str | None = None
        self._told_waiting = False

    async def go_on(self) -> Close | None:
        """Show all that there is to show now; see :class:`server.viewers.ports.Showing`."""
        while True:
            if self._relay is None:
                close = await self._open()
                if close is not None or self._relay is None:
                    return close
            taken = self._viewer.take()
            if taken is not None:
                await self._answer(self._relay, *taken)
            elif not self._viewer.over:
                return None
            else:
                recorded = self._relay.live.end_recorded
                self.leave()
                if self._episode_id is not None:
                    return Close.ENDED if recorded else Close.UNRECORDED

    def leave(self) -> None:
        """Show nothing more; safe to call twice."""
        self._services.foyer.leave(self._viewer)
        if self._relay is not None:
            self._services.audience.unwatch(self._viewer, self._relay)
            self._relay = None

    async def _open(self) -> Close | None:
        """Begin with an episode, if there is one to begin with; why it is over, if it is."""
        if self._episode_id is None:
            await self._open_newest()
            return None
        if not EPISODE_ID.fullmatch(self._episode_id):
            return Close.NOT_FOUND
        live = await self._opened(self._services.supervisor.live(self._episode_id))
        if live is not None:
            await self._join(live)
            return None
        summary = await self._services.journal.episode(self._episode_id)
        if summary is None:
            return Close.NOT_FOUND
        await self._recorded(summary, self._asked)
        return Close.UNENDED if summary.reason is None else Close.ENDED

    async def _open_newest(self) -> None:
        """Begin with the newest episode that runs, or wait for the next."""
        if self._newest() is None and not self._told_waiting:
            self._told_waiting = True
            await self._tell([wire.waiting()])
        live = await self._opened(self._newest())
        if live is None:
            self._services.foyer.enter(self._viewer)
        else:
            self._shown, self._told_waiting = live.episode_id, False
            await self._join(live)

    async def _opened(self, live: EpisodeView | None) -> EpisodeView | None:
        """The episode with its view up to date; ``None`` when it is no longer on by then."""
        if live is None:
            return None
        await live.open()
        return self._services.supervisor.live(live.episode_id)

    def _newest(self) -> EpisodeView | None:
        running = [
            live
            for live in self._services.supervisor.showing()
            if live.head_seq and not live.ended and live.episode_id != self._shown
        ]
        return running[-1] if running else None

    async def _join(self, live: EpisodeView) -> None:
        viewer, asked, self._asked = self._viewer, self._asked, None
        self._relay = relay = self._services.audience.watch(viewer, live)
        head = live.head_seq  # no await in between
        resumable = _provable(asked, live.epoch, head)
        first = None if resumable else relay.snapshot()
        await self._tell([wire.hello(live.episode_id, live.epoch, head, len(relay.viewers))])
        if live.trouble is not None:
            await self._tell([wire.trouble(live.trouble)])
        if first is not None:
            await self._tell([first])
        elif asked is not None:
            await self._missing(live.episode_id, asked.seq, head)
        await self._tell(relay.telling.so_far())
        viewer.position = head

    async def _answer(self, relay: Relay, again: Position | None, frames: Sequence[Frame]) -> None:
        """Send what waited, after what the viewer says it misses."""
        viewer = self._viewer
        if again is not None:
            viewer.position = await self._again(relay, again, viewer.position)
        fresh = [frame for frame in frames if frame.seq is None or frame.seq > viewer.position]
        await self._tell(fresh)
        viewer.position = max([viewer.position, *(frame.seq for frame in fresh if frame.seq)])

    async def _again(self, relay: Relay, asked: Position, position: int) -> int:
        """Answer a viewer that asks to resume while it watches; returns where it stands then."""
        if _provable(asked, relay.live.epoch, position):
            await self._missing(relay.live.episode_id, asked.seq, position)
            return position
        frame = relay.snapshot()
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
