"""The application of a relay: episodes live, as another server shows them, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, cast

from fastapi import FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from spectator import __version__
from spectator.clock import SystemClock
from spectator.errors import EpisodeNotFound

from ..close_codes import Close
from ..http.live import asked_of
from ..security.client_address import ForwardedAddress
from ..security.faults import NOT_FOUND, install_faults, problem
from ..security.masking import NameMask
from ..security.shield import RequestShield, SecurityHeaders
from ..settings import Settings
from ..transport import EventStream, Keepalive, TransportPorts, choose_sends, serve_viewer
from ..viewers import wire
from ..viewers.audience import Audience, AudienceLimits
from ..viewers.broadcaster import Broadcaster
from ..viewers.ports import SendFrames
from ..viewers.viewer import Viewer
from ..viewers.wire import Position
from .feed import RelayFeed
from .upstream import Upstream

ELSEWHERE: Final = "A relay shows /live/EPISODE_ID; everything else is at the server that it follows."


class NoNames:
    """Hides no names: the server that is followed does."""

    mask = NameMask()


@dataclass(frozen=True, slots=True)
class RelayServices:
    """What the routes of a relay work with.

    Args:
        upstream: The server that is followed.
        audience: Who watches here.
        transport: What viewers' transports need.
        names: Hides none.
    """

    upstream: Upstream
    audience: Audience
    transport: TransportPorts
    names: NoNames

    async def send_away(self, within_s: float) -> None:
        """Tell all viewers to come back later, and wait at most ``within_s`` for them to go."""
        await self.audience.close_all(within_s)

    def feed(self, viewer: Viewer, send: SendFrames, episode_id: str, asked: Position | None) -> RelayFeed:
        """What a viewer is shown."""
        return RelayFeed(self.upstream, self.audience, self.names, viewer, send, episode_id, asked)


def create_relay(settings: Settings) -> FastAPI:
    """Put a relay together; what it works with lives as long as its lifespan.

    Args:
        settings: How it is set; ``upstream_url`` says whom it follows.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _opened(settings) as app.state.services:
            yield

    app = FastAPI(
        title="Spectator relay", version=__version__, lifespan=lifespan, openapi_url=None, docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    install_faults(app)
    app.add_middleware(RequestShield, settings=settings)
    app.add_middleware(SecurityHeaders, settings=settings)
    if settings.trusted_hops:
        app.add_middleware(ForwardedAddress, hops=settings.trusted_hops)
    app.router.routes += [
        WebSocketRoute("/live/{episode_id}", _watch),
        Route("/live/{episode_id}/events", _watch_by_events),
        *(Route(path, _health) for path in ("/health", "/readyz")),
        Route("/{path:path}", _elsewhere),
    ]
    return app


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[RelayServices]:
    clock, names = SystemClock(), NoNames()
    async with asyncio.TaskGroup() as tasks:
        audience = Audience(
            tasks=tasks,
            clock=clock,
            limits=AudienceLimits(
                settings.max_viewers, settings.max_viewers_per_address, settings.viewer_backlog_bytes
            ),
            broadcaster=Broadcaster(choose_sends(compiled_wanted=settings.compiled_sends)),
            names=names,
        )
        url, rng, keepalive = str(settings.upstream_url), random.SystemRandom(), Keepalive(clock)
        upstream = Upstream(url, audience, clock, rng, tasks)
        audience.elsewhere = upstream.others
        beside = [tasks.create_task(work) for work in (upstream.run(), keepalive.run())]
        try:
            yield RelayServices(upstream, audience, TransportPorts(audience, keepalive, clock), names)
        finally:
            await audience.close_all(settings.shutdown_grace_s)
            upstream.stop()
            for task in beside:
                task.cancel()


def _services(connection: HTTPConnection) -> RelayServices:
    return cast(RelayServices, connection.app.state.services)


async def _watch(websocket: WebSocket) -> None:
    """Show one episode, to its end."""
    services, query = _services(websocket), websocket.query_params
    episode_id: str = websocket.path_params["episode_id"]

    def make(viewer: Viewer, send: SendFrames) -> RelayFeed:
        return services.feed(viewer, send, episode_id, wire.asked_position(query))

    await serve_viewer(websocket, make, services.transport)


async def _watch_by_events(request: Request) -> Response:
    """The same by server-sent events."""
    services, asked, episode_id = _services(request), asked_of(request), request.path_params["episode_id"]
    view = await services.upstream.view(episode_id)
    if view.over is Close.NOT_FOUND:
        raise EpisodeNotFound(episode_id[:64])
    if view.over is not None and asked == Position(view.epoch, view.head_seq):
        return Response(status_code=204)
    return EventStream(
        lambda viewer, send: services.feed(viewer, send, episode_id, asked), services.transport
    )


async def _health(request: Request) -> Response:
    """That it serves; how many watch, and how many episodes are followed for them."""
    services = _services(request)
    told: dict[str, Any] = {"status": "healthy", "viewers": len(services.audience)}
    return JSONResponse({**told, "followed": services.upstream.followed})


async def _elsewhere(request: Request) -> Response:
    """Whatever a relay does not have."""
    return problem(NOT_FOUND, ELSEWHERE, instance=request.url.path)
