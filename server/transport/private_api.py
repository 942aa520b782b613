"""Uvicorn's connections, extended for thousands of viewers.

This is the only file that uses private names of uvicorn and websockets. ``fast_path`` uses it only if the
names in :data:`NEEDED` exist; otherwise uvicorn's own connections serve.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, cast

import uvicorn
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from spectator.clock import SystemClock

from ..security.middleware import CROWDED
from ..security.rate_limits import TokenBucket
from ..viewers.wire import framed
from .capacity import HttpConnections
from .delivery import CUT, EXTENSION
from .keepalive import (
    GOING_S,
    HEAD_BYTES,
    LINGER_S,
    MAX_FRAGMENTS,
    PING_BURST,
    PINGS_PER_S,
    REQUEST_S,
    UNREAD_BYTES,
)

FINAL: Final = 0x80
MASKED: Final = 0x80
SHORT: Final = 126
"""Smaller lengths are in the second byte; this value means that two bytes follow."""

MESSAGES: Final = frozenset(FINAL | one for one in (Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG))
"""First bytes of frames that are complete by themselves."""


def read_whole(data: bytes) -> tuple[bool, tuple[bytes, bytes] | None]:
    """Whether ``data`` is one whole masked message or ping under 64 KiB.

    Returns:
        That, and payload and mask of a text frame; ``None`` of any other.

    >>> head = bytes((0x81, 0x82, 1, 2, 3, 4))
    >>> read_whole(head + b"ih")
    (True, (b'ih', b'\\x01\\x02\\x03\\x04'))
    >>> read_whole(head + b"i")
    (False, None)
    """
    if len(data) < 6 or data[0] not in MESSAGES or not data[1] & MASKED:
        return False, None
    head, length = 2, data[1] & ~MASKED
    if length >= SHORT:
        if length > SHORT:
            return False, None
        head, length = 4, int.from_bytes(data[2:4], "big")
    if len(data) != head + 4 + length:
        return False, None
    return True, (data[head + 4 :], data[head : head + 4]) if data[0] == FINAL | Opcode.TEXT else None


try:
    from websockets.speedups import apply_mask
except ImportError:  # built only with a compiler
    from websockets.utils import apply_mask


logger = logging.getLogger(__name__)

NEEDED: Final[Mapping[type, tuple[str, ...]]] = {
    AutoHTTPProtocol: (
        "connection_made", "connections", "cycle", "data_received", "handle_websocket_upgrade",
        "limit_concurrency", "loop", "more_body", "response_complete", "scope", "send_400_response",
        "transport",
    ),
    WebSocketsSansIOProtocol: (
        "close_sent", "close_timer", "conn", "connections", "curr_msg_data_type", "disconnected", "frames",
        "handle_connect", "handle_cont", "handle_parser_exception", "handle_ping", "handshake_complete",
        "handshake_initiated", "keepalive_timeout", "loop", "read_paused", "request", "response", "scope",
        "send_receive_event_to_app", "stop_keepalive", "transport", "writable",
    ),
    ServerProtocol: (
        "data_to_send", "extensions", "fail", "handshake_exc", "logger", "send_close", "send_text", "state",
    ),
    Frame: ("parse",),
    uvicorn.Server: ("servers", "shutdown"),
}  # fmt: skip
"""Private names used here, by class."""

UNBOUNDED: Final = hasattr(AutoHTTPProtocol, "on_body")
"""Whether the parser accepts heads of any length: httptools does, h11 does not."""


class HttpProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """An HTTP connection that is aborted if it sends no request, or an endless one."""

    others: HttpConnections
    """All connections of the server, which this one joins and leaves; set by a subclass."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin the connection."""
        super().connection_made(transport)
        self.limit_concurrency = None  # `others` limits connections, and which requests the last ones serve
        self._crowded = self.others.join(self, _address_of(transport), len(self.connections))
        self._answered: object = None
        self._unread = 0
        self._patience = self.loop.call_later(REQUEST_S, self._cut_when_silent)

    def data_received(self, data: bytes) -> None:
        """Read from the peer; reject an endless head."""
        self._unread += len(data)
        super().data_received(data)
        if UNBOUNDED and self._unread > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have at most {HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Handle a complete head."""
        self._unread = 0
        self.scope["extensions"] = {**self.scope.get("extensions", {}), CUT: self.transport.abort}
        if self.crowded:
            self.scope["extensions"][CROWDED] = {}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body."""
        self._unread = 0
        super().on_body(body)

    @property
    def crowded(self) -> bool:
        """Whether it is one of the last connections, which are kept for operators."""
        self._crowded = self._crowded and self.others.crowded(len(self.connections))
        return self._crowded

    @property
    def waits(self) -> bool:
        """Whether it waits for a request of its peer, or for the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def abort(self) -> None:
        """Close it immediately."""
        self.transport.abort()

    def handle_websocket_upgrade(self) -> None:
        """Hand over to a WebSocket protocol."""
        self._patience.cancel()
        self.others.leave(self)
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._patience.cancel()
        self.others.leave(self)
        super().connection_lost(exc)

    def _cut_when_silent(self) -> None:
        """Abort the connection if no request followed the last answered one."""
        if self.transport.get_protocol() is not self:
            return
        if self.cycle is self._answered:
            self.transport.abort()
            return
        if self.cycle.response_complete:
            self._answered = self.cycle
        self._patience = self.loop.call_later(REQUEST_S, self._cut_when_silent)


def _address_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn's with time limits."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection; viewers are counted, not logged."""
        self.logger = self.conn.logger = logger
        self._pings: TokenBucket | None = None
        self._early: list[bytes] | None = None
        self._at_start = False
        super().connection_made(transport)
        before = cast(asyncio.Transport, transport).get_protocol()
        self._crowded = isinstance(before, HttpProtocol) and before.crowded

    def data_received(self, data: bytes) -> None:
        """Read from the peer; data before the end of the handshake waits."""
        if self._early is None:
            self._at_start, text = read_whole(data) if self._at_start else (False, None)
            if text is not None and self.conn.state is State.OPEN:
                self.curr_msg_data_type, self.frames = "text", [apply_mask(*text)]
                self.send_receive_event_to_app()
                return
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._refuse_handshake()
        else:
            self._early.append(data)
            self.transport.pause_reading()

    def _refuse_handshake(self) -> None:
        """Answer an invalid handshake, such as one with too long a path; uvicorn does not."""
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake."""
        self._early = []
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self
            if self._crowded:
                extensions[CROWDED] = {}

    def takeover(self, make: Callable[[asyncio.Transport, set[Any]], asyncio.Protocol]) -> None:
        """Hand the connection to another protocol, if it is still open, and release it.

        Call it in the same loop iteration in which the handshake was answered.

        Args:
            make: Makes the successor from the transport and the server's set of open connections.
        """
        transport = self.transport
        if self.disconnected or self.close_sent or transport.is_closing():
            return
        self.stop_keepalive()
        self.connections.discard(self)
        successor = make(transport, self.connections)
        transport.set_protocol(successor)
        self.transport = cast(asyncio.Transport, _TakenOver())
        del self.scope["extensions"][EXTENSION]  # breaks a reference cycle
        self._read_early(transport, successor)

    def _read_early(self, transport: asyncio.Transport, reader: asyncio.Protocol) -> None:
        early, self._early = self._early, None
        self._at_start = True  # until the parser stops within a message, which it does not report
        for data in early or ():
            reader.data_received(data)
        if early and not transport.is_closing():
            transport.resume_reading()

    def send_now(self, text: str) -> bool:
        """Write a message immediately, unless the peer does not read.

        Returns whether it was written.
        """
        gone = self.close_sent or self.disconnected or self.transport.is_closing()
        if gone or not self.writable.is_set() or self.conn.extensions:
            return False
        self.transport.write(framed(text.encode()))
        return True

    def close_with_message(self, text: str, code: int, reason: str) -> None:
        """Write a last message and close, even if the peer does not read.

        The connection is aborted a while later.
        """
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
        """Send to the peer; a connection that we closed counts as disconnected."""
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.accept":
            del self.request, self.response  # a connection lasts for hours; free its handshake
            self.loop.call_soon(self._read_early, self.transport, self)  # unless it is taken over by then
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # or uvicorn logs a rejection as an application failure

    def handle_ping(self) -> None:
        """Answer a ping; abort if the peer sends too many, or does not read the answers."""
        if self._pings is None:
            self._pings = TokenBucket(PINGS_PER_S, PING_BURST, SystemClock())
        if self._pings.spend(1.0) and self.transport.get_write_buffer_size() < UNREAD_BYTES:
            super().handle_ping()
        else:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Handle a fragment; reject a message with too many."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(1009, "too many fragments")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Pass on a message; invalid UTF-8 closes the connection without a log."""
        try:
            if self.curr_msg_data_type == "text":
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self._fail(1007, "not UTF-8")
            return
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        """Close the connection of a dead peer, with its unread bytes."""
        super().keepalive_timeout()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def shutdown(self) -> None:
        """Close since the server shuts down; abort peers that do not read."""
        super().shutdown()
        self.loop.call_later(GOING_S, self.transport.abort)

    def _fail(self, code: int, reason: str) -> None:
        self.frames = []
        self.conn.fail(code, reason)
        self.handle_parser_exception()


class _TakenOver:
    """Replaces a transport that was taken over, which uvicorn closes when the application returns."""

    def close(self) -> None:
        """Do nothing."""


def parse_frame(
    read: Callable[[int], Generator[None, None, bytes | bytearray]], max_bytes: int
) -> Generator[None, None, Frame]:
    """Return the parser of one masked frame.

    It yields while ``read`` needs more bytes.
    """
    return Frame.parse(read, mask=True, max_size=max_bytes)


def stop_listening(server: uvicorn.Server) -> None:
    """Accept no further connections."""
    for listener in server.servers:
        listener.close()


def missing() -> list[str]:
    """Return the names in :data:`NEEDED` that this installation lacks."""
    return [
        f"{kind.__name__}.{name}"
        for kind, names in NEEDED.items()
        for name in names
        if name not in _names(kind)
    ]


def _names(kind: type) -> set[str]:
    """Return the attributes of a class and those named in its methods.

    Some are set only when a connection begins.
    """
    methods = [one for base in kind.__mro__ for one in vars(base).values() if hasattr(one, "__code__")]
    return {*dir(kind), *(name for method in methods for name in method.__code__.co_names)}
