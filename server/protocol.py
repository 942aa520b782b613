"""Owns our connections: uvicorn's, with small messages and an end to whoever sends or reads nothing."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import HTTPConnection
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from .wire import MAX_MESSAGE_BYTES

logger = logging.getLogger(__name__)

EXTENSION: Final = "spectator.connection"
"""Key of the :class:`WebSocketProtocol` itself in the scope's extensions."""

UNREAD_BYTES: Final = 64 * 1024
"""What may wait for a peer that goes on sending pings."""

PINGS_PER_S: Final = 10.0
"""Pings that a peer may send in a second, over any length of time."""

PING_BURST: Final = 100.0
"""Pings that it may send at once."""

SEND_BUFFER: Final = 128 * 1024
"""What the kernel keeps for a viewer that does not read; by itself it would keep up to 4 MB."""

LINGER_S: Final = 5.0
"""How long a closed connection may take to read what was written, before it is cut."""

GOING_S: Final = 1.0
"""The same once the server goes."""

MAX_FRAGMENTS: Final = 64
"""Most fragments of one message."""

FIRST_REQUEST_S: Final = 15.0
"""How long a new connection may take to send the head of its first request."""


class HttpProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """An HTTP connection of uvicorn's that is cut when it never asks for anything."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin the connection."""
        super().connection_made(transport)
        self._patience = self.loop.call_later(FIRST_REQUEST_S, self._cut_when_silent)

    def handle_websocket_upgrade(self) -> None:
        """Make way for a WebSocket; nothing of ours outlives this."""
        self._patience.cancel()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._patience.cancel()
        super().connection_lost(exc)

    def _cut_when_silent(self) -> None:
        if self.cycle is None and self.transport.get_protocol() is self:
            self.transport.abort()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn's that never waits for ever."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection; comings and goings of viewers are figures, not log lines."""
        self.logger = logger
        self.on_held_back: Callable[[], None] = _nothing
        self._pings, self._pinged_at = 0.0, self.loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self.on_held_back()
        self.on_held_back = _nothing
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Bytes are held back, because the peer does not read as fast as we write."""
        super().pause_writing()
        self.on_held_back()

    def free(self) -> bool:
        """Whether nothing is held back and the connection is open."""
        return self.writable.is_set() and not self.close_sent and not self.disconnected

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake; a viewer's messages are small."""
        if event.path.startswith("/live"):
            self.conn.max_message_size = MAX_MESSAGE_BYTES
            self._tell_when_anything_is_held_back()
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self

    def farewell(self, text: str, code: int, reason: str) -> None:
        """Write a last message and the close, even to one who does not read; cut it off a while later."""
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        self.conn.send_text(text.encode())
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    async def send(self, message: ASGISendEvent) -> None:
        """Send to the peer; one whose connection we have closed is gone, as one who left is."""
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.accept":
            del self.request, self.response  # a connection lasts for hours; its handshake need not
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # or uvicorn logs a refusal as a failure of the application

    async def send_messages(self, messages: bytes) -> None:
        """Write messages that are framed already, waiting while the peer does not read.

        Raises:
            OSError: The connection is closed.
        """
        await self.writable.wait()
        if not self.free():
            raise ClientDisconnected
        self.transport.write(messages)

    def handle_ping(self) -> None:
        """Answer a ping; one who sends countless ones, or reads no answers, is cut off."""
        now = self.loop.time()
        self._pings = max(0.0, self._pings - (now - self._pinged_at) * PINGS_PER_S) + 1
        self._pinged_at = now
        if self._pings <= PING_BURST and self.transport.get_write_buffer_size() < UNREAD_BYTES:
            super().handle_ping()
        else:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment; a message in countless ones is refused."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(1009, "too many fragments")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Hand a message over; text that is not UTF-8 ends the connection without a trace in the log."""
        try:
            if self.curr_msg_data_type == "text":
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self._fail(1007, "not UTF-8")
            return
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        """The peer is dead: end it, unread bytes and all."""
        super().keepalive_timeout()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def shutdown(self) -> None:
        """The server goes: close, and cut off whoever does not read."""
        super().shutdown()
        self.loop.call_later(GOING_S, self.transport.abort)

    def _tell_when_anything_is_held_back(self) -> None:
        self.transport.set_write_buffer_limits(high=0)
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def _fail(self, code: int, reason: str) -> None:
        self.frames = []
        self.conn.fail(code, reason)
        self.handle_parser_exception()


def _nothing() -> None:
    """Nobody wants to know."""


def protocol_of(connection: HTTPConnection) -> WebSocketProtocol | None:
    """The connection's own protocol; ``None`` where another server carries it."""
    found = connection.scope.get("extensions", {}).get(EXTENSION)
    return found if isinstance(found, WebSocketProtocol) else None


def farewell_of(connection: HTTPConnection) -> Callable[[str, int, str], None] | None:
    """The :meth:`WebSocketProtocol.farewell` of a connection; ``None`` where another server carries it."""
    protocol = protocol_of(connection)
    return None if protocol is None else protocol.farewell
