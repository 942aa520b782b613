"""The same bytes to many real sockets: compiled or not, nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import sys
from array import array
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from server.security.faults import Close
from server.transport.connection import ViewerConnection
from server.transport.fast_path import choose_sends, compiled
from server.viewers import wire
from server.viewers.broadcast import SHARD_SIZE, Broadcaster, SendToEach, Shard, Shards
from server.viewers.viewer import Viewer
from server.viewers.wire import Batch, Frame
from tests.conftest import require

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
try:
    import uvloop
except ImportError:  # not on Windows
    pass
else:
    LOOPS.append(uvloop.new_event_loop)


@pytest.fixture(name="send_to_each")
def the_compiled_loop() -> SendToEach:
    """The compiled loop."""
    found = compiled()
    require("the compiled loop", None if found is None else "built")
    assert found is not None
    return found


@pytest.fixture(params=LOOPS, ids=lambda loop: loop.__module__)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on each kind of loop."""

    def run_on_it(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work, 60))

    return run_on_it


def shard_of(*seats: Carried) -> Shard:
    """A shard of their viewers."""
    shards = Shards()
    for seat in seats:
        shards.add(seat.viewer)
    (shard,) = shards.assign()
    return shard


def sockets(*connections: socket.socket) -> array[int]:
    """As the compiled loop takes them."""
    return array("i", [one.fileno() for one in connections])


def event(seq: int, size: int = 100) -> Batch:
    """A batch of one event, whose message no other has."""
    (one,) = wire.batches([Frame(f"{seq} ".ljust(size, "."), "epoch", seq)])
    return one


