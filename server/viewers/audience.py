"""Owns the viewers: who may enter, and who watches which episode."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from spectator.bus.base import Overflow, Subscription
from spectator.clock import Clock
from spectator.episodes.host.episode_view import EpisodeView

from ..settings import Settings
from . import wire
from .broadcaster import Outlet
from .shard import Rows
from .thoughts import Telling
from .viewer import Carrier, Viewer
from .wire import Batch, Close, Frame

RELAY_CAPACITY: Final = 8192
"""Events that may wait for the relay itself; it only ever lags within one turn of the loop."""

WAKE_CHUNK: Final = 25
"""Viewers for whom more than a write is done before others of the process get a turn: a beginning, an end."""

MATCH_TURNS: Final = 3
"""Turns of the loop that the match has to go on after a publication, before its viewers are written to."""

COUNT_INTERVAL_S: Final = 1.0
"""Least time between two tellings of the number of viewers."""


class Relay:
    """Hands an episode's events to its viewers in this process; every frame is made once.

    Args:
        live: The episode.
        subscription: Its events.
        clock: Waits.
        outlet: Writes.
    """

    def __init__(self, live: EpisodeView, subscription: Subscription, clock: Clock, outlet: Outlet) -> None:
        self.viewers = Rows()
        self.live = live
        self.telling = Telling(live.thinking)
        self._subscription = subscription
        self._clock = clock
        self._outlet = outlet
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._snapshot: Frame | None = None

    def snapshot(self) -> Frame:
        """The state that viewers see now; encoded once for all who come at the same point."""
        if self._snapshot is None or self._snapshot.seq != self.live.head_seq:
            self._snapshot = wire.snapshot(self.live.epoch, self.live.head_seq, self.live.state)
        return self._snapshot

    def count_changed(self) -> None:
        """Somebody came or left."""
        self._changed.set()

    async def run(self) -> None:
        """Relay until the episode ends or nobody watches."""
        async with asyncio.TaskGroup() as tasks:
            telling = [
                tasks.create_task(self._tell_count()),
                tasks.create_task(self._tell_trouble()),
                tasks.create_task(self.telling.go_on(self.say, self._clock)),
            ]
            async for batch in self._subscription:
                for _ in range(MATCH_TURNS):
                    await asyncio.sleep(0)
                await self._hand_over([wire.event_frame(recorded) for recorded in batch])
            for task in telling:
                task.cancel()
        await in_turns(self.viewers, self._end)

    def close(self) -> None:
        """Nobody watches any more."""
        self._subscription.close()

    async def say(self, frame: Frame) -> None:
        """Hand over a frame that is no event: it may be lost, and nobody is closed for not taking it."""
        async with self._turn:
            for batch in wire.batches([frame]):
                await self._hand_out(batch, Viewer.say)

    async def _hand_over(self, frames: Sequence[Frame]) -> None:
        async with self._turn:
            for batch in wire.batches(frames):
                await self._hand_out(batch, Viewer.offer)

    async def _hand_out(self, batch: Batch, otherwise: Callable[[Viewer, Batch], None]) -> None:
        rows = self.viewers.seat()
        for row in rows:
            self._outlet.hand_out(row, batch, otherwise)
            if row is not rows[-1]:
                await asyncio.sleep(0)

    async def _tell_trouble(self) -> None:
        told = self.live.trouble
        while True:
            found = await self.live.news()
            if found != told:
                await self._hand_over([wire.trouble(found)])
                told = found

    async def _tell_count(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._hand_over([wire.viewers(len(self.viewers))])
            await self._clock.sleep(COUNT_INTERVAL_S)

    def _end(self, viewer: Viewer) -> None:
        if viewer in self.viewers:
            if self._subscription.overflowed:
                viewer.expel(Close.TOO_SLOW)
            viewer.end()


class Audience:
    """All viewers of this process.

    Args:
        tasks: The group that relays run in.
        clock: Waits.
        settings: How many viewers, and how far each may fall behind.
        outlet: Writes to many at once.
    """

    def __init__(self, *, tasks: asyncio.TaskGroup, clock: Clock, settings: Settings, outlet: Outlet) -> None:
        self.closed: Counter[Close] = Counter()
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
        self._outlet = outlet
        self._viewers: dict[Viewer, str] = {}
        self._addresses: Counter[str] = Counter()
        self._relays: dict[str, Relay] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._viewers)

    def count(self, episode_id: str) -> int:
        """How many watch an episode."""
        relay = self._relays.get(episode_id)
        return 0 if relay is None else len(relay.viewers)

    def enter(self, address: str, carrier: Carrier) -> Viewer | None:
        """Let a viewer in, or ``None`` when there is no room for it."""
        settings = self._settings
        full = len(self._viewers) >= settings.max_viewers
        crowded = 0 < settings.max_viewers_per_address <= self._addresses[address]
        if full or crowded or self._closing:
            return None
        viewer = Viewer(carrier, settings.viewer_backlog_bytes)
        self._viewers[viewer] = address
        self._addresses[address] += 1
        return viewer

    def refusal(self) -> Close:
        """Why nobody is let in."""
        return Close.RESTARTING if self._closing else Close.FULL

    def leave(self, viewer: Viewer) -> None:
        """A viewer has gone."""
        address = self._viewers.pop(viewer)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def watch(self, viewer: Viewer, live: EpisodeView) -> Relay:
        """Let ``viewer`` have every event of ``live`` that is published from here on."""
        viewer.begin()
        relay = self._relays.get(live.episode_id) or self._open(live)
        relay.viewers.add(viewer)
        relay.count_changed()
        return relay

    def unwatch(self, viewer: Viewer, relay: Relay) -> None:
        """Let ``viewer`` have nothing more of an episode."""
        relay.viewers.discard(viewer)
        relay.count_changed()
        if not relay.viewers and self._relays.get(relay.live.episode_id) is relay:
            del self._relays[relay.live.episode_id]
            relay.close()

    async def send_away(self, within_s: float) -> None:
        """Tell every viewer to come back later, let none in, and wait at most ``within_s`` for them to go."""
        self._closing = True
        await in_turns(self._viewers, lambda viewer: viewer.expel(Close.RESTARTING))
        until = self._clock.monotonic() + within_s
        while self._viewers and self._clock.monotonic() < until:
            await self._clock.sleep(0.02)

    def _open(self, live: EpisodeView) -> Relay:
        subscription = live.subscribe(Overflow.CLOSE, capacity=RELAY_CAPACITY)
        relay = Relay(live, subscription, self._clock, self._outlet)
        self._relays[live.episode_id] = relay
        self._tasks.create_task(relay.run(), name=f"relay {live.episode_id}")
        return relay


async def in_turns(viewers: Iterable[Viewer], act: Callable[[Viewer], object]) -> None:
    """Do something that costs more than a write for each of ``viewers``; others get their turns meanwhile."""
    for place, viewer in enumerate(tuple(viewers), start=1):
        act(viewer)
        if place % WAKE_CHUNK == 0:
            await asyncio.sleep(0)
