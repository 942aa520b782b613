"""An episode and its peers for tests, within one event loop and without sockets."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from server.security.faults import Close
from server.security.masking import NameMask
from server.viewers import wire
from server.viewers.audience import Audience, AudienceLimits, EpisodeSignals
from server.viewers.broadcast import Broadcaster
from server.viewers.feed import EpisodeFeed, NextEpisodeWaiters
from server.viewers.viewer import Viewer
from server.viewers.wire import Frame, Position
from spectator.bus import MemoryBus, Overflow, Subscription
from spectator.episodes.decisions import Thinking
from spectator.events import Event, RecordedEvent, record
from spectator.json_values import apply_patch
from tests.fakes import ManualClock

EPISODE = "ep-01ARZ3NDEKTSV4RRFFQ69G5FAV"
EPOCH = "ab"


def in_tasks(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make ``test(tasks, ...)`` a test that runs in a task group on an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def within() -> None:
            async with asyncio.TaskGroup() as tasks:
                await test(tasks, **fixtures)

        asyncio.run(within())

    first, *others = inspect.signature(test).parameters.values()
    assert first.name == "tasks"
    run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    return run


async def settle(turns: int = 30) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


def patch_of(seq: int) -> dict[str, Any]:
    """What event ``seq`` changes; it depends on the order, so that no fold of other events is the same."""
    return {"n": seq, "last": {str(seq % 7): seq, str((seq + 3) % 7): None}}


class Names:
    """The names that are hidden.

    Args:
        hidden: At first.
    """

    def __init__(self, *hidden: str) -> None:
        self.mask = NameMask(hidden)


class Play:
    """An episode that runs, and everything that a show asks of its services.

    Args:
        tasks: The group that its relays run in.
        limits: See :class:`AudienceLimits`.
    """

    by_sockets = False
    """Whether peers are written to as by the compiled loop, past their carriers."""

    def __init__(self, tasks: asyncio.TaskGroup, **limits: Any) -> None:
        self.episode_id, self.epoch, self.state = EPISODE, EPOCH, dict[str, Any]()
        self.ended = self.end_recorded = self.withholds = False
        self.events: list[RecordedEvent] = []
        self.signals = EpisodeSignals(MemoryBus())
        self.clock = ManualClock()
        self.names = Names()
        self.audience = Audience(
            tasks=tasks,
            clock=self.clock,
            limits=AudienceLimits(**limits),
            broadcaster=Broadcaster(self._send_to_each if self.by_sockets else None),
            names=self.names,
        )
        self._sockets: list[Peer] = []
        self.waiters = NextEpisodeWaiters(self.signals.next_start, tasks)
        self.episodes = self.records = self.left = self
        self.reads = 0
        self.thinking = Thinking(ManualClock())
        self.trouble = self.cast = None

    async def news(self) -> None:
        """Nothing goes wrong."""
        await asyncio.get_running_loop().create_future()

    @property
    def head_seq(self) -> int:
        """Events so far."""
        return len(self.events)

    def live(self, episode_id: str) -> Any:
        """The episode runs."""
        return self

    async def settled(self, episode_id: str, seen_seq: int = 0) -> None:
        """No episode is being recovered."""

    async def open(self) -> None:
        """The state is always up to date."""

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Every event from here on."""
        return self.signals.subscribe(EPISODE, overflow, capacity=capacity)

    async def suspended(self, episode_id: str) -> bool:
        """It never was."""
        return False

    async def read(self, episode_id: str, *, after_seq: int, limit: int) -> Sequence[RecordedEvent]:
        """Events as a journal gives them: a while later."""
        await asyncio.sleep(0)
        self.reads += 1
        return self.events[after_seq : after_seq + limit]

    def publish(self, count: int = 1, padding: int = 0) -> None:
        """Record and publish the next events."""
        self.signals.publish([self._next(padding) for _ in range(count)])

    async def say(self, text: str) -> None:
        """Say what is no event to whoever watches."""
        for relay in tuple(self.audience._relays.values()):
            await relay.send_lossy(Frame(text))

    def begin(self) -> None:
        """Let the signals know of a beginning."""
        self.signals.publish([record(Event(EPISODE, EPOCH, 1, "", 0, "episode.started", {}, {}))])

    def end(self) -> None:
        """Publish nothing more."""
        self.ended = self.end_recorded = True
        self.signals.finish(EPISODE)

    def enter(self, address: str = "here") -> tuple[Viewer, Seat]:
        """Let somebody in who writes nothing down; the viewer, and what becomes of it."""
        seat = Seat()
        viewer = self.audience.admit(address, seat)
        assert viewer is not None
        return viewer, seat

    def socket_of(self, peer: Peer) -> int | None:
        """A number by which a peer is written to."""
        self._sockets.append(peer)
        return len(self._sockets) - 1 if self.by_sockets else None

    def _send_to_each(self, descriptors: array[int], message: bytes) -> list[tuple[int, int]]:
        takes = [self._sockets[number].takes(message) for number in descriptors]
        return [(place, 0) for place, taken in enumerate(takes) if not taken]

    def _next(self, padding: int) -> RecordedEvent:
        seq = self.head_seq + 1
        event = Event(EPISODE, EPOCH, seq, "", 0, "warning", {"message": "x" * padding}, patch_of(seq))
        self.events.append(record(event))
        self.state = apply_patch(self.state, event.patch)
        return self.events[-1]


