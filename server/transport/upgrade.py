"""Hands a viewer's accepted WebSocket to what carries it: our own connection, or a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.clock import Clock
from spectator.errors import SpectatorError

from ..close_codes import Close
from ..security.client_address import address_of
from ..security.faults import close_of
from ..viewers import wire
from ..viewers.inbound_messages import InboundMessages
from ..viewers.ports import MakeFeed
from ..viewers.viewer import Viewer
from ..viewers.wire import Frame
from .limits import LAST_MESSAGE_S
from .ports import TransportPorts
from .takeover import protocol_of
from .task_transport import TaskTransport


class ViewerClosed(Exception):
    """The connection must end, for a reason that the viewer is told.

    Args:
        close: Why.
        detail: The reason in more words.
    """

    def __init__(self, close: Close, detail: str | None = None) -> None:
        self.close = close
        self.detail = detail
        super().__init__(close.reason)


async def serve_viewer(websocket: WebSocket, make: MakeFeed, ports: TransportPorts) -> None:
    """Show a viewer its feed: on our own connection where uvicorn's can be taken over, else from a task.

    Args:
        websocket: Its connection, not accepted yet.
        make: Makes its feed; may raise a :class:`ProtocolError` about what it asked for.
        ports: Who admits viewers, and who pings them.
    """
    await websocket.accept()
    protocol = protocol_of(websocket)
    if protocol is None:
        await _serve_from_task(websocket, make, ports)
        return

    from .connection import ViewerConnection  # needs what `private_api` needs

    def successor(transport: asyncio.Transport, others: set[asyncio.Protocol]) -> ViewerConnection:
        connection = ViewerConnection(ports, transport, others)
        connection.start(address_of(websocket), make)
        return connection

    protocol.takeover(successor)


async def _serve_from_task(websocket: WebSocket, make: MakeFeed, ports: TransportPorts) -> None:
    audience, transport = ports.audience, TaskTransport()
    viewer = audience.admit(address_of(websocket), transport)
    if viewer is None:
        await _close(websocket, ViewerClosed(audience.refusal()))
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_show(websocket, make, viewer, transport))
            tasks.create_task(_listen(websocket, viewer, ports.clock))
    except* ViewerClosed as errors:
        closed = next(error for error in errors.exceptions if isinstance(error, ViewerClosed))
        audience.closed[closed.close] += 1
        await _close(websocket, closed)
    except* (OSError, WebSocketDisconnect):
        pass
    finally:
        audience.leave(viewer)


async def _show(websocket: WebSocket, make: MakeFeed, viewer: Viewer, transport: TaskTransport) -> None:
    async def send(frames: Sequence[Frame]) -> None:
        for frame in frames:
            await websocket.send_text(frame.text)

    try:
        close = await transport.run(make(viewer, send))
    except SpectatorError as error:
        raise ViewerClosed(*close_of(error)) from error
    raise ViewerClosed(close)


async def _listen(websocket: WebSocket, viewer: Viewer, clock: Clock) -> None:
    messages = InboundMessages(clock)
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        text = message.get("text")
        if text is None:
            raise ViewerClosed(Close.BAD_MESSAGE, wire.SEND_TEXT)
        if len(text) > wire.MAX_MESSAGE_BYTES:
            raise ViewerClosed(Close.TOO_BIG)
        try:
            messages.handle(text, viewer)
        except SpectatorError as error:
            raise ViewerClosed(*close_of(error)) from error


async def _close(websocket: WebSocket, closed: ViewerClosed) -> None:
    """Tell the viewer why, then close."""
    close, text = closed.close, wire.bye(closed.close, closed.detail).text
    try:
        async with asyncio.timeout(LAST_MESSAGE_S):
            await websocket.send_text(text)
            await websocket.close(close.code, close.reason)
    except (TimeoutError, WebSocketDisconnect):
        return
