"""Owns the viewers: who may enter, who watches which episode, and what waits for each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from spectator.bus.base import Bus, Overflow, Subscription
from spectator.clock import Clock
from spectator.episodes.supervisor import LiveEpisode

from . import wire
from .settings import Settings
from .thoughts import Telling
from .wire import Batch, Close, Frame, Position

RELAY_CAPACITY: Final = 8192
"""Events that may wait for the relay itself; it only ever lags within one turn of the loop."""

CHUNK: Final = 50
"""Viewers that are served before others of the process get a turn."""

COUNT_INTERVAL_S: Final = 1.0
"""Least time between two tellings of the number of viewers."""


class Viewer:
    """The way to one viewer: straight to its connection while it keeps up, else through what waits for it.

    Args:
        backlog_bytes: What may wait before it is closed as too slow.
    """

    __slots__ = (
        "_asked",
        "_backlog_bytes",
        "_bytes",
        "_caught_up",
        "_expelled",
        "_free",
        "_over",
        "_waiting",
        "_wake",
        "_write",
        "position",
    )

    def __init__(self, backlog_bytes: int) -> None:
        self.position = 0
        """It was sent everything up to here."""
        self._write: Callable[[bytes], None] = _nowhere
        self._free: Callable[[], bool] = _never
        self._caught_up = False
        self._backlog_bytes = backlog_bytes
        self._waiting: list[Frame] = []
        self._bytes = 0
        self._asked: Position | None = None
        self._wake = asyncio.Event()
        self._over = False
        self._expelled: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    def go_straight(self, write: Callable[[bytes], None], free: Callable[[], bool]) -> None:
        """From here on, write to whoever has caught up without anything waiting in between.

        Args:
            write: Writes to the connection at once.
            free: Whether the connection holds nothing back; :meth:`hold` tells when it begins to.
        """
        self._write = write
        self._free = free

    def hold(self) -> None:
        """The connection holds bytes back, or is gone: what comes now waits until it is taken."""
        self._caught_up = False

    def offer(self, batch: Batch) -> None:
        """Write ``batch``, or let it wait behind what does; a viewer too far behind is expelled instead."""
        if self._caught_up and (batch.first is None or batch.first > self.position):
            self.position = batch.last or self.position
            self._write(batch.message)
            return
        if self._expelled.done():
            return
        self._bytes += batch.size
        if self._bytes > self._backlog_bytes:
            self.expel(Close.TOO_SLOW)
            return
        self._waiting.extend(batch.frames)
        self._rouse()

    def say(self, batch: Batch) -> None:
        """Write what is no event, or let it wait if nothing does; a viewer further behind misses it."""
        if self._caught_up or not self._waiting:
            self.offer(batch)

    def ask(self, position: Position) -> None:
        """Let the viewer's wish to resume wait for its turn; a later one replaces it."""
        self._asked = position
        self._rouse()

    def end(self) -> None:
        """Nothing more comes after what waits."""
        self._over = True
        self._rouse()

    def begin(self) -> None:
        """Be ready for another episode."""
        self._over = False
        self._forget()

    def expel(self, close: Close) -> None:
        """End the connection; what waits is forgotten."""
        if not self._expelled.done():
            self._expelled.set_result(close)
        self._caught_up = False
        self._forget()

    async def expelled(self) -> Close:
        """Wait until the connection must end."""
        return await asyncio.shield(self._expelled)

    async def take(self) -> tuple[Position | None, Sequence[Frame]] | None:
        """A wish to resume, if there is one, and every frame that waits, as soon as there is either.

        Returns:
            ``None`` at the end of the episode.
        """
        while not self._waiting and self._asked is None:
            if self._over:
                return None
            self._wake.clear()
            self._caught_up = self._free() and not self._expelled.done()
            await self._wake.wait()
        batch = (self._asked, self._waiting)
        self._forget()
        return batch

    def _rouse(self) -> None:
        self._caught_up = False
        self._wake.set()

    def _forget(self) -> None:
        self._waiting = []
        self._bytes = 0
        self._asked = None


def _nowhere(data: bytes) -> None:
    raise NotImplementedError


def _never() -> bool:
    return False


class Relay:
    """Hands an episode's events to its viewers in this process; every frame is made once.

    Args:
        live: The episode.
        subscription: Its events.
        clock: Waits.
    """

    def __init__(self, live: LiveEpisode, subscription: Subscription, clock: Clock) -> None:
        self.viewers: dict[Viewer, None] = {}
        self.live = live
        self.telling = Telling(live.thinking)
        self._subscription = subscription
        self._clock = clock
        self._changed = asyncio.Event()
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
                await self._hand_over([wire.event_frame(recorded) for recorded in batch])
            for task in telling:
                task.cancel()
        for viewer in tuple(self.viewers):
            if self._subscription.overflowed:
                viewer.expel(Close.TOO_SLOW)
            viewer.end()

    def close(self) -> None:
        """Nobody watches any more."""
        self._subscription.close()

    async def say(self, frame: Frame) -> None:
        """Hand over a frame that is no event: it may be lost, and nobody is closed for not taking it."""
        for batch in wire.batches([frame]):
            for place, viewer in enumerate(tuple(self.viewers), start=1):
                viewer.say(batch)
                if place % CHUNK == 0:
                    await asyncio.sleep(0)

    async def _hand_over(self, frames: Sequence[Frame]) -> None:
        for batch in wire.batches(frames):
            for place, viewer in enumerate(tuple(self.viewers), start=1):
                viewer.offer(batch)
                if place % CHUNK == 0:
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


class Audience:
    """All viewers of this process.

    Args:
        bus: Where events come from.
        tasks: The group that relays run in.
        clock: Waits.
        settings: How many viewers, and how far each may fall behind.
    """

    def __init__(self, *, bus: Bus, tasks: asyncio.TaskGroup, clock: Clock, settings: Settings) -> None:
        self.closed: Counter[Close] = Counter()
        self._bus = bus
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
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

    def enter(self, address: str) -> Viewer | None:
        """Let a viewer in, or ``None`` when there is no room for it."""
        settings = self._settings
        full = len(self._viewers) >= settings.max_viewers
        crowded = 0 < settings.max_viewers_per_address <= self._addresses[address]
        if full or crowded or self._closing:
            return None
        viewer = Viewer(settings.viewer_backlog_bytes)
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

    @contextmanager
    def watching(self, viewer: Viewer, live: LiveEpisode) -> Iterator[Relay]:
        """Let ``viewer`` have every event of ``live`` that is published from here on."""
        viewer.begin()
        relay = self._relays.get(live.episode_id) or self._open(live)
        relay.viewers[viewer] = None
        relay.count_changed()
        try:
            yield relay
        finally:
            relay.viewers.pop(viewer, None)
            relay.count_changed()
            if not relay.viewers and self._relays.get(live.episode_id) is relay:
                del self._relays[live.episode_id]
                relay.close()

    async def send_away(self, within_s: float) -> None:
        """Tell every viewer to come back later, let none in, and wait at most ``within_s`` for them to go."""
        self._closing = True
        for viewer in tuple(self._viewers):
            viewer.expel(Close.RESTARTING)
        until = self._clock.monotonic() + within_s
        while self._viewers and self._clock.monotonic() < until:
            await self._clock.sleep(0.02)

    def _open(self, live: LiveEpisode) -> Relay:
        subscription = self._bus.subscribe(live.episode_id, Overflow.CLOSE, capacity=RELAY_CAPACITY)
        relay = Relay(live, subscription, self._clock)
        self._relays[live.episode_id] = relay
        self._tasks.create_task(relay.run(), name=f"relay {live.episode_id}")
        return relay
