"""Routes of the OpenEnv contract: the default world at the root, each at ``/envs/{name}``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from spectator import __version__
from spectator.catalog import world_names
from spectator.clock import SystemClock
from spectator.episodes.supervisor import Supervisor
from spectator.errors import FieldError, InvalidRequest

from ..security import faults
from ..security.bodies import in_thread_if_large, read_object
from ..security.budget import Budget
from ..security.faults import Refused, describe, documented, install_faults, problem
from ..security.permissions import Guard, Offer
from ..settings import Settings
from . import sockets
from .mcp import McpHandler
from .messages import (
    EnvironmentsAnswer,
    Health,
    MetadataAnswer,
    ResetRequest,
    SchemaAnswer,
    StateAnswer,
    StepAnswer,
    StepRequest,
    wrong_fields,
)
from .pooled import CROWDED, PooledRoutes
from .publisher import ClientPublisher
from .session import Session, SessionLimits
from .session_registry import SessionRegistry, SessionsFull
from .worlds import WireWorld, WireWorlds

_Model = TypeVar("_Model", bound=BaseModel)

TAGS: Final = ["openenv"]
NOT_OF_MCP: Final = ("GET", "HEAD", "OPTIONS", "PATCH", "PUT")
MCP_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The answer, or an error of JSON-RPC", "content": {"application/json": {}}},
    202: {"description": "A notification was accepted"},
    404: {"description": "Unknown session; initialize one"},
    413: documented(faults.TOO_LARGE)[413],
}


@dataclass(frozen=True, slots=True)
class OpenEnv:
    """The OpenEnv service of the server.

    Args:
        default: Name of the world at the root.
    """

    sessions: SessionRegistry
    worlds: WireWorlds
    default: str
    most_published: int

    async def start(self, supervisor: Supervisor, guard: Guard, budget: Budget) -> None:
        """Load the default world, so that a broken one fails at startup."""
        self.sessions.budget = budget

        def publisher_for(connection: HTTPConnection) -> ClientPublisher | None:
            try:
                guard.require_operator(connection)
            except Refused:
                return None
            return ClientPublisher(supervisor, budget.account(connection), self.most_published)

        self.sessions.publisher_for = publisher_for
        await self.worlds.get(self.default)

    async def aclose(self) -> None:
        """Close every environment."""
        await self.sessions.aclose()


async def health() -> Health:
    """Report that the process is up; touches nothing."""
    return Health()


async def _not_of_mcp() -> None:
    """List both methods of ``/mcp``; the framework would list those of one route."""
    raise HTTPException(405, headers={"Allow": "DELETE, POST"})


class WorldRoutes:
    """The contract's routes for one world."""

    def __init__(self, service: OpenEnv, name: str) -> None:
        self._sessions = service.sessions
        self._worlds = service.worlds
        self._name = name

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(tags=list(TAGS))
        refusals = documented(
            faults.MALFORMED, faults.TOO_LARGE, faults.NOT_JSON, faults.INVALID, CROWDED, faults.TIMED_OUT,
            faults.TOO_MANY,
        )  # fmt: skip
        post: dict[str, Any] = {"methods": ["POST"], "response_model": StepAnswer, "responses": refusals}
        router.add_api_route("/health", health)
        router.add_api_route("/reset", self.reset, openapi_extra=_body(ResetRequest), **post)
        router.add_api_route("/step", self.step, openapi_extra=_body(StepRequest), **post)
        router.add_api_route(
            "/state",
            self.state,
            response_model=StateAnswer,
            responses=documented(CROWDED, faults.TIMED_OUT, faults.TOO_MANY),
        )
        router.add_api_route("/schema", self.schema, response_model=SchemaAnswer)
        router.add_api_route("/metadata", self.metadata, response_model=MetadataAnswer)
        router.add_api_route(
            "/mcp", self.mcp, methods=["POST"], response_class=Response, responses=MCP_ANSWERS
        )
        router.add_api_route(
            "/mcp",
            self.leave_mcp,
            methods=["DELETE"],
            status_code=204,
            response_class=Response,
            responses={404: MCP_ANSWERS[404]},
        )
        router.add_api_route("/mcp", _not_of_mcp, methods=list(NOT_OF_MCP), include_in_schema=False)
        router.add_api_websocket_route("/ws", self.serve_socket)
        router.add_api_websocket_route("/mcp", self.serve_mcp)
        return router

    async def reset(self, request: Request) -> Response:
        """Begin an episode in a fresh environment and return its first observation.

        HTTP requests share no environment, as in OpenEnv's own servers; a socket at `/ws` keeps its own.
        """
        parameters = await _read(ResetRequest, request)
        async with self._private(request) as session:
            return _json((await session.reset(parameters)).text)

    async def step(self, request: Request) -> Response:
        """Begin an episode in a fresh environment and take one action in it."""
        asked = await _read(StepRequest, request)
        async with self._private(request) as session:
            with _within("reset"):
                await session.reset(asked.reset)
            with _within("action"):
                return _json((await session.step(asked.action, asked.timeout_s)).text)

    async def state(self, request: Request) -> Response:
        """Return the public state of a fresh episode."""
        async with self._private(request) as session:
            await session.reset(ResetRequest())
            return _json(await session.state())

    async def schema(self) -> SchemaAnswer:
        """Return JSON schemas of actions, observations and states."""
        return (await self._worlds.get(self._name)).schemas()

    async def metadata(self) -> MetadataAnswer:
        """Describe this environment."""
        return (await self._worlds.get(self._name)).metadata()

    async def mcp(self, request: Request) -> Response:
        """Serve the Model Context Protocol: JSON-RPC, with the world's actions as tools."""
        return await (await self._mcp_handler()).answer(request)

    async def leave_mcp(self, request: Request) -> Response:
        """End the MCP session in the header `Mcp-Session-Id`."""
        return (await self._mcp_handler()).close(request)

    async def serve_socket(self, websocket: WebSocket) -> None:
        """Serve a private environment while the socket is open."""
        await sockets.serve(websocket, self._sessions, self._worlds, self._name, sockets.answer_frame)

    async def serve_mcp(self, websocket: WebSocket) -> None:
        """Serve a private environment over JSON-RPC while the socket is open."""
        await sockets.serve(websocket, self._sessions, self._worlds, self._name, sockets.answer_call)

    async def _mcp_handler(self) -> McpHandler:
        return McpHandler(self._sessions, await self._worlds.get(self._name))

    @asynccontextmanager
    async def _private(self, request: Request) -> AsyncIterator[Session]:
        wire: WireWorld = await self._worlds.get(self._name)
        try:
            async with self._sessions.private(wire, request) as session:
                yield session
        except SessionsFull as error:
            raise Refused(CROWDED, f"{error}.", headers={"Retry-After": "5"}) from error


