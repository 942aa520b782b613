"""The straight way to viewers that keep up, and what becomes of those that do not."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from server import audience as rooms
from server import wire
from server.audience import Audience, Viewer
from server.settings import Settings
from server.show import MAX_MISSING, Show
from server.wire import Batch, Close, Frame, Position
from spectator.bus.memory import MemoryBus
from spectator.episodes.thinking import Thinking
from spectator.events import Event, RecordedEvent, record
from spectator.merge_patch import apply_patch
from tests.fakes import ManualClock

EPISODE = "ep-1"
EPOCH = "ab"


def patch_of(seq: int) -> dict[str, Any]:
    """What event ``seq`` changes; it depends on the order, so that no fold of other events is the same."""
    return {"n": seq, "last": {str(seq % 7): seq, str((seq + 3) % 7): None}}


class Play:
    """An episode that runs, and everything that a show asks of its services."""

    def __init__(self, tasks: asyncio.TaskGroup, **settings: Any) -> None:
        self.episode_id, self.epoch, self.state = EPISODE, EPOCH, dict[str, Any]()
        self.events: list[RecordedEvent] = []
        self.bus = MemoryBus()
        self.audience = Audience(
            bus=self.bus, tasks=tasks, clock=ManualClock(), settings=Settings(**settings)
        )
        self.supervisor = self.journal = self
        self.reads = 0
        self.thinking = Thinking(ManualClock())
        self.trouble = None

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

    async def read(self, episode_id: str, *, after_seq: int, limit: int) -> Sequence[RecordedEvent]:
        """Events as a journal gives them: a while later."""
        await asyncio.sleep(0)
        self.reads += 1
        return self.events[after_seq : after_seq + limit]

    def publish(self, count: int, padding: int = 0) -> None:
        """Record and publish the next events."""
        new = [self._next(padding) for _ in range(count)]
        self.bus.publish(new)

    def _next(self, padding: int) -> RecordedEvent:
        seq = self.head_seq + 1
        event = Event(EPISODE, EPOCH, seq, "", 0, "warning", {"message": "x" * padding}, patch_of(seq))
        self.events.append(record(event))
        self.state = apply_patch(self.state, event.patch)
        return self.events[-1]


class Peer:
    """A viewer at the end of a connection that may hold bytes back; it folds what arrives.

    What is written while it stalls goes as far as the connection; then that is not writable any more.
    """

    def __init__(self, play: Play) -> None:
        self.play = play
        self.viewer: Viewer | None = None
        self.state: Any = {}
        self.seq = 0
        self.straight = self.taken = self.snapshots = 0
        self.heard: list[int] = []
        self.closes: list[Close] = []
        self._stalled = False
        self._held = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._watching: asyncio.Task[None] | None = None

    def stall(self) -> None:
        """Stop reading."""
        self._stalled = True

    def read_on(self) -> None:
        """Read everything that was held back, and go on."""
        self._stalled = False
        held, self._held = self._held, b""
        self._apply(held)
        self._writable.set()

    def join(self, tasks: asyncio.TaskGroup, *, resume: bool = True) -> None:
        """Connect, unless connected."""
        if self._watching is None or self._watching.done():
            asked = Position(EPOCH, self.seq) if resume and self.seq else None
            self._watching = tasks.create_task(self._watch(asked))

    async def leave(self) -> None:
        """Vanish; what was held back is lost."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._held = b""
        self._stalled = False
        self._writable.set()

    def ask(self, position: Position) -> None:
        """Say on an open connection that something is missing."""
        if self.viewer is not None:
            self.viewer.ask(position)

    async def _watch(self, asked: Position | None) -> None:
        viewer = self.viewer = self.play.audience.enter("here")
        assert viewer is not None
        viewer.go_straight(self._write_straight, self._writable.is_set)
        services: Any = self.play
        showing = asyncio.ensure_future(Show(services, viewer, self._tell).episode(EPISODE, asked))
        expelled = asyncio.ensure_future(viewer.expelled())
        try:
            await asyncio.wait([showing, expelled], return_when=asyncio.FIRST_COMPLETED)
            self.closes.append(expelled.result() if expelled.done() else showing.result())
        finally:
            showing.cancel()
            expelled.cancel()
            self.play.audience.leave(viewer)
            self.viewer = None
            await asyncio.gather(showing, expelled, return_exceptions=True)
            if self.closes and self.closes[-1] is Close.TOO_SLOW:
                self._held, self._stalled = b"", False
                self._writable.set()

    async def _tell(self, frames: Sequence[Frame]) -> None:
        for batch in wire.batches(frames):
            await self._writable.wait()
            self.taken += 1
            self._write(batch.message)

    def _write_straight(self, data: bytes) -> None:
        assert self._writable.is_set()
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
            fields = json.loads(text)
            if fields["frame"] == "snapshot":
                self.state, self.seq = fields["state"], fields["seq"]
                self.snapshots += 1
            elif fields["frame"] == "event":
                self.heard.append(fields["seq"])
            if fields["frame"] == "event" and fields["seq"] > self.seq:
                assert fields["seq"] == self.seq + 1, f"a gap between {self.seq} and {fields['seq']}"
                self.state, self.seq = apply_patch(self.state, fields["patch"]), fields["seq"]


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


