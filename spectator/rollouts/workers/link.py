"""The desk's end of a connection to a worker, on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from spectator.clock import Clock
from spectator.rollouts.workers.wire import Frames, frame

logger = logging.getLogger(__name__)


class WorkerLink(asyncio.Protocol):
    """Takes messages as they come, sends others together, and knows when it last heard anything.

    ``spoke`` says whether anything was heard at all, ``heard_s`` when that was, or else since when it waits;
    ``lost`` is set when the connection is gone, ``silent`` by whoever finds that too long nothing was heard.

    Args:
        name: The worker's.
        clock: Time.
        on_message: Hears of each message, in order.
    """

    def __init__(self, name: str, clock: Clock, on_message: Callable[[object], None]) -> None:
        self.name = name
        self.heard_s = clock.monotonic()
        self.spoke = False
        self.lost = asyncio.Event()
        self.silent = asyncio.Event()
        self._clock = clock
        self._on_message = on_message
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and send what waits."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop has its own
        self.heard_s = self._clock.monotonic()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Hand on every message that is complete; a peer that sends anything else is let go."""
        self.heard_s = self._clock.monotonic()
        self.spoke = True
        try:
            messages = self._frames.take(data)
        except ValueError as error:
            logger.error("worker %s: %s", self.name, error)
            return self.close()
        for message in messages:
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make it known."""
        self._transport = None
        self.lost.set()

    def send(self, message: object) -> None:
        """Send a message soon, with others of this turn of the loop; dropped where the worker is gone."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(message)

    def close(self) -> None:
        """Let go at once."""
        if self._transport is None:
            self.lost.set()
        else:
            self._transport.abort()

    def _flush(self) -> None:
        if self._transport is not None and self._waiting:
            waiting, self._waiting = self._waiting, []
            self._transport.write(frame(waiting))