def register_openenv(app: FastAPI, settings: Settings) -> OpenEnv:
    """Add the contract's routes to ``app``.

    Args:
        app: The application; routes that it already has take precedence.

    Returns:
        The service; start and close it with the application.
    """
    limits = SessionLimits(
        sessions=settings.openenv_max_sessions,
        idle_s=settings.openenv_session_idle_s,
        step_s=settings.step_timeout_s,
        reset_s=settings.reset_timeout_s,
        offer=Offer.of(settings),
        by_address=settings.openenv_sessions_per_address,
    )
    sessions = SessionRegistry(limits, SystemClock())
    service = OpenEnv(sessions, WireWorlds(), settings.environment, settings.openenv_max_published)
    app.router.routes.extend(WorldRoutes(service, settings.environment).router().routes)
    for name in world_names():
        app.mount(f"/envs/{name}", _at_first_request(app, service, name), name=f"openenv-{name}")
    app.router.routes.extend(_listing(service).routes)
    app.router.routes.extend(PooledRoutes(sessions, service.worlds).router().routes)
    app.add_api_route("/envs/{name}/{rest:path}", _no_world, methods=list(METHODS), include_in_schema=False)
    app.add_api_websocket_route("/envs/{name}/{rest:path}", _no_world_socket)
    return service


METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def _at_first_request(app: FastAPI, service: OpenEnv, name: str) -> ASGIApp:
    """Return the application of one world, built with its first request: that of all takes 20 ms."""

    @cache
    def built() -> FastAPI:
        world = FastAPI(title=f"Spectator: {name}", version=__version__, docs_url=None, redoc_url=None)
        install_faults(world)
        world.router.routes.extend(WorldRoutes(service, name).router().routes)
        describe(world)
        world.state = app.state
        return world

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await built()(scope, receive, send)

    return answer


def _listing(service: OpenEnv) -> APIRouter:
    router = APIRouter(tags=list(TAGS))

    @router.get("/envs")
    async def environments() -> EnvironmentsAnswer:
        """List the worlds, the one at the root first.

        Each has the same contract at `/envs/{name}`.
        """
        names = [service.default, *(name for name in world_names() if name != service.default)]
        return EnvironmentsAnswer(environments=names)

    @router.get("/envs/{name}", responses=documented(faults.NOT_FOUND, faults.INVALID))
    async def environment(name: str) -> MetadataAnswer:
        """Describe one world."""
        if name not in world_names():
            await _no_world(name)
        return (await service.worlds.get(name)).metadata()

    return router


async def _no_world(name: str) -> None:
    raise Refused(faults.NOT_FOUND, _unknown(name))


async def _no_world_socket(websocket: WebSocket) -> None:
    detail = _unknown(str(websocket.path_params["name"]))
    await websocket.send_denial_response(problem(faults.NOT_FOUND, detail, instance=websocket.url.path))


def _unknown(name: str) -> str:
    return f"Unknown world {name[:80]!r}; use one of {', '.join(world_names())}."


async def _read(model: type[_Model], request: Request) -> _Model:
    sent = await read_object(request)

    def check(fields: dict[str, Any]) -> _Model:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            raise wrong_fields(error) from error

    return await in_thread_if_large(len(await request.body()), check, sent)


@contextmanager
def _within(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        raise InvalidRequest(FieldError(f"{name}.{one.field}", one.rule) for one in error.fields) from error


@cache
def _body(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    defined = schema.pop("$defs", {})
    for name, field in schema.get("properties", {}).items():
        if "$ref" in field:
            schema["properties"][name] = defined[field["$ref"].rpartition("/")[2]]
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
