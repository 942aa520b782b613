"""Owns a viewer's WebSocket after its handshake: the least that thousands of them need."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

from websockets.frames import Opcode

from spectator.errors import ProtocolError, SpectatorError

from ..security.faults import close_of
from ..security.token_bucket import Allowance
from ..viewers import wire
from ..viewers.inbound_messages import Hearing
from ..viewers.ports import MakeShow, Showing
from ..viewers.viewer import Viewer
from ..viewers.wire import Close, Frame
from ..wiring import Services
from .inbound import Incoming, Unreadable
from .protocol import GOING_S, LINGER_S, PING_BURST, PINGS_PER_S, UNREAD_BYTES

logger = logging.getLogger(__name__)

SEND_BUFFER: Final = 128 * 1024
"""What the kernel keeps for a viewer that does not read; by itself it would keep up to 4 MB."""

PING: Final = wire.framed(b"", opcode=Opcode.PING)


class ViewerConnection(asyncio.Protocol):
    """Carries one viewer's connection from the end of its handshake on.

    There is no task, request or queue while the viewer keeps up: events are written by whoever hands them
    over, and what the viewer says is answered where it arrives. A task runs only while something waits.

    Args:
        services: Where episodes come from.
        transport: The connection; its handshake is done.
        others: The server's set of open connections, which this one enters and leaves.
    """

    __slots__ = (
        "_answered",
        "_drained",
        "_free",
        "_group",
        "_hearing",
        "_incoming",
        "_others",
        "_parted",
        "_pings",
        "_services",
        "_show",
        "_task",
        "_transport",
        "_viewer",
    )

    def __init__(
        self, services: Services, transport: asyncio.Transport, others: set[asyncio.Protocol]
    ) -> None:
        self._services = services
        self._transport = transport
        self._others = others
        self._viewer: Viewer | None = None
        self._show: Showing | None = None
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._incoming: Incoming | None = None
        self._hearing: Hearing | None = None
        self._pings: Allowance | None = None
        self._free = True
        self._parted = False
        self._answered = True
        others.add(self)
        self._group = services.keepalive.join(self)
        self._tell_when_anything_is_held_back()

    def begin(self, address: str, make: MakeShow) -> None:
        """Let the viewer in and show it what it came for; or tell it why not."""
        audience = self._services.audience
        self._viewer = audience.enter(address, self)
        if self._viewer is None:
            self.part(audience.refusal())
            return
        try:
            self._show = make(self._viewer, self._tell)
        except ProtocolError as error:
            self.part(*close_of(error))
        else:
            self.rouse()

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes framed messages at once; see :class:`Carrier`."""
        return self._transport.write

    @property
    def descriptor(self) -> int | None:
        """The socket, unless what is written must be encrypted first; open until :meth:`connection_lost`."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or self._transport.get_extra_info("sslcontext") is not None:
            return None
        descriptor: int = connection.fileno()
        return descriptor if descriptor >= 0 else None

    def free(self) -> bool:
        """Whether nothing is held back and the connection is open."""
        return self._free and not self._parted and not self._transport.is_closing()

    def rouse(self) -> None:
        """Show what there is to show."""
        if self._show is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._go_on(self._show))
            self._task.add_done_callback(self._done)

    def expel(self, close: Close) -> None:
        """End the connection; see :class:`Carrier`."""
        self.part(close)

    def part(self, close: Close, detail: str | None = None) -> None:
        """Tell the viewer why, then close, even if it does not read; cut it off a while later."""
        if self._parted:
            return
        self._let_go()
        self._services.audience.closed[close] += 1
        bye = wire.bye(close, detail).message
        self._end(bye + wire.close_frame(close.code, close.reason))

    def shutdown(self) -> None:
        """The server goes; for uvicorn."""
        self.part(Close.RESTARTING)
        asyncio.get_running_loop().call_later(GOING_S, self._transport.abort)

    def ping(self) -> None:
        """Ask whether the peer lives; one that did not answer the last time does not."""
        if self._parted:
            return
        if self._answered:
            self._answered = False
            self._transport.write(PING)
        else:
            self.part(Close.SILENT)

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        """Read what the viewer says; after the farewell nobody listens."""
        self._answered = True
        if self._parted:
            return
        incoming = self._incoming or Incoming()
        try:
            for opcode, message in incoming.feed(data):
                self._hear(opcode, message)
                if self._parted:
                    return
        except Unreadable as error:
            self.part(error.close)
            return
        self._incoming = None if incoming.idle else incoming

    def pause_writing(self) -> None:
        """Bytes are held back, because the peer does not read as fast as we write."""
        self._free = False
        if self._viewer is not None:
            self._viewer.hold()

    def resume_writing(self) -> None:
        """Everything was taken."""
        self._free = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self.rouse()

    def eof_received(self) -> None:
        """The peer sends nothing more: close."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        self._parted = True
        self._let_go()
        self._others.discard(self)

    # What is inside.

    async def _tell(self, frames: Sequence[Frame]) -> None:
        for batch in wire.batches(frames):
            if not self._free:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
            self._transport.write(batch.message)

    async def _go_on(self, show: Showing) -> None:
        try:
            close = await show.go_on()
        except SpectatorError as error:
            self.part(*close_of(error))
        else:
            if close is not None:
                self.part(close)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a viewer could not be shown an episode", exc_info=error)
            self.part(Close.FAILED)

    def _hear(self, opcode: Opcode, message: bytes) -> None:
        if opcode is Opcode.TEXT:
            self._hear_text(message)
        elif opcode is Opcode.PING:
            self._hear_ping(message)
        elif opcode is Opcode.CLOSE:
            self._let_go()
            self._end(wire.framed(message[:2], opcode=Opcode.CLOSE))
        elif opcode is Opcode.BINARY:
            self.part(Close.BAD_MESSAGE, wire.SEND_TEXT)

    def _hear_text(self, message: bytes) -> None:
        viewer = self._viewer
        if viewer is None:
            return
        if self._hearing is None:
            self._hearing = Hearing(self._services.clock)
        try:
            self._hearing.hear(message.decode(), viewer)
        except UnicodeDecodeError:
            self.part(Close.NOT_UTF8)
        except ProtocolError as error:
            self.part(*close_of(error))

    def _hear_ping(self, payload: bytes) -> None:
        """Answer; one who sends countless ones, or reads no answers, is cut off."""
        if self._pings is None:
            self._pings = Allowance(PINGS_PER_S, PING_BURST, self._services.clock)
        if self._pings.spend(1.0) and self._transport.get_write_buffer_size() < UNREAD_BYTES:
            self._transport.write(wire.framed(payload, opcode=Opcode.PONG))
        else:
            self._transport.abort()

    def _end(self, last: bytes) -> None:
        """Write the last bytes; read on, without listening, until the peer has gone or its time is over."""
        self._parted = True
        if self._transport.is_closing():
            return
        self._transport.write(last)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def _let_go(self) -> None:
        """Leave every room; safe to call twice."""
        viewer, self._viewer = self._viewer, None
        show, self._show = self._show, None
        self._services.keepalive.leave(self, self._group)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        if show is not None:
            show.leave()
        if viewer is not None:
            viewer.hold()
            self._services.audience.leave(viewer)

    def _tell_when_anything_is_held_back(self) -> None:
        self._transport.set_write_buffer_limits(high=0)
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
