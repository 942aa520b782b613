"""A viewer's WebSocket after its handshake, small enough for thousands of viewers.

``MessageReader`` turns bytes into whole messages, within the limits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from websockets.exceptions import PayloadTooBig
from websockets.exceptions import ProtocolError as FramingError
from websockets.frames import Close as CloseFrame
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode

from spectator.errors import ProtocolError, SpectatorError

from ..security.faults import Close, close_of
from ..security.rate_limits import TokenBucket
from ..viewers import wire
from ..viewers.viewer import Feed, InboundMessages, MakeFeed, Viewer
from ..viewers.wire import MAX_MESSAGE_BYTES, Frame
from .keepalive import GOING_S, LINGER_S, MAX_FRAGMENTS, PING_BURST, PINGS_PER_S, UNREAD_BYTES, TransportPorts
from .private_api import parse_frame

CONTROL: Final = (Opcode.CLOSE, Opcode.PING, Opcode.PONG)
"""Frames that may come between the fragments of a message."""


class Unreadable(Exception):
    """The received bytes are invalid; nothing after them can be read."""

    def __init__(self, close: Close) -> None:
        self.close = close
        super().__init__(close.reason)


class MessageReader:
    """Parses one connection's bytes; may be dropped whenever it is :attr:`idle`."""

    __slots__ = ("_buffer", "_opcode", "_parsing", "_parts")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parsing: Generator[None, None, WebSocketFrame] | None = None
        self._parts: list[bytes] = []
        self._opcode = Opcode.TEXT

    @property
    def idle(self) -> bool:
        """Whether no message is incomplete."""
        return self._parsing is None and not self._parts

    def feed(self, data: bytes) -> Iterator[tuple[Opcode, bytes]]:
        """Yield the messages and control frames that ``data`` completes."""
        self._buffer += data
        try:
            while self._buffer:
                if self._parsing is None:
                    self._parsing = parse_frame(self._read, MAX_MESSAGE_BYTES)
                frame = _advance(self._parsing)
                if frame is None:
                    return
                self._parsing = None
                if (message := self._whole(frame)) is not None:
                    yield message
        except PayloadTooBig as error:
            raise Unreadable(Close.TOO_BIG) from error
        except UnicodeDecodeError as error:
            raise Unreadable(Close.NOT_UTF8) from error
        except FramingError as error:
            raise Unreadable(Close.BROKEN) from error

    def _whole(self, frame: WebSocketFrame) -> tuple[Opcode, bytes] | None:
        """Return the message that ``frame`` completes; ``None`` if more follows."""
        data = bytes(frame.data)
        if frame.opcode in CONTROL:
            if frame.opcode is Opcode.CLOSE:
                CloseFrame.parse(data)
            return frame.opcode, data
        if (frame.opcode is Opcode.CONT) is not bool(self._parts):
            raise Unreadable(Close.BROKEN)
        if not self._parts:
            self._opcode = frame.opcode
        self._parts.append(data)
        if len(self._parts) > MAX_FRAGMENTS or sum(map(len, self._parts)) > MAX_MESSAGE_BYTES:
            raise Unreadable(Close.TOO_BIG)
        if not frame.fin:
            return None
        message, self._parts = b"".join(self._parts), []
        return self._opcode, message

    def _read(self, count: int) -> Generator[None, None, bytes | bytearray]:
        while len(self._buffer) < count:
            yield
        taken = self._buffer[:count]
        del self._buffer[:count]
        return taken


def _advance(parsing: Generator[None, None, WebSocketFrame]) -> WebSocketFrame | None:
    try:
        next(parsing)
    except StopIteration as done:
        frame: WebSocketFrame = done.value
        return frame
    return None


logger = logging.getLogger(__name__)

SEND_BUFFER: Final = 128 * 1024
"""Kernel send buffer of a viewer that does not read; the default is up to 4 MB."""

PING: Final = wire.framed(b"", opcode=Opcode.PING)


