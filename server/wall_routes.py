"""Owns the ways to the wall: the WebSocket ``/live/wall``, and the same for whom no socket gets through."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from . import wire
from .guard import address_of
from .waiting import WaitingCarrier
from .wire import Close
from .wiring import Services, services_of

FAREWELL_S = 1.0
"""How long a viewer may take to take its farewell."""

router = APIRouter(tags=["live"])


class _Over(Exception):
    def __init__(self, close: Close | None) -> None:
        self.close = close


@router.get(
    "/live/wall",
    response_class=Response,
    responses={
        200: {"description": "Every episode that runs here, as a tile", "content": {"application/json": {}}}
    },
)
async def wall_now(request: Request) -> Response:
    """Everything that runs here, as the first frame of the WebSocket at this address; for polling."""
    wall = services_of(request).wall
    wall.enter()
    try:
        wall.look()
        return Response(wall.whole(), media_type="application/json", headers={"Cache-Control": "no-store"})
    finally:
        wall.leave()


async def watch_wall(websocket: WebSocket) -> None:
    """Show everything that runs here, and every change of it, until the viewer or the server goes."""
    services = services_of(websocket)
    await websocket.accept()
    carrier = WaitingCarrier()
    viewer = services.audience.enter(address_of(websocket), carrier)
    if viewer is None:
        await _say_farewell(websocket, services.audience.refusal())
        return
    services.wall.enter()
    try:
        await _converse(websocket, carrier, services)
    except* _Over as over:
        close = next(error.close for error in over.exceptions if isinstance(error, _Over))
        if close is not None:
            services.audience.closed[close] += 1
            await _say_farewell(websocket, close)
    except* (OSError, WebSocketDisconnect):
        pass
    finally:
        services.wall.leave()
        services.audience.leave(viewer)


# Before `/live/{episode_id}`, for no episode is called so.
router.routes.append(WebSocketRoute("/live/wall", watch_wall))


async def _converse(websocket: WebSocket, carrier: WaitingCarrier, services: Services) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_show(websocket, services))
        tasks.create_task(_listen(websocket))
        raise _Over(await carrier.expelled())


async def _show(websocket: WebSocket, services: Services) -> None:
    version: int | None = None
    while True:
        text = await services.wall.next_after(version)
        version = services.wall.version
        await websocket.send_text(text)


async def _listen(websocket: WebSocket) -> None:
    """A wall is only looked at: whoever speaks is shown the door."""
    message: dict[str, Any] = dict(await websocket.receive())
    raise _Over(None if message["type"] == "websocket.disconnect" else Close.BAD_MESSAGE)


async def _say_farewell(websocket: WebSocket, close: Close) -> None:
    try:
        async with asyncio.timeout(FAREWELL_S):
            await websocket.send_text(wire.bye(close).text)
            await websocket.close(close.code, close.reason)
    except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
        return
