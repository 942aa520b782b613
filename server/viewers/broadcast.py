"""Broadcast an episode's events to its viewers; every frame is encoded once.

Viewers are grouped in shards. Those that have received everything are written to in one compiled call if
it was built, else one by one. Frames of decisions in progress are sent at a bounded rate.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from spectator.bus import Subscription
from spectator.clock import Clock
from spectator.episodes.decisions import KEPT, PartialDecision, Thinking
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.view import State

from ..security.faults import Close
from ..security.masking import NameMask, NameMaskSource
from . import wire
from .viewer import Viewer
from .wire import Batch, Frame, Position

SHARD_SIZE: Final = 200
"""Viewers that are written to together."""


class Shard:
    """Viewers that are written to together: those in sync by socket, lagging ones one by one.

    Viewers in sync have everything up to the same event, and take bytes. Their sockets are in one array, so
    that sending a message looks up nothing per viewer. A viewer that falls behind is demoted.
    """

    __slots__ = ("descriptors", "in_sync", "lagging", "position")

    def __init__(self) -> None:
        self.lagging: dict[Viewer, None] = {}
        self.in_sync: list[Viewer] = []
        self.descriptors: array[int] = array("i")
        """Sockets of the viewers in sync, in their order."""
        self.position = 0
        """The last event that viewers in sync have."""

    def __len__(self) -> int:
        return len(self.lagging) + len(self.in_sync)

    def promote(self, viewers: Iterable[Viewer], descriptors: Iterable[int]) -> None:
        """Move lagging ``viewers`` that have caught up to those in sync."""
        for viewer in viewers:
            del self.lagging[viewer]
            self.in_sync.append(viewer)
            viewer.sync_group = self
        self.descriptors.extend(descriptors)

    def demote(self, viewer: Viewer) -> None:
        """Move a viewer in sync to the lagging ones."""
        place = self.in_sync.index(viewer)
        del self.in_sync[place], self.descriptors[place]
        self.lagging[viewer] = None
        viewer.sync_group, viewer.position = None, self.position

    def demote_all(self) -> None:
        """Demote all viewers in sync."""
        for viewer in tuple(self.in_sync):
            self.demote(viewer)


class Shards:
    """All viewers of an episode.

    A newcomer is in no shard until :meth:`assign` is called.
    """

    def __init__(self) -> None:
        self._shard_of: dict[Viewer, Shard | None] = {}
        self._newcomers: dict[Viewer, None] = {}
        self._shards: list[Shard] = []

    def __len__(self) -> int:
        return len(self._shard_of)

    def __iter__(self) -> Iterator[Viewer]:
        return iter(self._shard_of)

    def __contains__(self, viewer: Viewer) -> bool:
        return viewer in self._shard_of

    def add(self, viewer: Viewer) -> None:
        """Add a viewer."""
        self._shard_of[viewer] = None
        self._newcomers[viewer] = None

    def discard(self, viewer: Viewer) -> None:
        """Remove a viewer, if present."""
        self._newcomers.pop(viewer, None)
        shard = self._shard_of.pop(viewer, None)
        if shard is None:
            return
        if viewer.sync_group is not None:
            viewer.sync_group.demote(viewer)
        del shard.lagging[viewer]
        if not shard:
            self._shards.remove(shard)

    def assign(self) -> tuple[Shard, ...]:
        """Assign newcomers to shards; return all shards."""
        newcomers, self._newcomers = self._newcomers, {}
        free = [shard for shard in self._shards if len(shard) < SHARD_SIZE] if newcomers else []
        for viewer in newcomers:
            if not free:
                free.append(Shard())
                self._shards.append(free[-1])
            shard = self._shard_of[viewer] = free[-1]
            shard.lagging[viewer] = None
            if len(shard) == SHARD_SIZE:
                free.pop()
        return tuple(self._shards)


SendToEach = Callable[["array[int]", bytes], list[tuple[int, int]]]
"""Sends bytes to each socket without waiting; returns (index, bytes taken) of those that did not take all."""

Fallback = Callable[[Viewer, Batch], None]
"""Handles a viewer that cannot be written to."""


class Broadcaster:
    """Sends a batch to the viewers of a shard.

    Args:
        send_to_each: The compiled loop; without it each viewer's transport writes.
    """

    def __init__(self, send_to_each: SendToEach | None = None) -> None:
        self._send_to_each = send_to_each

    def send(self, shard: Shard, batch: Batch, otherwise: Fallback) -> None:
        """Send ``batch`` to viewers that can take it; ``otherwise`` handles others.

        A viewer that has caught up has an empty transport buffer, so bytes that bypass the transport overtake
        nothing. What the kernel does not take goes to the transport, which makes the viewer hold.
        """
        if batch.first is not None and batch.first <= shard.position:
            shard.demote_all()
        lagging, send_to_each = tuple(shard.lagging), self._send_to_each
        shard.position = batch.last or shard.position
        if send_to_each is not None and shard.in_sync:
            behind = send_to_each(shard.descriptors, batch.message)
            if behind:
                _write_rest(tuple(shard.in_sync), batch, behind)
        if not lagging:
            return
        straight, descriptors = [], array("i")
        for viewer in lagging:
            if not viewer.is_ready_for(batch):
                otherwise(viewer, batch)
                continue
            viewer.position = batch.last or viewer.position
            if send_to_each is None or (descriptor := viewer.descriptor) is None:
                viewer.write(batch.message)
            else:
                straight.append(viewer)
                descriptors.append(descriptor)
        if send_to_each is not None and straight:
            behind = send_to_each(descriptors, batch.message)
            if batch.last is not None:
                shard.promote(straight, descriptors)
            _write_rest(straight, batch, behind)


def _write_rest(viewers: Sequence[Viewer], batch: Batch, behind: Iterable[tuple[int, int]]) -> None:
    for place, taken in behind:
        viewers[place].write(batch.message[taken:])


INTERVAL_S: Final = 0.05
"""Least seconds between two thought frames of one episode."""

WHOLE_EVERY: Final = 20
"""Frames after which one repeats everything, for viewers that missed one."""


class ThoughtFrames:
    """Makes frames of the thoughts in one episode, each with what is new.

    Args:
        names: Hidden names. While there are any, every frame repeats everything, since a name may arrive in
            parts that do not match it.
        withheld: Whether viewers see only the actor and the elapsed time, not the thoughts.
    """

    def __init__(self, thinking: Thinking, names: NameMaskSource, *, withheld: bool = False) -> None:
        self._thinking = thinking
        self._names = names
        self._withheld = withheld
        self._last: PartialDecision | None = None
        self._revision = 0
        self._heard = 0
        self._part = 0
        self._over = False

    async def run(self, send: Callable[[Frame], Awaitable[None]], clock: Clock) -> None:
        """Send frames until cancelled.

        Args:
            send: Sends a frame to viewers that keep up; others miss it.
        """
        known = -1
        while True:
            known = await self._thinking.change(known)
            frame = self.next()
            if frame is not None:
                await send(frame)
            await clock.sleep(INTERVAL_S)

    def next(self) -> Frame | None:
        """Return the next frame; ``None`` if nothing is new."""
        forming = self._thinking.forming
        is_new = forming is not self._last
        if forming is None or (is_new and forming.over) or (not is_new and self._over):
            return None
        if self._withheld and not is_new and not forming.over:
            return None
        self._part = 0 if is_new else self._part + 1
        whole = is_new or forming.revision != self._revision or self._part % WHOLE_EVERY == 0
        whole = whole or bool(self._names.mask.names)
        grown = None if whole else forming.since(self._heard)
        self._last, self._revision, self._heard = forming, forming.revision, forming.heard
        self._over = forming.over
        return self._frame(forming, grown)

    def so_far(self) -> list[Frame]:
        """Return what a new viewer is sent, so that the next frame continues it."""
        forming = self._last
        if forming is None or self._over or forming.over or forming.revision != self._revision:
            return []
        return [self._frame(forming, None)]

    def _frame(self, forming: PartialDecision, grown: tuple[str, str] | None) -> Frame:
        thought, answer = forming.newest(self._heard) if grown is None else grown
        if (mask := self._names.mask).names:
            thought, answer = (
                mask.forming(text, cut=len(text) == KEPT, over=forming.over) for text in (thought, answer)
            )
        if self._withheld:
            thought = answer = ""
        return wire.thought(
            forming.actor,
            forming.turn,
            part=self._part,
            whole=grown is None,
            done=forming.over,
            elapsed_s=round(self._thinking.elapsed_s(forming), 2),
            thought=thought,
            answer=answer,
            **({"withheld": True} if self._withheld else {}),
        )


WAKE_CHUNK: Final = 25
"""Viewers that are woken or finished before other tasks get a turn."""

MATCH_TURNS: Final = 3
"""Loop iterations that the match gets after publishing, before its viewers are written to."""

COUNT_INTERVAL_S: Final = 1.0
"""Least seconds between two frames with the viewer count."""


class Relay:
    """Relays one episode to its viewers.

    Args:
        observe: Called with the seconds that writing events to all viewers took.
    """

    def __init__(
        self,
        live: EpisodeView,
        subscription: Subscription,
        clock: Clock,
        broadcaster: Broadcaster,
        observe: Callable[[float], None],
        names: NameMaskSource,
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
        """Set when a viewer comes or leaves."""
        self._turn = asyncio.Lock()
        self._names = names
        self._elsewhere = elsewhere
        self._snapshot: Frame | None = None
        self._snapshot_of: tuple[State | None, NameMask] = (None, names.mask)

    @property
    def total(self) -> int:
        """Viewers at all servers."""
        return len(self.viewers) + self._elsewhere(self.live.episode_id)

    def snapshot(self) -> Frame:
        """Return the current state, encoded once per event."""
        live, mask = self.live, self._names.mask
        state, masked_by = self._snapshot_of
        same = live.state is state and mask is masked_by
        if self._snapshot is None or self._snapshot.seq != live.head_seq or not same:
            whole = wire.snapshot(live.epoch, live.head_seq, live.state)
            self._snapshot = wire.masked(whole, mask) if mask.names else whole
            self._snapshot_of = (live.state, mask)
        return self._snapshot

    async def run(self) -> None:
        """Relay until the episode ends or the relay is closed."""
        async with asyncio.TaskGroup() as tasks:
            helpers = [
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
            for task in helpers:
                task.cancel()
        await in_turns(self.viewers, self._finish)

    async def show_again(self) -> None:
        """Send all viewers a new snapshot, since the hidden names have changed."""
        nowhere = Position("", 0)
        await in_turns(self.viewers, lambda viewer: viewer.request_resume(nowhere))

    def close(self) -> None:
        """Stop relaying, since there are no viewers left."""
        self._subscription.close()

    async def send_lossy(self, frame: Frame) -> None:
        """Send a frame that is not an event: viewers that lag miss it."""
        await self._send([frame], Viewer.send_lossy)

    async def _send(
        self, frames: Sequence[Frame], otherwise: Callable[[Viewer, Batch], None] = Viewer.send
    ) -> None:
        """Send ``frames``; ``otherwise`` handles viewers that cannot be written to."""
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
    """Call ``act`` for each viewer, and let other tasks run in between."""
    for place, viewer in enumerate(tuple(viewers), start=1):
        act(viewer)
        if place % WAKE_CHUNK == 0:
            await asyncio.sleep(0)
