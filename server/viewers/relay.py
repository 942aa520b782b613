"""Relays an episode's events to its viewers in this process; every frame is encoded once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from spectator.bus.base import Subscription
from spectator.clock import Clock
from spectator.episodes.host.episode_view import EpisodeView
from spectator.episodes.record.view import State

from ..close_codes import Close
from ..security.masking import NameMask, ShowsNames
from . import wire
from .broadcaster import Broadcaster
from .shard import Shards
from .thoughts import ThoughtFrames
from .viewer import Viewer
from .wire import Batch, Frame, Position

WAKE_CHUNK: Final = 25
"""Viewers for whom more than a write is done before others of the process get a turn: a start, an end."""

MATCH_TURNS: Final = 3
"""Turns of the loop that the match has to go on after a publication, before its viewers are written to."""

COUNT_INTERVAL_S: Final = 1.0
"""Least time between two frames with the number of viewers."""


class Relay:
    """Relays one episode to its viewers.

    Args:
        live: The episode.
        subscription: Its events.
        clock: Waits.
        broadcaster: Writes.
        observe: Takes the seconds that it took to write a publication to all viewers.
        names: Says which names are hidden.
        elsewhere: Tells how many watch an episode at other servers.
    """

    def __init__(
        self,
        live: EpisodeView,
        subscription: Subscription,
        clock: Clock,
        broadcaster: Broadcaster,
        observe: Callable[[float], None],
        names: ShowsNames,
        elsewhere: Callable[[str], int] = lambda episode_id: 0,
    ) -> None:
        self.viewers = Shards()
        self.live = live
        self.thoughts = ThoughtFrames(live.thinking, names, withheld=live.withholds)
        self._subscription = subscription
        self._clock = clock
        self._broadcaster = broadcaster
        self._observe = observe
        self.count_changed = asyncio.Event()
        """Set when somebody came or left."""
        self._turn = asyncio.Lock()
        self._names = names
        self._elsewhere = elsewhere
        self._snapshot: Frame | None = None
        self._snapshot_of: tuple[State | None, NameMask] = (None, names.mask)

    @property
    def total(self) -> int:
        """How many watch, here and at other servers."""
        return len(self.viewers) + self._elsewhere(self.live.episode_id)

    def snapshot(self) -> Frame:
        """The state that viewers see now; encoded once for all who come at the same point."""
        live, mask = self.live, self._names.mask
        state, masked_by = self._snapshot_of
        same = live.state is state and mask is masked_by
        if self._snapshot is None or self._snapshot.seq != live.head_seq or not same:
            whole = wire.snapshot(live.epoch, live.head_seq, live.state)
            self._snapshot = wire.masked(whole, mask) if mask.names else whole
            self._snapshot_of = (live.state, mask)
        return self._snapshot

    async def run(self) -> None:
        """Relay until the episode ends or nobody watches."""
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._send_counts()),
                tasks.create_task(self._send_troubles()),
                tasks.create_task(self.thoughts.run(self.send_lossy, self._clock)),
            ]
            async for batch in self._subscription:
                began = self._clock.monotonic()
                for _ in range(MATCH_TURNS):
                    await asyncio.sleep(0)
                await self._send([wire.event_frame(recorded) for recorded in batch])
                self._observe(self._clock.monotonic() - began)
            for task in beside:
                task.cancel()
        await in_turns(self.viewers, self._finish)

    async def show_again(self) -> None:
        """Send everybody a snapshot: what they were sent shows other names than are to be seen now."""
        nowhere = Position("", 0)
        await in_turns(self.viewers, lambda viewer: viewer.request_resume(nowhere))

    def close(self) -> None:
        """Nobody watches any more."""
        self._subscription.close()

    async def send_lossy(self, frame: Frame) -> None:
        """Send a frame that is no event: it may be lost, and nobody is closed for not taking it."""
        await self._send([frame], Viewer.send_lossy)

    async def _send(
        self, frames: Sequence[Frame], otherwise: Callable[[Viewer, Batch], None] = Viewer.send
    ) -> None:
        """Send ``frames`` to all, and ``otherwise`` to those who cannot be written to."""
        async with self._turn:
            mask = self._names.mask
            for batch in wire.batches(
                [wire.masked(frame, mask) for frame in frames] if mask.names else frames
            ):
                shards = self.viewers.assign()
                for shard in shards:
                    self._broadcaster.send(shard, batch, otherwise)
                    if shard is not shards[-1]:
                        await asyncio.sleep(0)

    async def _send_troubles(self) -> None:
        sent = self.live.trouble
        while True:
            found = await self.live.news()
            if found != sent:
                await self._send([wire.trouble(found)])
                sent = found

    async def _send_counts(self) -> None:
        while True:
            await self.count_changed.wait()
            self.count_changed.clear()
            await self._send([wire.viewers(self.total)])
            await self._clock.sleep(COUNT_INTERVAL_S)

    def _finish(self, viewer: Viewer) -> None:
        if viewer in self.viewers:
            if self._subscription.overflowed:
                viewer.evict(Close.TOO_SLOW)
            viewer.finish()


async def in_turns(viewers: Iterable[Viewer], act: Callable[[Viewer], object]) -> None:
    """Do something that costs more than a write for each of ``viewers``; others get their turns meanwhile."""
    for place, viewer in enumerate(tuple(viewers), start=1):
        act(viewer)
        if place % WAKE_CHUNK == 0:
            await asyncio.sleep(0)
