"""Owns the ways to the wall: the WebSocket ``/live/wall``, and the same for whom no socket gets through."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from ..transport.upgrade import carry
from ..wiring import services_of
from .ports import Tell
from .viewer import Viewer
from .wall import WallShow

router = APIRouter(tags=["live"])


@router.get(
    "/live/wall",
    response_class=Response,
    responses={
        200: {"description": "Every episode that runs here, as a tile", "content": {"application/json": {}}}
    },
)
async def wall_now(request: Request) -> Response:
    """Everything that runs here, as the first frame of the WebSocket at this address; for polling."""
    text = services_of(request).wall.now().text
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})


async def watch_wall(websocket: WebSocket) -> None:
    """Show everything that runs here, and every change of it, until the viewer or the server goes."""
    wall = services_of(websocket).wall

    def make(viewer: Viewer, tell: Tell) -> WallShow:
        return WallShow(wall, viewer, tell)

    await carry(websocket, make)


# Before `/live/{episode_id}`, for no episode is called so.
router.routes.append(WebSocketRoute("/live/wall", watch_wall))
