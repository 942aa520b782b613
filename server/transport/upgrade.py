"""Owns the handing of a viewer's WebSocket to whoever carries it: our own connection, or a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.errors import SpectatorError

from ..security.faults import close_of
from ..security.guard import address_of
from ..viewers import wire
from ..viewers.inbound_messages import Hearing
from ..viewers.ports import MakeShow, Showing
from ..viewers.viewer import Viewer
from ..viewers.wire import Close, Frame
from ..wiring import Services, services_of
from .connection import ViewerConnection
from .protocol import protocol_of
from .task_transport import WaitingCarrier

FAREWELL_S: Final = 1.0
"""How long a viewer may take to take its farewell, where the server cannot leave it behind."""


class Farewell(Exception):
    """The connection must end, for a reason that the viewer is told.

    Args:
        close: Why.
        detail: The reason in more words.
    """

    def __init__(self, close: Close, detail: str | None = None) -> None:
        self.close = close
        self.detail = detail
        super().__init__(close.reason)


async def carry(websocket: WebSocket, make: MakeShow) -> None:
    """Show a viewer what ``make`` makes, where thousands are carried; or here, under another server.

    Args:
        websocket: Its connection, not accepted yet.
        make: Makes what it is shown; may raise a :class:`ProtocolError` about what it asked for.
    """
    await websocket.accept()
    services, protocol = services_of(websocket), protocol_of(websocket)
    if protocol is None:
        await _carry(websocket, make, services)
        return

    def successor(transport: asyncio.Transport, others: set[asyncio.Protocol]) -> ViewerConnection:
        connection = ViewerConnection(services, transport, others)
        connection.begin(address_of(websocket), make)
        return connection

    protocol.hand_over(successor)


async def _carry(websocket: WebSocket, make: MakeShow, services: Services) -> None:
    audience, carrier = services.audience, WaitingCarrier()
    viewer = audience.enter(address_of(websocket), carrier)
    if viewer is None:
        await _say_farewell(websocket, Farewell(audience.refusal()))
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_show(websocket, make, viewer, carrier))
            tasks.create_task(_listen(websocket, viewer, services))
    except* Farewell as farewells:
        farewell = next(error for error in farewells.exceptions if isinstance(error, Farewell))
        audience.closed[farewell.close] += 1
        await _say_farewell(websocket, farewell)
    except* (OSError, WebSocketDisconnect):
        pass
    finally:
        audience.leave(viewer)


async def _show(websocket: WebSocket, make: MakeShow, viewer: Viewer, carrier: WaitingCarrier) -> None:
    async def tell(frames: Sequence[Frame]) -> None:
        for frame in frames:
            await websocket.send_text(frame.text)

    try:
        show: Showing = make(viewer, tell)
        close = await carrier.show(show)
    except SpectatorError as error:
        raise Farewell(*close_of(error)) from error
    raise Farewell(close)


async def _listen(websocket: WebSocket, viewer: Viewer, services: Services) -> None:
    hearing = Hearing(services.clock)
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        text = message.get("text")
        if text is None:
            raise Farewell(Close.BAD_MESSAGE, wire.SEND_TEXT)
        if len(text) > wire.MAX_MESSAGE_BYTES:
            raise Farewell(Close.TOO_BIG)
        try:
            hearing.hear(text, viewer)
        except SpectatorError as error:
            raise Farewell(*close_of(error)) from error


async def _say_farewell(websocket: WebSocket, farewell: Farewell) -> None:
    """Tell the viewer why, then close."""
    close, text = farewell.close, wire.bye(farewell.close, farewell.detail).text
    try:
        async with asyncio.timeout(FAREWELL_S):
            await websocket.send_text(text)
            await websocket.close(close.code, close.reason)
    except (TimeoutError, WebSocketDisconnect):
        return