class Seat:
    """A transport that only notes what it is told."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.free_now = False
        self.woken = 0
        self.closes: list[Close] = []

    @property
    def write(self) -> Callable[[bytes], None]:
        """Keeps what is written."""
        return self.written.append

    @property
    def descriptor(self) -> int | None:
        """There is no socket."""
        return None

    def writable(self) -> bool:
        """As a test sets it."""
        return self.free_now

    def wake(self) -> None:
        """Count."""
        self.woken += 1

    def evict(self, close: Close) -> None:
        """Keep why."""
        self.closes.append(close)


class Peer:
    """A viewer at the end of a connection that may hold bytes back; it folds what arrives.

    What is written while it stalls goes as far as the connection; then that is not writable any more.

    Args:
        play: What it watches.
    """

    def __init__(self, play: Play) -> None:
        self.play = play
        self.viewer: Viewer | None = None
        self.state: Any = {}
        self.seq = 0
        self.straight = self.taken = self.snapshots = 0
        self.heard: list[int] = []
        self.said: list[dict[str, Any]] = []
        self.closes: list[Close] = []
        self._stalled = False
        self._held = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._show: EpisodeFeed | None = None
        self._showing: asyncio.Task[None] | None = None

    # What a transport does.

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes at once."""
        return self._write_straight

    @property
    def descriptor(self) -> int | None:
        """What stands for its socket."""
        return self.play.socket_of(self)

    def takes(self, data: bytes) -> bool:
        """Take what is sent past the transport; whether there was room for it."""
        if not self._stalled:
            self._write_straight(data)
        return not self._stalled

    def writable(self) -> bool:
        """Whether nothing is held back."""
        return self._writable.is_set()

    def wake(self) -> None:
        """Show what there is to show, in a task of its own."""
        if self._show is not None and (self._showing is None or self._showing.done()):
            self._showing = asyncio.get_running_loop().create_task(self._go_on(self._show))

    def evict(self, close: Close) -> None:
        """The connection ends; what it held back is lost."""
        self.closes.append(close)
        self._let_go()

    # What a test does.

    def stall(self) -> None:
        """Stop reading."""
        self._stalled = True

    def read_on(self) -> None:
        """Read everything that was held back, and go on."""
        self._stalled = False
        held, self._held = self._held, b""
        self._apply(held)
        self._writable.set()

    def join(self, *, resume: bool = True) -> None:
        """Connect, unless connected."""
        if self.viewer is None:
            asked = Position(EPOCH, self.seq) if resume and self.seq else None
            self.viewer = self.play.audience.admit("here", self)
            assert self.viewer is not None
            services: Any = self.play
            self._show = EpisodeFeed(services, self.viewer, self._tell, EPISODE, asked)
            self.wake()

    def leave(self) -> None:
        """Vanish; what was held back is lost."""
        if self.viewer is not None:
            self._let_go()

    def ask(self, position: Position) -> None:
        """Say on an open connection that something is missing."""
        if self.viewer is not None:
            self.viewer.request_resume(position)

    def _let_go(self) -> None:
        assert self.viewer is not None and self._show is not None
        if self._showing is not None and self._showing is not asyncio.current_task():
            self._showing.cancel()
        self._show.leave()
        self.play.audience.leave(self.viewer)
        self.viewer = self._show = self._showing = None
        self._held, self._stalled = b"", False
        self._writable.set()

    async def _go_on(self, show: EpisodeFeed) -> None:
        close = await show.drain()
        if close is not None:
            self.evict(close)

    async def _tell(self, frames: Sequence[Frame]) -> None:
        for batch in wire.batches(frames):
            await self._writable.wait()
            self.taken += 1
            self._write(batch.message)

    def _write_straight(self, data: bytes) -> None:
        assert self._writable.is_set() and self.viewer is not None
        self.straight += 1
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._stalled:
            self._held += data
            self._writable.clear()
            if self.viewer is not None:
                self.viewer.hold()
        else:
            self._apply(data)

    def _apply(self, data: bytes) -> None:
        for text in unframed(data):
            self._take(json.loads(text))

    def _take(self, fields: dict[str, Any]) -> None:
        if fields["frame"] == "snapshot":
            self.state, self.seq = fields["state"], fields["seq"]
            self.snapshots += 1
        elif fields["frame"] == "event":
            self.heard.append(fields["seq"])
            if fields["seq"] > self.seq:
                assert fields["seq"] == self.seq + 1, f"a gap between {self.seq} and {fields['seq']}"
                self.state, self.seq = apply_patch(self.state, fields["patch"]), fields["seq"]
        else:
            self.said.append(fields)


def unframed(data: bytes) -> list[bytes]:
    """The payloads of whole, unmasked messages."""
    payloads = []
    while data:
        assert data[0] == 0x81 and data[1] < 128
        width = {126: 2, 127: 8}.get(data[1], 0)
        length = int.from_bytes(data[2 : 2 + width], "big") if width else data[1]
        payloads.append(data[2 + width : 2 + width + length])
        assert len(payloads[-1]) == length
        data = data[2 + width + length :]
    return payloads


async def seated(play: Play, count: int) -> list[Peer]:
    """Peers that have joined and caught up."""
    peers = [Peer(play) for _ in range(count)]
    for peer in peers:
        peer.join()
    await settle()
    return peers
