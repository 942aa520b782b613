"""A worker's end of its connection: two threads, so that a busy event loop keeps nobody waiting."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Final

from spectator.rollouts.workers.wire import BEAT_S, Beat, Frames, frame

logger = logging.getLogger(__name__)

ORPHANED: Final = 70
"""Exit code of a worker whose desk is gone."""

BROKEN: Final = 72
"""Exit code of a worker that cannot send what it has to say."""

READ_BYTES: Final = 1 << 18


class DeskLine:
    """Sends and receives messages, each on a thread of its own.

    One sends, and sends a :class:`~.wire.Beat` where there is nothing else to say; one receives, and ends the
    process when the other side is gone.

    Args:
        connection: To the desk, blocking.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = Frames()
        self._out: SimpleQueue[object] = SimpleQueue()
        self._turned_s = time.monotonic()
        self._sender = threading.Thread(target=self._send, name="line-send", daemon=True)
        self.received: asyncio.Queue[object] = asyncio.Queue()

    def first(self) -> object:
        """Wait for the first message; nothing else may be received yet."""
        while True:
            data = self._connection.recv(READ_BYTES)
            if not data:
                os._exit(ORPHANED)
            if messages := self._frames.take(data):
                for message in messages[1:]:
                    self.received.put_nowait(message)
                return messages[0]

    def start(self) -> None:
        """Begin to send and to receive; called in the event loop."""
        loop = asyncio.get_running_loop()
        self._turn(loop)
        self._sender.start()
        threading.Thread(target=self._receive, args=(loop,), name="line-receive", daemon=True).start()

    def send(self, message: object) -> None:
        """Send ``message`` soon."""
        self._out.put(message)

    def finish(self) -> None:
        """Send what waits, and nothing more; blocks until then."""
        self._out.put(None)
        self._sender.join()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turned_s = time.monotonic()
        loop.call_later(BEAT_S, self._turn, loop)

    def _send(self) -> None:
        code: int | None = BROKEN
        try:
            while True:
                messages = self._due()
                over = messages[-1] is None
                self._connection.sendall(frame(messages[:-1] if over else messages))
                if over:
                    code = None
                    return
        except OSError:
            code = ORPHANED
        finally:
            if code == BROKEN:
                logger.error("a message cannot be sent", exc_info=True)
            if code is not None:
                os._exit(code)

    def _due(self) -> list[object]:
        try:
            messages = [self._out.get(timeout=BEAT_S)]
        except Empty:
            return [Beat(max(0.0, time.monotonic() - self._turned_s - BEAT_S))]
        while messages[-1] is not None:
            try:
                messages.append(self._out.get_nowait())
            except Empty:
                break
        return messages

    def _receive(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                data = self._connection.recv(READ_BYTES)
                messages = self._frames.take(data)
            except (OSError, ValueError):
                os._exit(ORPHANED)
            if not data:
                os._exit(ORPHANED)
            loop.call_soon_threadsafe(self._hand_on, messages)

    def _hand_on(self, messages: Sequence[object]) -> None:
        for message in messages:
            self.received.put_nowait(message)