class Carried(asyncio.Protocol):
    """A viewer's connection as a server has it, and what the other end has read."""

    def __init__(self, *, small: bool = False) -> None:
        self.transport: asyncio.Transport
        self.viewer: Viewer
        self.seen = bytearray()
        self.free_now = True
        self.descriptor_at_the_end = 0
        self.lost = asyncio.Event()
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        if small:
            self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    async def open(self) -> Carried:
        """Connect."""
        self.ours.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self, self.ours)
        self.viewer = Viewer(self, 1 << 30)
        assert self.viewer.take() is None and self.viewer.caught_up
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As :class:`server.transport.connection.ViewerConnection` sets it."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)

    def pause_writing(self) -> None:
        """Hold."""
        self.free_now = False
        self.viewer.hold()

    def resume_writing(self) -> None:
        """Take what waits."""
        self.free_now = True
        self.wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Look whether the socket is there yet."""
        self.viewer.hold()
        self.descriptor_at_the_end = os.fstat(self.ours.fileno()).st_ino
        self.lost.set()

    @property
    def write(self) -> Callable[[bytes], None]:
        """The transport's."""
        return self.transport.write

    @property
    def descriptor(self) -> int | None:
        """The socket's."""
        return self.ours.fileno()

    def writable(self) -> bool:
        """As the transport said."""
        return self.free_now

    def wake(self) -> None:
        """Write what waits until the transport holds something back, or nothing waits."""
        while self.free_now and (taken := self.viewer.take()) is not None:
            for frame in taken[1]:
                self.transport.write(frame.message)

    def evict(self, close: Close) -> None:
        """Does not happen here."""
        raise AssertionError(close)

    def read(self, size: int = 1 << 20) -> bool:
        """Read at the other end; whether anything was there."""
        try:
            chunk = self.theirs.recv(size)
        except BlockingIOError:
            return False
        self.seen += chunk
        return bool(chunk)

    async def drain(self, until: int) -> None:
        """Read until so many bytes were seen."""
        while len(self.seen) < until:
            self.read()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Leave."""
        self.transport.abort()
        await self.lost.wait()
        self.theirs.close()


@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "transports"])
@pytest.mark.parametrize("seed", range(4))
def test_everybody_reads_every_byte_in_order_however_it_reads(
    request: pytest.FixtureRequest, run: Any, is_compiled: bool, seed: int
) -> None:
    outlet = Broadcaster(request.getfixturevalue("send_to_each") if is_compiled else None)

    async def play() -> None:
        draw = random.Random(seed)
        seats = [await Carried(small=place % 2 == 0).open() for place in range(6)]
        shard, expected, in_sync = shard_of(*seats), [bytearray() for _ in seats], []
        for seq in range(1, 200):
            quickly = seq % 50 > 20
            batch = event(seq, draw.choice((5, 200, 300, 1_000) if quickly else (5, 200, 3_000, 90_000)))
            outlet.send(shard, batch, Viewer.send)
            for seat, bytes_so_far in zip(seats, expected, strict=True):
                bytes_so_far += batch.message
                if draw.random() < 0.2 and seat.viewer.caught_up:  # the answer to a ping
                    seat.transport.write(b"pong")
                    bytes_so_far += b"pong"
                if quickly:
                    await seat.drain(len(bytes_so_far))
                elif draw.random() < 0.4:
                    seat.read(draw.choice((1, 5_000, 1 << 20)))
            if draw.random() < 0.5:
                await asyncio.sleep(0)
            in_sync.append(len(shard.in_sync))
        assert not is_compiled or (max(in_sync) == 6 and min(in_sync) <= 2), (
            "they were in step, and out of it"
        )
        for seat, bytes_so_far in zip(seats, expected, strict=True):
            await seat.drain(len(bytes_so_far))
            assert seat.seen == bytes_so_far
            await seat.close()

    run(play())


def test_one_whose_connection_is_broken_disturbs_no_other(run: Any, send_to_each: SendToEach) -> None:
    async def play() -> None:
        first, gone, last = [await Carried().open() for _ in range(3)]
        gone.theirs.close()
        outlet, shard = Broadcaster(send_to_each), shard_of(first, gone, last)
        for seq in (1, 2, 3):
            outlet.send(shard, event(seq), Viewer.send)
        for seat in (first, last):
            await seat.drain(3 * len(event(1).message))
            await seat.close()
        await gone.lost.wait()
        assert not gone.viewer.caught_up

    run(play())


def test_a_socket_stays_open_until_its_viewer_was_told_to_hold(run: Any) -> None:
    """Else its number could belong to another connection when the next event is sent."""

    async def play() -> None:
        for end in (asyncio.Transport.abort, asyncio.Transport.close, None):
            seat = await Carried().open()
            number = os.fstat(seat.ours.fileno()).st_ino
            if end is None:
                seat.theirs.close()
            else:
                getattr(seat.transport, end.__name__)()
            await seat.lost.wait()
            assert seat.descriptor_at_the_end == number
            seat.theirs.close()

    run(play())


def test_who_has_it_already_or_is_behind_gets_it_otherwise(run: Any, send_to_each: SendToEach) -> None:
    async def play() -> None:
        ahead, behind, level = [await Carried().open() for _ in range(3)]
        ahead.viewer.position = 5
        behind.viewer.hold()
        otherwise: list[Viewer] = []
        shard = shard_of(ahead, behind, level)
        Broadcaster(send_to_each).send(shard, event(5), lambda viewer, batch: otherwise.append(viewer))
        assert otherwise == [ahead.viewer, behind.viewer]
        assert level.viewer.position == 5
        await level.drain(len(event(5).message))
        assert not ahead.read() and not behind.read()
        for seat in (ahead, behind, level):
            await seat.close()

    run(play())


def test_what_is_no_event_moves_nobody(run: Any, send_to_each: SendToEach) -> None:
    async def play() -> None:
        seat = await Carried().open()
        seat.viewer.position = 7
        (said,) = wire.batches([Frame('{"frame":"viewers"}')])
        Broadcaster(send_to_each).send(shard_of(seat), said, Viewer.send_lossy)
        assert seat.viewer.position == 7
        await seat.drain(len(said.message))
        await seat.close()

    run(play())


def test_in_step_all_stand_where_their_row_does(run: Any, send_to_each: SendToEach) -> None:
    async def play() -> None:
        seats = [await Carried().open() for _ in range(3)]
        shard, outlet = shard_of(*seats), Broadcaster(send_to_each)
        (said,) = wire.batches([Frame('{"frame":"viewers"}')])

        def stand(*expected: Carried) -> None:
            assert shard.in_sync == [seat.viewer for seat in expected]
            assert shard.descriptors == sockets(*(seat.ours for seat in expected))
            assert [seat.viewer.sync_group for seat in seats] == [
                shard if seat in expected else None for seat in seats
            ]

        outlet.send(shard, said, Viewer.send_lossy)
        stand()  # nobody was moved, so they may have different events
        for seq in (4, 5):
            outlet.send(shard, event(seq), Viewer.send)
            stand(*seats)
            assert shard.position == seq
        outlet.send(shard, said, Viewer.send_lossy)
        outlet.send(shard, event(5), lambda viewer, batch: None)
        stand()  # who has an event already is asked
        assert [seat.viewer.position for seat in seats] == [5, 5, 5]
        outlet.send(shard, event(6), Viewer.send)
        seats[1].viewer.hold()
        stand(seats[0], seats[2])
        assert seats[1].viewer.position == 6
        outlet.send(shard, event(7), Viewer.send)
        stand(seats[0], seats[2])
        assert (shard.position, seats[1].viewer.position) == (7, 6)
        seats[1].wake()
        stand(seats[0], seats[2])
        outlet.send(shard, event(8), Viewer.send)
        stand(seats[0], seats[2], seats[1])
        whole = b"".join([said.message, *(event(4 + n).message for n in range(2)), said.message])
        whole += b"".join(event(seq).message for seq in (6, 7, 8))
        for seat in seats:
            await seat.drain(len(whole))
            assert seat.seen == whole
            await seat.close()

    run(play())


def test_who_leaves_is_written_to_no_more_and_who_comes_waits_for_a_seat(
    run: Any, send_to_each: SendToEach
) -> None:
    async def play() -> None:
        outlet, shards = Broadcaster(send_to_each), Shards()
        early, leaver, late = [await Carried().open() for _ in range(3)]
        for seat in (early, leaver):
            shards.add(seat.viewer)
        (shard,) = shards.assign()
        outlet.send(shard, event(1), Viewer.send)
        shards.add(late.viewer)
        shards.discard(leaver.viewer)
        outlet.send(shard, event(2), Viewer.send)
        assert leaver.viewer not in shards and list(shards) == [early.viewer, late.viewer]
        assert shards.assign() == (shard,)
        outlet.send(shard, event(3), Viewer.send)
        for seat, seqs in ((early, (1, 2, 3)), (leaver, (1,)), (late, (3,))):
            await seat.drain(len(event(1).message) * len(seqs))
            await asyncio.sleep(0)
            assert seat.seen == b"".join(event(seq).message for seq in seqs)
            await seat.close()

    run(play())


class Nobody:
    """A viewer of whom no more is known."""

    sync_group = None


def test_rows_are_filled_before_new_ones_are_begun_and_empty_ones_go() -> None:
    shards = Shards()
    crowd = [cast(Viewer, Nobody()) for _ in range(2 * SHARD_SIZE + 1)]
    for viewer in crowd:
        shards.add(viewer)
    assert len(shards) == len(crowd) and list(shards) == crowd
    assert sorted(map(len, shards.assign())) == [1, SHARD_SIZE, SHARD_SIZE]
    for viewer in crowd[:SHARD_SIZE]:
        shards.discard(viewer)
        shards.discard(viewer)
    assert sorted(map(len, shards.assign())) == [1, SHARD_SIZE]
    shards.add(crowd[0])
    shards.add(crowd[1])
    shards.discard(crowd[1])
    assert crowd[0] in shards and crowd[1] not in shards
    assert sorted(map(len, shards.assign())) == [2, SHARD_SIZE]
    assert sum(map(len, shards.assign())) == len(shards)


def test_the_compiled_loop_tells_who_did_not_take_all(send_to_each: SendToEach) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert send_to_each(sockets(ours), b"few") == []
        assert theirs.recv(10) == b"few"
        assert send_to_each(sockets(), b"few") == []
        ((place, taken),) = send_to_each(sockets(ours), bytes(4_000_000))
        assert place == 0 and 0 < taken < 4_000_000
        assert send_to_each(sockets(ours), b"more") == [(0, 0)]
        theirs.close()
        assert send_to_each(sockets(ours), b"to nobody") == [(0, 0)], "and the process has had no SIGPIPE"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([1], b"x"), TypeError),
        ((array("l", [1]), b"x"), TypeError),
        ((array("I", [1]), b"x"), TypeError),
        ((b"1234", b"x"), TypeError),
        ((memoryview(array("i", range(4)))[::2], b"x"), BufferError),
        ((None, b"x"), TypeError),
        ((array("i", [1]), "x"), TypeError),
        ((array("i", [1]), None), TypeError),
        ((array("i", [1]),), TypeError),
    ],
)
def test_the_compiled_loop_refuses_what_it_cannot_send(
    send_to_each: Any, arguments: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        send_to_each(*arguments)


def test_the_compiled_loop_takes_what_is_no_socket_for_one_that_takes_nothing(send_to_each: Any) -> None:
    assert send_to_each(array("i", [-1, 2**31 - 1, -(2**31)]), b"x") == [(0, 0), (1, 0), (2, 0)]


class Described:
    """A transport of which only this is known."""

    def __init__(self, **about: Any) -> None:
        self.get_extra_info = about.get


def test_bytes_go_past_no_transport_that_encrypts_or_is_closed() -> None:
    connection = object.__new__(ViewerConnection)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cases: list[tuple[dict[str, Any], int | None]] = [
            ({"socket": ours}, ours.fileno()),
            ({"socket": ours, "sslcontext": ssl.create_default_context()}, None),
            ({}, None),
        ]
        for about, expected in cases:
            connection._transport = cast(asyncio.Transport, Described(**about))
            assert connection.descriptor == expected
    connection._transport = cast(asyncio.Transport, Described(socket=ours))
    assert connection.descriptor is None


def test_without_the_compiled_loop_transports_write(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setitem(sys.modules, "server.transport._sends", None)
    assert choose_sends() is None
    assert caplog.messages == ["writing to viewers through their transports, one by one"]
