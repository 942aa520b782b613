"""The application: routes, middleware and services, and the command that serves it."""

from __future__ import annotations

import gc

gc.disable()  # until all is imported: full collections would take a sixth of that time and find nothing

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spectator import __version__
from spectator.clock import SystemClock
from spectator.errors import SpectatorError
from spectator.events import encode_json

from .http import (
    analysis,
    captains,
    control,
    episodes,
    leaderboard,
    league,
    live,
    moments,
    operations,
    rollouts,
    seats,
    sharing,
    sign_in,
    start_routes,
    voice,
    voting,
)
from .http.api_reference import reference_router
from .http.assets import mount_assets
from .http.control import ChooseEpisode, ChoosePace
from .http.episodes import GiveNote
from .http.operations import ChooseName
from .http.pages import install_error_pages, pages_router
from .http.responses import Compression
from .http.seats import Act
from .http.start_requests import ForkEpisode, StartEpisode
from .http.templates import Templates
from .http.voting import CastVote
from .openenv import register_openenv
from .process import Server, configure_logging, listen, server_of, within_open_files
from .security.faults import describe, install_faults
from .security.middleware import Admission, HeadRequests, RequestShield, SecurityHeaders
from .security.requests import ForwardedAddress
from .services import Services
from .settings import Settings, read_environment, welcome
from .wiring import open_services, read_cast

gc.freeze()  # exclude imported objects from further collections
gc.enable()

OPENAPI_URL: Final = "/openapi.json"

SWITCH_S: Final = 0.0005
"""Seconds that a thread computes while others wait: a step switches threads ten times, too slow at 5 ms
each."""


def create_app(settings: Settings) -> FastAPI:
    """Build the application; its services live as long as its lifespan."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            app.state.services = await stack.enter_async_context(open_services(settings))
            services: Services = app.state.services
            await openenv.start(services.supervisor, services.guard, services.budget)
            stack.push_async_callback(openenv.aclose)
            yield

    app = FastAPI(
        title="Spectator",
        summary="Watch agents play: every event of an episode, in order and recorded, in every browser.",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    install_faults(app)
    app.add_middleware(Compression)
    app.add_middleware(RequestShield, settings=settings)
    app.add_middleware(Admission, limited=bool(settings.requests_per_minute))
    app.add_middleware(SecurityHeaders, settings=settings)
    app.add_middleware(HeadRequests)
    if settings.trusted_hops:
        app.add_middleware(ForwardedAddress, hops=settings.trusted_hops)
    templates = Templates(join=settings.join_assets)
    for router in _routers(templates):  # `include_router` would build each route again on its first request
        app.router.routes.extend(router.routes)
    install_error_pages(app, templates)
    mount_assets(app, join=settings.join_assets)
    openenv = register_openenv(app, settings)
    describe(app, StartEpisode, ForkEpisode, ChooseEpisode, ChoosePace, Act, ChooseName, GiveNote, CastVote)
    app.router.routes.append(Route(OPENAPI_URL, _openapi_route(app), include_in_schema=False))
    return app


def _routers(templates: Templates) -> tuple[APIRouter, ...]:
    """Return the routes of the API, of live play, and of the pages."""
    with_routes = (
        operations, start_routes, control, seats, episodes, leaderboard, analysis, voice, live, sharing,
        rollouts, voting,
    )  # fmt: skip
    return (
        *(module.router for module in with_routes),
        start_routes.catalogue_router,
        live.publish_router,
        operations.operator_router,
        analysis.alternatives_router(),
        rollouts.live_router,
        pages_router(templates),
        sign_in.sign_in_router(templates),
        leaderboard.leaderboard_page(templates),
        league.league_page(templates),
        captains.captain_pages(templates),
        sharing.sharing_pages(templates),
        moments.moment_pages(templates),
        analysis.reliability_page(templates),
        voting.calls_pages(templates),
        voice.voice_page(templates),
        reference_router(templates),
    )


def _openapi_route(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """Return the route of the OpenAPI document.

    The document is built once, on a thread since that takes 140 ms.
    """
    encoded: asyncio.Task[str] | None = None

    async def answer(request: Request) -> Response:
        nonlocal encoded
        if encoded is None:
            encoded = asyncio.create_task(asyncio.to_thread(lambda: encode_json(app.openapi())))
        return Response(await asyncio.shield(encoded), media_type="application/json")

    return answer


def build_server(settings: Settings) -> Server:
    """Return a server for these settings, not yet started."""
    return server_of(create_app(settings), settings)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stopped; settings come from the environment, see docs/settings.md."""
    parser = argparse.ArgumentParser(
        prog="server",
        description="Serve Spectator: its pages, its live channel and its OpenEnv environments.",
        epilog="Example: SPECTATOR_MAX_EPISODES=4 server --port 8080. All settings: docs/settings.md.",
    )
    parser.add_argument("--host", help="address to listen on (SPECTATOR_HOST)")
    parser.add_argument("--port", help="port to listen on (SPECTATOR_PORT)")
    given = parser.parse_args(arguments)
    try:
        settings = read_environment(host=given.host, port=given.port)
        configure_logging(settings)
        read_cast(settings, SystemClock())
        listener = listen(settings)
    except SpectatorError as error:
        sys.exit(f"server: {error}")
    host, port = listener.getsockname()[:2]
    settings = within_open_files(settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with listener, contextlib.suppress(KeyboardInterrupt):
        server = build_server(settings)
        server.announcement = f"{welcome(settings, host, port)}\n"
        sys.setswitchinterval(SWITCH_S)
        gc.freeze()
        server.run(sockets=[listener])


def __getattr__(name: str) -> FastAPI:
    """Return ``app``, built from the environment, for ``uvicorn server.app:app``."""
    if name == "app":
        return create_app(read_environment())
    raise AttributeError(name)


if __name__ == "__main__":
    main()
