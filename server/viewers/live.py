"""Owns the WebSockets that show an episode: ``/live/{episode_id}`` and ``/live``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from ..transport.upgrade import carry
from ..wiring import services_of
from . import wire
from .feed import Show
from .ports import Tell
from .viewer import Viewer

router = APIRouter()


async def watch_whatever_is_on(websocket: WebSocket) -> None:
    """Show the newest episode that runs, then the next, and so on."""
    await _watch(websocket, None)


async def watch_episode(websocket: WebSocket) -> None:
    """Show one episode, live or recorded, to its end."""
    await _watch(websocket, websocket.path_params["episode_id"])


# Starlette's own routes: FastAPI's do more for a socket than is needed here.
router.routes.append(WebSocketRoute("/live", watch_whatever_is_on))
router.routes.append(WebSocketRoute("/live/{episode_id}", watch_episode))


async def _watch(websocket: WebSocket, episode_id: str | None) -> None:
    services, query = services_of(websocket), websocket.query_params

    def make(viewer: Viewer, tell: Tell) -> Show:
        return Show(services, viewer, tell, episode_id, wire.asked_position(query))

    await carry(websocket, make)