class ViewerConnection(asyncio.Protocol):
    """One viewer's connection after its handshake; a ``ViewerTransport``.

    While the viewer keeps up there is no task, request or queue: the broadcaster writes events directly, and
    messages are answered where they arrive. A task runs only while something waits.

    Args:
        others: The server's set of open connections, which this one joins and leaves.
    """

    __slots__ = (
        "_answered", "_closed", "_drained", "_feed", "_group", "_messages", "_others", "_pings", "_ports",
        "_reader", "_task", "_transport", "_viewer", "_writable", "write",
    )  # fmt: skip

    def __init__(
        self, ports: TransportPorts, transport: asyncio.Transport, others: set[asyncio.Protocol]
    ) -> None:
        self._ports = ports
        self._transport = transport
        self.write = transport.write
        """Writes framed messages immediately; see :class:`ViewerTransport`."""
        self._others = others
        self._viewer: Viewer | None = None
        self._feed: Feed | None = None
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._reader: MessageReader | None = None
        self._messages: InboundMessages | None = None
        self._pings: TokenBucket | None = None
        self._writable = True
        self._closed = False
        self._answered = True
        others.add(self)
        self._group = ports.keepalive.join(self)
        transport.set_write_buffer_limits(high=0)  # report any buffered bytes
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def start(self, address: str, make: MakeFeed) -> None:
        """Admit the viewer and start its feed, or close with the reason."""
        audience = self._ports.audience
        self._viewer = audience.admit(address, self)
        if self._viewer is None:
            self.close(audience.refusal())
            return
        try:
            self._feed = make(self._viewer, self._send)
        except ProtocolError as error:
            self.close(*close_of(error))
        else:
            self.wake()

    @property
    def descriptor(self) -> int | None:
        """The socket, unless encrypted; open until :meth:`connection_lost`."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or self._transport.get_extra_info("sslcontext") is not None:
            return None
        descriptor: int = connection.fileno()
        return descriptor if descriptor >= 0 else None

    def writable(self) -> bool:
        """Whether no bytes are buffered and the connection is open."""
        return self._writable and not self._closed and not self._transport.is_closing()

    def wake(self) -> None:
        """Drain the feed in a task, unless one is running."""
        if self._feed is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._drain(self._feed))
            self._task.add_done_callback(self._done)

    def evict(self, close: Close) -> None:
        """Close the connection; see :class:`ViewerTransport`."""
        self.close(close)

    def close(self, close: Close, detail: str | None = None) -> None:
        """Send the reason and close, even if the viewer does not read.

        The connection is aborted a while later.
        """
        if self._closed:
            return
        self._release()
        self._ports.audience.closed[close] += 1
        bye = wire.bye(close, detail).message
        self._end(bye + wire.close_frame(close.code, close.reason))

    def shutdown(self) -> None:
        """Close since the server shuts down; called by uvicorn."""
        self.close(Close.RESTARTING)
        asyncio.get_running_loop().call_later(GOING_S, self._transport.abort)

    def ping(self) -> None:
        """Ping the peer; close if it did not answer the last ping."""
        if self._closed:
            return
        if self._answered:
            self._answered = False
            self._transport.write(PING)
        else:
            self.close(Close.SILENT)

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        """Read what the viewer sends; ignored after the close."""
        self._answered = True
        if self._closed:
            return
        reader = self._reader or MessageReader()
        try:
            for opcode, message in reader.feed(data):
                self._receive(opcode, message)
                if self._closed:
                    return
        except Unreadable as error:
            self.close(error.close)
            return
        self._reader = None if reader.idle else reader

    def pause_writing(self) -> None:
        """Hold frames back: the peer reads more slowly than we write."""
        self._writable = False
        if self._viewer is not None:
            self._viewer.hold()

    def resume_writing(self) -> None:
        """Resume after all buffered bytes were sent."""
        self._writable = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self.wake()

    def eof_received(self) -> None:
        """Close, since the peer sends nothing more."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything after the connection is lost."""
        self._closed = True
        self._release()
        self._others.discard(self)

    async def _send(self, frames: Sequence[Frame]) -> None:
        for batch in wire.batches(frames):
            if not self._writable:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
            self._transport.write(batch.message)

    async def _drain(self, feed: Feed) -> None:
        try:
            close = await feed.drain()
        except SpectatorError as error:
            self.close(*close_of(error))
        else:
            if close is not None:
                self.close(close)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("cannot show an episode to a viewer", exc_info=error)
            self.close(Close.FAILED)

    def _receive(self, opcode: Opcode, message: bytes) -> None:
        if opcode is Opcode.TEXT:
            self._receive_text(message)
        elif opcode is Opcode.PING:
            self._receive_ping(message)
        elif opcode is Opcode.CLOSE:
            self._release()
            self._end(wire.framed(message[:2], opcode=Opcode.CLOSE))
        elif opcode is Opcode.BINARY:
            self.close(Close.BAD_MESSAGE, wire.SEND_TEXT)

    def _receive_text(self, message: bytes) -> None:
        viewer = self._viewer
        if viewer is None:
            return
        if self._messages is None:
            self._messages = InboundMessages(self._ports.clock)
        try:
            self._messages.handle(message.decode(), viewer)
        except UnicodeDecodeError:
            self.close(Close.NOT_UTF8)
        except ProtocolError as error:
            self.close(*close_of(error))

    def _receive_ping(self, payload: bytes) -> None:
        """Answer a ping; abort if the peer sends too many, or does not read the answers."""
        if self._pings is None:
            self._pings = TokenBucket(PINGS_PER_S, PING_BURST, self._ports.clock)
        if self._pings.spend(1.0) and self._transport.get_write_buffer_size() < UNREAD_BYTES:
            self._transport.write(wire.framed(payload, opcode=Opcode.PONG))
        else:
            self._transport.abort()

    def _end(self, last: bytes) -> None:
        """Write the last bytes, then ignore input until the peer leaves or its time is up."""
        self._closed = True
        if self._transport.is_closing():
            return
        self._transport.write(last)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def _release(self) -> None:
        """Leave audience, feed and keepalive; safe to call twice."""
        viewer, self._viewer = self._viewer, None
        feed, self._feed = self._feed, None
        self._ports.keepalive.leave(self, self._group)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        if feed is not None:
            feed.leave()
        if viewer is not None:
            viewer.hold()
            self._ports.audience.leave(viewer)