async def settle(turns: int = 30) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


def within_tasks(test: Any) -> None:
    """Run ``test(tasks)`` on an event loop of its own."""

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await test(tasks)

    asyncio.run(run())


async def seated(play: Play, tasks: asyncio.TaskGroup, count: int) -> list[Peer]:
    """Peers that have joined and caught up."""
    peers = [Peer(play) for _ in range(count)]
    for peer in peers:
        peer.join(tasks)
    await settle()
    return peers


def test_who_keeps_up_is_written_to_at_once_and_wakes_nobody() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        play.publish(1)
        (peer,) = await seated(play, tasks, 1)
        taken, straight = peer.taken, peer.straight
        for _ in range(10):
            play.publish(3)
            await settle()
        assert peer.straight == straight + 10, "three events of one publication are one write"
        assert peer.taken == taken
        assert peer.seq == 31 and peer.state == play.state
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_a_late_viewer_costs_what_an_early_one_does() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        sizes = []
        for more in (10, 3000):
            play.publish(more)
            (peer,) = await seated(play, tasks, 1)
            assert peer.snapshots == 1 and peer.heard == [] and peer.state == play.state
            sizes.append(len(json.dumps(peer.state)))
        assert play.reads == 0
        assert sizes[1] <= 2 * sizes[0]
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_who_holds_bytes_back_takes_the_slow_way_and_returns_to_the_straight_one() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        play.publish(1)
        slow, quick = await seated(play, tasks, 2)
        slow.stall()
        for _ in range(5):
            play.publish(2)
            await settle()
        assert quick.seq == 11 and slow.seq == 1
        slow.read_on()
        await settle()
        assert slow.seq == 11 and slow.state == quick.state
        straight = slow.straight
        play.publish(1)
        await settle()
        assert slow.straight == straight + 1 and slow.seq == 12
        assert slow.snapshots == 1
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_who_stalls_is_closed_within_its_bound_while_others_miss_nothing() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks, viewer_backlog_bytes=64 * 1024)
        play.publish(1)
        stalled, *others = await seated(play, tasks, 4)
        stalled.stall()
        viewer = stalled.viewer
        assert viewer is not None
        most = 0
        while not stalled.closes:
            play.publish(2, padding=1000)
            await settle()
            most = max(most, viewer._bytes)
            assert all(other.seq == play.head_seq for other in others)
        assert stalled.closes == [Close.TOO_SLOW] and most <= 64 * 1024
        assert play.head_seq < 80, "it was not kept longer than its bound lasts"
        assert not viewer._waiting
        stalled.join(tasks)
        await settle()
        assert stalled.state == play.state and stalled.snapshots == 1, "it resumed"
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_who_catches_up_while_events_are_on_their_way_is_not_told_them_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooms, "CHUNK", 1)

    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        play.publish(1)
        peers = await seated(play, tasks, 30)
        play.publish(1)
        await settle(5)
        assert 0 < sum(peer.seq == 2 for peer in peers) < 25, "the relay is still busy with the second"
        play.publish(2)
        late = Peer(play)
        late.join(tasks)
        await settle(200)
        play.publish(1)
        await settle(200)
        assert [peer.heard for peer in peers] == [[2, 3, 4, 5]] * 30
        assert late.heard == [5] and late.state == play.state
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_who_asks_while_it_is_written_to_at_once_gets_exactly_what_is_missing() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        play.publish(1)
        (peer,) = await seated(play, tasks, 1)
        play.publish(5)
        await settle()
        peer.ask(Position(EPOCH, 3))
        await settle()
        play.publish(1)
        await settle()
        assert peer.heard == [2, 3, 4, 5, 6, 4, 5, 6, 7] and peer.snapshots == 1
        play.bus.finish(EPISODE)

    within_tasks(test)


