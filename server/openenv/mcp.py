"""``POST /mcp``: the Model Context Protocol over HTTP, with environments kept between requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from spectator.errors import EpisodeError, InvalidRequest
from spectator.events import encode_json

from ..security.bodies import in_thread_if_large
from ..security.faults import Refused
from . import rpc
from .rpc import RpcCall, RpcError
from .session import Session
from .sessions import Sessions, SessionsFull
from .wire import WireError, read_json
from .worlds import WireWorld

SESSION_HEADER: Final = "Mcp-Session-Id"
"""Names the kept environment, as MCP's own clients send it."""


@dataclass(frozen=True, slots=True)
class McpHandler:
    """Answers JSON-RPC over HTTP for one world.

    Without a session every request has an environment of its own. ``initialize`` and
    ``openenv/session/create`` keep one, until it is closed or silent for too long.

    Args:
        sessions: Where environments are opened and kept.
        wire: The world.
    """

    sessions: Sessions
    wire: WireWorld

    async def answer(self, request: Request) -> Response:
        """Answer a request: errors of JSON-RPC travel with HTTP status 200."""
        value: Any = None
        named = request.headers.get(SESSION_HEADER)
        try:
            body = await request.body()
            value = await in_thread_if_large(len(body), _parsed, body)
            call = rpc.read_call(value)
            if named is not None and self.sessions.find(named, self.wire) is None:
                why = self.sessions.expired(named) or "there is no such session"
                text = rpc.error_text(call.id, RpcError(rpc.INVALID_REQUEST, f"{why}; initialize"))
                return _json(text, status=404)
            if call.notification:
                return Response(status_code=202)
            return await self._perform(request, call, named)
        except RpcError as error:
            return _json(rpc.error_text(rpc.id_of(value), error))

    def close(self, request: Request) -> Response:
        """Let the named environment go."""
        session = self.sessions.find(request.headers.get(SESSION_HEADER, ""), self.wire)
        if session is None:
            return Response(status_code=404)
        self.sessions.close(session)
        return Response(status_code=204)

    async def _perform(self, request: Request, call: RpcCall, named: str | None) -> Response:
        if call.method == "initialize" and named is None:
            session = await self._keep(request, call.params, reset=rpc.episode_asked(call.params))
            result = rpc.initialize(self.wire, call.params)
            return _json(rpc.result_text(call.id, result), headers={SESSION_HEADER: session.session_id})
        if call.method == "openenv/session/create":
            session = await self._keep(request, call.params, reset=call.params)
            return _json(rpc.result_text(call.id, encode_json({"session_id": session.session_id})))
        session_id = named or _session_id(call.params)
        if call.method == "openenv/session/close":
            self.sessions.close(self._found(session_id))
            return _json(rpc.result_text(call.id, encode_json({"session_id": session_id, "closed": True})))

        @asynccontextmanager
        async def borrow() -> AsyncIterator[Session]:
            if session_id is None:
                async with self.sessions.private(self.wire, request) as session:
                    yield session
            else:
                yield self._found(session_id)

        return _json(rpc.result_text(call.id, await rpc.perform(call, self.wire, borrow)))

    async def _keep(
        self, request: Request, params: Mapping[str, Any], *, reset: Mapping[str, Any] | None
    ) -> Session:
        """Keep an environment, its episode begun when there are parameters of a reset."""
        wanted = rpc.reset_request(reset) if reset else None
        try:
            session = await self.sessions.open(self.wire, request, kept=True)
        except SessionsFull as error:
            raise rpc.full(error) from error
        except Refused as error:
            raise RpcError(rpc.SERVER_ERROR, error.detail) from error
        except EpisodeError as error:
            raise RpcError(rpc.INTERNAL_ERROR, str(error)) from error
        if wanted is not None:
            try:
                await session.reset(wanted)
            except (InvalidRequest, EpisodeError, Refused) as error:
                self.sessions.close(session)
                raise RpcError(rpc.INVALID_PARAMS, str(error)[:2000]) from error
        return session

    def _found(self, session_id: str | None) -> Session:
        if session_id is None:
            raise RpcError(rpc.INVALID_PARAMS, '"session_id" is needed')
        session = self.sessions.find(session_id, self.wire)
        if session is None:
            why = self.sessions.expired(session_id) or f"there is no session {session_id[:80]!r}"
            raise RpcError(rpc.INVALID_PARAMS, why)
        return session


def _parsed(body: bytes) -> Any:
    try:
        return read_json(body.decode())
    except (UnicodeDecodeError, WireError) as error:
        raise RpcError(rpc.PARSE_ERROR, str(error)[:200]) from error


def _session_id(params: Mapping[str, Any]) -> str | None:
    session_id = params.get("session_id")
    if not isinstance(session_id, str | None):
        raise RpcError(rpc.INVALID_PARAMS, '"session_id" is a text')
    return session_id


def _json(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers=dict(headers or {}), media_type="application/json")
