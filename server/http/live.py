"""Routes that show episodes live: WebSockets, server-sent events, and the wall."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from spectator.errors import EpisodeNotFound, FieldError, InvalidRequest, ProtocolError

from ..identifiers import EPISODE_ID
from ..security import faults
from ..security.faults import documented
from ..services import services_of
from ..transport import EventStream, serve_viewer
from ..viewers import wire
from ..viewers.feed import EpisodeFeed
from ..viewers.patched_frames import BoardFeed
from ..viewers.ports import SendFrames
from ..viewers.viewer import Viewer
from ..viewers.wire import Position

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
    wall = services_of(request).wall
    await wall.look_elsewhere()
    text = wall.now().text
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})


async def watch_wall(websocket: WebSocket) -> None:
    """Show everything that runs here, and every change of it, until the viewer or the server goes."""
    services = services_of(websocket)

    def make(viewer: Viewer, send: SendFrames) -> BoardFeed:
        return BoardFeed(services.wall, viewer, send)

    await serve_viewer(websocket, make, services.transport)


async def watch_episode(websocket: WebSocket) -> None:
    """Show one episode, live or recorded, to its end; where none is named the newest, then the next."""
    services, query = services_of(websocket), websocket.query_params
    episode_id = websocket.path_params.get("episode_id")

    def make(viewer: Viewer, send: SendFrames) -> EpisodeFeed:
        return EpisodeFeed(services.feeds, viewer, send, episode_id, wire.asked_position(query))

    await serve_viewer(websocket, make, services.transport)


# Starlette's own routes: FastAPI's do more for a socket than is needed here. No episode is called "wall".
router.routes.append(WebSocketRoute("/live/wall", watch_wall))
router.routes.append(WebSocketRoute("/live", watch_episode))
router.routes.append(WebSocketRoute("/live/{episode_id}", watch_episode))


@router.get(
    "/live/{episode_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The live frames, one an event", "content": {"text/event-stream": {}}},
        204: {"description": "There is nothing further to come; do not come back"},
        **documented(faults.NO_EPISODE, faults.INVALID, faults.FULL),
    },
)
async def watch_by_events(request: Request, episode_id: str) -> Response:
    """Show one episode by server-sent events; ``Last-Event-ID`` or ``?epoch=&seq=`` resumes."""
    services = services_of(request)
    asked = _asked_of(request)
    known = EPISODE_ID.fullmatch(episode_id)
    await services.readiness.recovery.settled(episode_id)
    if known and services.supervisor.live(episode_id) is None:
        summary = await services.records.episode(episode_id)
        known = None if summary is None else known
        if summary is not None and asked == Position(summary.epoch, summary.head_seq):
            return Response(status_code=204)
    if not known:
        raise EpisodeNotFound(episode_id[:64])

    def make(viewer: Viewer, send: SendFrames) -> EpisodeFeed:
        return EpisodeFeed(services.feeds, viewer, send, episode_id, asked)

    return EventStream(make, services.transport)


def _asked_of(request: Request) -> Position | None:
    """Where a viewer by server-sent events stood, if it says so.

    Raises:
        InvalidRequest: It says so wrongly.
    """
    fields: dict[str, str] = dict(request.query_params)
    last = request.headers.get("last-event-id")
    if last:
        fields["epoch"], _, fields["seq"] = last.partition(":")
    try:
        return wire.asked_position(fields)
    except ProtocolError as error:
        where = "Last-Event-ID" if last else "seq"
        raise InvalidRequest([FieldError(where, str(error))]) from error