def test_nothing_is_written_to_one_who_was_expelled() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        written: list[bytes] = []

        viewer = Viewer(65_536)
        viewer.go_straight(written.append, lambda: True)
        taking = tasks.create_task(viewer.take())
        await settle()
        viewer.offer(batch("a"))
        viewer.expel(Close.RESTARTING)
        viewer.offer(batch("b"))
        viewer.end()
        await settle()
        viewer.offer(batch("c"))
        assert await taking is None
        assert unframed(b"".join(written)) == [b"a"]

    within_tasks(test)


def test_what_comes_after_something_that_waits_waits_behind_it() -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        written: list[bytes] = []
        viewer = Viewer(65_536)
        viewer.go_straight(written.append, lambda: True)
        taking = tasks.create_task(viewer.take())
        await settle()
        viewer.hold()
        for text in "abc":
            viewer.offer(batch(text))
        assert [frame.text for frame in ((await taking) or (None, ()))[1]] == ["a", "b", "c"]
        assert not written

    within_tasks(test)


def batch(text: str) -> Batch:
    (one,) = wire.batches([Frame(text)])
    return one


def test_a_great_publication_is_split_so_that_no_connection_holds_much_of_it() -> None:
    frames = [Frame("x" * 30_000, EPOCH, seq) for seq in range(1, 11)]
    parts = list(wire.batches(frames))
    assert [frame for part in parts for frame in part.frames] == frames
    assert max(len(part.message) for part in parts) <= wire.WRITE_BYTES + 30_010
    assert [(part.first, part.last) for part in parts] == [(1, 3), (4, 6), (7, 9), (10, 10)]
    assert list(wire.batches([])) == []


STRANGE = [
    Position("other", 3),
    Position(EPOCH, -1),
    Position(EPOCH, -(10**18)),
    Position(EPOCH, 10**6),
    Position(EPOCH, 10**40),
    Position(EPOCH, 0),
]


@pytest.mark.parametrize("asked", STRANGE, ids=str)
def test_a_strange_wish_to_resume_while_watching_leaves_the_viewer_whole(asked: Position) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        play = Play(tasks)
        play.publish(MAX_MISSING + 10)
        (peer,) = await seated(play, tasks, 1)
        peer.ask(asked)
        play.publish(1)
        await settle()
        assert peer.snapshots == 2 and peer.state == play.state
        play.publish(1)
        await settle()
        assert peer.seq == MAX_MISSING + 12 and peer.state == play.state
        play.bus.finish(EPISODE)

    within_tasks(test)


async def act(chance: random.Random, play: Play, peers: list[Peer], tasks: asyncio.TaskGroup) -> None:
    """One thing that happens."""
    peer = chance.choice(peers)
    match chance.choice(
        ["publish", "publish", "join", "join", "anew", "leave", "stall", "stall", "on", "ask"]
    ):
        case "publish":
            play.publish(chance.randint(1, 5), padding=chance.choice([0, 0, 500, 9000]))
        case "join":
            peer.join(tasks)
        case "anew":
            peer.join(tasks, resume=False)
        case "leave":
            await peer.leave()
        case "stall":
            peer.stall()
        case "on":
            peer.read_on()
        case "ask":
            peer.ask(chance.choice([Position(EPOCH, max(0, peer.seq - 3)), Position("other", 1)]))
    await settle(chance.choice([0, 0, 1, 2, 5]))


@pytest.mark.parametrize("seed", range(4))
def test_after_2500_random_actions_every_viewer_has_the_fold_of_the_record(seed: int) -> None:
    async def test(tasks: asyncio.TaskGroup) -> None:
        chance = random.Random(seed)
        play = Play(tasks, viewer_backlog_bytes=64 * 1024)
        play.publish(1)
        peers = [Peer(play) for _ in range(20)]
        for _ in range(2500):
            await act(chance, play, peers, tasks)
        for peer in peers:
            peer.read_on()
            await settle()
            peer.join(tasks)
        await settle(200)
        play.publish(1)
        await settle(200)
        assert [peer.seq for peer in peers] == [play.head_seq] * 20
        assert all(peer.state == play.state for peer in peers)
        ways = [sum(peer.straight for peer in peers), sum(peer.taken for peer in peers)]
        assert min(ways) > 500, "both ways were gone"
        assert any(Close.TOO_SLOW in peer.closes for peer in peers)
        play.bus.finish(EPISODE)
        await settle(200)
        assert len(play.audience) == 0

    within_tasks(test)
