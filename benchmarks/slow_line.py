"""A slow line between a browser and a server on this machine: TCP forwarded late and little at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

PIECE: Final = 1460
"""Bytes that are forwarded at once: what one packet holds."""


@dataclass(frozen=True, slots=True)
class LineRates:
    """What a line is like.

    Args:
        round_trip_s: Seconds to the server and back. A connection takes one before its first byte.
        bytes_per_s: What all connections together get through, in each direction.
    """

    round_trip_s: float
    bytes_per_s: float


class Direction:
    """One direction of a line, which all connections share: pieces leave one after another."""

    def __init__(self, line: LineRates) -> None:
        self._line = line
        self._free_at = 0.0

    def arrival(self, size: int, now: float) -> float:
        """When a piece of ``size`` bytes that is sent now is there."""
        self._free_at = max(now, self._free_at) + size / self._line.bytes_per_s
        return self._free_at + self._line.round_trip_s / 2


class SlowLine:
    """Forwards connections to a server over a line; TCP's slow start and lost packets are not imitated.

    Args:
        port: Port of the server on this machine.
        line: What the line is like.
    """

    def __init__(self, port: int, line: LineRates) -> None:
        self._port = port
        self._line = line
        self._up, self._down = Direction(line), Direction(line)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until both ends are done."""
        await asyncio.sleep(self._line.round_trip_s)  # the handshake
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._pump(reader, back, self._up), self._pump(there, writer, self._down))
        except asyncio.CancelledError:
            writer.close()  # the line is taken down

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Direction) -> None:
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, piece = await under_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not piece:
                    return sink.close()
                sink.write(piece)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(deliver())
            while piece := await _read(source):
                await under_way.put((way.arrival(len(piece), loop.time()), piece))
            await under_way.put((way.arrival(0, loop.time()), b""))


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(PIECE)
    except ConnectionError:
        return b""


@contextmanager
def slow_line(port: int, line: LineRates) -> Iterator[str]:
    """Run a :class:`SlowLine` in a thread; yields the address at which the server is reached over it."""
    opened: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        done = asyncio.Event()
        listening = await asyncio.start_server(SlowLine(port, line).forward, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        opened.set_result((address, asyncio.get_running_loop(), done))
        await done.wait()
        listening.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    address, loop, done = opened.result()
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
