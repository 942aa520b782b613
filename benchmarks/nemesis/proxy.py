"""A proxy between a server and its database, which can pass, refuse, stall, or lose answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

CHUNK: Final = 65_536


class ProxyMode(StrEnum):
    """What a proxy does with the bytes of its connections.

    A connection on which a ``COMMIT`` is sent while answers are lost gets no answer any more.
    """

    PASS = "pass"
    REFUSE = "refuse"
    STALL = "stall"
    LOSE_ANSWERS = "lose answers"


class Proxy:
    """Forwards connections at a port of this machine to a Unix socket.

    Args:
        target: Returns the socket of the database; asked for each connection.
    """

    def __init__(self, target: Callable[[], Path]) -> None:
        self.port = 0
        self.mode = ProxyMode.PASS
        self._target = target
        self._passing = asyncio.Event()
        self._passing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen at a free port."""
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        assert self._listener is not None
        self._listener.close()
        self.cut()
        self._passing.set()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set(self, mode: ProxyMode) -> None:
        """Change what happens from now on; refusing cuts the connections too."""
        self.mode = mode
        if mode is ProxyMode.STALL:
            self._passing.clear()
        else:
            self._passing.set()
        if mode is ProxyMode.REFUSE:
            self.cut()

    def cut(self) -> None:
        """Cut every connection."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._passing.wait()
            if self.mode is not ProxyMode.REFUSE:
                await self._join(reader, writer)
        writer.transport.abort()
        self._writers.discard(writer)
        self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_unix_connection(self._target())
        self._writers.add(to_writer)
        committed = asyncio.Event()
        both = [
            asyncio.ensure_future(self._pump(reader, to_writer, committed, answers=False)),
            asyncio.ensure_future(self._pump(to_reader, writer, committed, answers=True)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            to_writer.transport.abort()
            self._writers.discard(to_writer)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        committed: asyncio.Event,
        *,
        answers: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._passing.wait()
                if answers and committed.is_set():
                    continue
                if not answers and self.mode is ProxyMode.LOSE_ANSWERS and b"COMMIT" in data:
                    committed.set()
                writer.write(data)
                await writer.drain()
