"""The measurement of what viewers who keep up pay for those in their shards who hold bytes back.

Shards and outlet of the server over real sockets, in this process and without its loop of events, beside the
bare loop in C over the sockets of those who keep up.
"""

from __future__ import annotations

import socket
import statistics
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.figures import Figure
from server.close_codes import Close
from server.transport.sends import compiled
from server.viewers import wire
from server.viewers.broadcaster import Broadcaster, SendToEach
from server.viewers.shard import SHARD_SIZE, Shards
from server.viewers.viewer import Viewer
from server.viewers.wire import Batch, Frame

VIEWERS: Final = 5 * SHARD_SIZE
HOLDING: Final = (0, 1, 4, 20)
"""How many of each shard hold bytes back."""

SIZE: Final = 3_000
"""Characters of a batch: three events of 1 KB."""

TIMES: Final = 10
"""Batches of one turn, few enough for the kernel to keep until they are read."""

ROUNDS: Final = 31


class HoldingViewer:
    """A viewer on a socket of its own, which holds bytes back on demand."""

    def __init__(self, listener: socket.socket) -> None:
        self.theirs = socket.create_connection(listener.getsockname())
        self.ours, _ = listener.accept()
        self.theirs.setblocking(False)
        self.keeps_up = True
        self.viewer = Viewer(self, 1 << 40)

    @property
    def write(self) -> Callable[[bytes], None]:
        """Not to be called: the kernel takes all that is measured."""
        return self._refuse

    @property
    def descriptor(self) -> int:
        """The socket's."""
        return self.ours.fileno()

    def writable(self) -> bool:
        """Whether it keeps up."""
        return self.keeps_up

    def wake(self) -> None:
        """What waits goes on waiting."""

    def evict(self, close: Close) -> None:
        """Not to be called either."""
        raise RuntimeError(close.reason)

    def read(self) -> None:
        """Take all that was sent."""
        try:
            while self.theirs.recv(1 << 20):
                pass
        except BlockingIOError:
            return

    def _refuse(self, data: bytes) -> None:
        raise RuntimeError(f"{len(data)} bytes were not taken")


def measure() -> list[Figure]:
    """One figure for each number that hold back; none where the loop in C was not built."""
    send_to_each = compiled()
    if send_to_each is None:
        return []
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        seats = [HoldingViewer(listener) for _ in range(VIEWERS)]
        for seat in seats:
            stack.enter_context(seat.ours)
            stack.enter_context(seat.theirs)
        return [_figure(seats, holding, send_to_each) for holding in HOLDING]


def _figure(seats: Sequence[HoldingViewer], holding: int, send_to_each: SendToEach) -> Figure:
    shards, outlet = Shards(), Broadcaster(send_to_each)
    for place, seat in enumerate(seats):
        seat.keeps_up = place % SHARD_SIZE >= holding
        seat.viewer = Viewer(seat, 1 << 40)
        seat.viewer.take()
        shards.add(seat.viewer)
    taking = [seat for seat in seats if seat.keeps_up]
    descriptors = array("i", [seat.descriptor for seat in taking])
    ours, limit, seq = [], [], 0

    def send(batch: Batch) -> None:
        for shard in shards.assign():
            outlet.send(shard, batch, _let_wait)

    for _ in range(ROUNDS):
        batches = [_batch(seq + n) for n in range(1, TIMES + 1)]
        seq += TIMES
        ours.append(_cpu(taking, batches, send))
        limit.append(_cpu(taking, batches, lambda batch: send_to_each(descriptors, batch.message)))
    each, least = statistics.median(ours), statistics.median(limit)
    return Figure(
        f"CPU of a write to one who keeps up, {holding} of {SHARD_SIZE} holding back",
        f"{each:.2f} us, {each / least:.2f} x the limit",
        "-",
        f"the bare loop in C over the same sockets: {least:.2f} us",
    )


def _cpu(taking: Sequence[HoldingViewer], batches: Sequence[Batch], send: Callable[[Batch], object]) -> float:
    """Microseconds of CPU for each batch and viewer."""
    began = time.process_time()
    for batch in batches:
        send(batch)
    spent = time.process_time() - began
    for seat in taking:
        seat.read()
    return 1e6 * spent / len(batches) / len(taking)


def _batch(seq: int) -> Batch:
    (batch,) = wire.batches([Frame(f"{seq} ".ljust(SIZE, "."), "epoch", seq)])
    return batch


def _let_wait(viewer: Viewer, batch: Batch) -> None:
    """Somebody else's cost: what a viewer's backlog costs is measured elsewhere."""
