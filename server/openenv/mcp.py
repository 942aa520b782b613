"""The Model Context Protocol: a world's actions as tools, and ``POST /mcp``.

JSON-RPC works over HTTP and WebSockets. Over HTTP a session keeps its environment between requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from spectator import __version__
from spectator.episodes.single_agent import briefing_for
from spectator.errors import EpisodeError, InvalidRequest
from spectator.events import encode_json

from ..security.bodies import in_thread_if_large
from ..security.faults import Refused
from .messages import ResetRequest, WireError, read_json, wrong_fields
from .session import Answer, Session
from .session_registry import SessionRegistry, SessionsFull
from .worlds import WireWorld

PROTOCOLS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported versions of the Model Context Protocol, newest first."""

START: Final = "start_episode"
"""Name of the tool that starts an episode."""

EPISODE: Final = "spectator/episode"
"""Member of ``_meta`` in ``initialize`` that starts an episode."""

Borrow = Callable[[], AbstractAsyncContextManager[Session]]
"""Lends an environment for one call."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000


class RpcError(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A JSON-RPC request.

    Args:
        notification: Whether it expects no answer.
    """

    id: str | int | float | None
    method: str
    params: Mapping[str, Any]
    notification: bool


def read_call(value: Any) -> RpcCall:
    """Parse a request."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "a request is one JSON object; batches are not supported")
    method, params, call_id = value.get("method"), value.get("params"), value.get("id")
    if value.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, 'a request has "jsonrpc": "2.0" and a "method"')
    if isinstance(call_id, bool) or not isinstance(call_id, str | int | float | None):
        raise RpcError(INVALID_REQUEST, 'an "id" is a string or a number')
    if not isinstance(params, dict | None):
        raise RpcError(INVALID_PARAMS, '"params" is an object')
    return RpcCall(call_id, method, params or {}, "id" not in value)


def id_of(value: Any) -> str | int | float | None:
    """Return the id for an answer to ``value``, which may be invalid."""
    call_id = value.get("id") if isinstance(value, dict) else None
    return call_id if isinstance(call_id, str | int | float) and not isinstance(call_id, bool) else None


def result_text(call_id: str | int | float | None, result: str) -> str:
    """Return the answer with a result that is already JSON."""
    return f'{{"jsonrpc":"2.0","id":{encode_json(call_id)},"result":{result}}}'


def error_text(call_id: str | int | float | None, error: RpcError) -> str:
    """Return the answer with an error."""
    sent: dict[str, Any] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        sent["data"] = error.data
    return encode_json({"jsonrpc": "2.0", "id": call_id, "error": sent})


def full(error: SessionsFull) -> RpcError:
    """Return the error if no further environment may be opened."""
    return RpcError(SERVER_ERROR, str(error), {"active_sessions": error.active, "max_sessions": error.limit})


def episode_asked(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the episode parameters in ``initialize``, if any.

    They are in ``_meta`` under :data:`EPISODE`.
    """
    meta = params.get("_meta")
    asked = meta.get(EPISODE) if isinstance(meta, Mapping) else None
    if not isinstance(asked, dict | None):
        raise RpcError(INVALID_PARAMS, f"`_meta.{EPISODE}` must be an object with the arguments of `{START}`")
    return asked


def initialize(wire: WireWorld, params: Mapping[str, Any]) -> str:
    """Return the result of ``initialize``: server and protocol version."""
    asked = params.get("protocolVersion")
    world = wire.world
    return encode_json(
        {
            "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": world.name, "title": world.title, "version": __version__},
            "instructions": instructions(wire),
        }
    )


def instructions(wire: WireWorld) -> str:
    """Return the instructions for an agent."""
    brief = briefing_for(wire.world.briefing)
    how = (
        f"`{START}` begins an episode, with a seed and options; without it the first use of another tool "
        "begins one with all of them left to chance and default. All tools are listed always: one that is "
        "not legal now is refused, and the refusal says by which rule. `done` tells the end, "
        "`metadata.value` what the episode is worth so far, and the rewards add up to its score."
    )
    return "\n\n".join(part for part in (brief["task"], how, brief["legend"]) if part)


def start_tool(wire: WireWorld) -> dict[str, Any]:
    """Return the tool that starts an episode."""
    asked, options = ResetRequest.model_json_schema(), wire.world.options_type.model_json_schema()
    fields = {name: rule for name, rule in asked["properties"].items() if not name.startswith("publish")}
    schema = {"type": "object", "properties": {**fields, **options.get("properties", {})}}
    if "$defs" in options:
        schema["$defs"] = options["$defs"]
    about = "Begin an episode; one under way is given up. Returns what there is to see at first."
    return {"name": START, "description": about, "inputSchema": {**schema, "additionalProperties": False}}


def all_tools(wire: WireWorld, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a world's actions and the start tool, unless an action has its name."""
    named = any(one["name"] == START for one in actions)
    return actions if named else [start_tool(wire), *actions]


async def answer(value: Any, wire: WireWorld, borrow: Borrow) -> str | None:
    """Answer a request; returns ``None`` for a notification."""
    try:
        call = read_call(value)
        if call.notification:
            return None
        return result_text(call.id, await perform(call, wire, borrow))
    except RpcError as error:
        return error_text(id_of(value), error)


async def perform(call: RpcCall, wire: WireWorld, borrow: Borrow) -> str:
    """Run a call; returns its result as JSON."""
    asked: Mapping[str, Any] | None = None
    if call.method == "initialize":
        asked = episode_asked(call.params)
        if asked is None:
            return initialize(wire, call.params)
    if call.method == "ping":
        return "{}"
    if call.method not in ("initialize", "tools/list", "tools/call"):
        raise RpcError(METHOD_NOT_FOUND, f"unknown method {call.method[:80]!r}")
    session: Session | None = None
    try:
        async with borrow() as session:
            if call.method == "initialize":
                await session.reset(reset_request(asked or {}))
                return initialize(wire, call.params)
            if call.method == "tools/list":
                return encode_json({"tools": all_tools(session.wire, await session.tools())})
            return await _use_tool(call.params, session)
    except InvalidRequest as error:
        raise RpcError(INVALID_PARAMS, str(error)[:2000]) from error
    except SessionsFull as error:
        raise full(error) from error
    except Refused as error:
        if session is not None and session.account is not None:
            session.account.note_refused()
        raise RpcError(SERVER_ERROR, error.detail) from error
    except EpisodeError as error:
        raise RpcError(INTERNAL_ERROR, str(error)) from error


async def _use_tool(params: Mapping[str, Any], session: Session) -> str:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        raise RpcError(INVALID_PARAMS, 'send {"name": string, "arguments": object}')
    wire = session.wire
    if name == START and all(one["tool"] != START for one in wire.world.tools):
        return _result(await session.reset(reset_request(arguments or {})))
    if wire.names_tools:
        action: dict[str, Any] = {"tool": name, **({} if arguments is None else {"arguments": arguments})}
    elif name in (known := [one["name"] for one in await session.tools()]):
        action = dict(arguments or {})
    else:
        raise RpcError(INVALID_PARAMS, f"unknown tool {name[:80]!r}; use one of {', '.join(known)}")
    await session.begin()
    return _result(await session.step(action))


def reset_request(params: Mapping[str, Any]) -> ResetRequest:
    """Parse the parameters of an episode."""
    try:
        return ResetRequest.model_validate(params)
    except ValidationError as error:
        raise RpcError(INVALID_PARAMS, str(wrong_fields(error))[:2000]) from error


def _result(answer: Answer) -> str:
    """Return an answer as a tool's result; only its text if the agent asked for text."""
    content = encode_json([{"type": "text", "text": answer.text if answer.said is None else answer.said}])
    refused = encode_json(answer.refused)
    return f'{{"content":{content},"structuredContent":{answer.text},"isError":{refused}}}'


SESSION_HEADER: Final = "Mcp-Session-Id"
"""Header with the session id, as in MCP."""


@dataclass(frozen=True, slots=True)
class McpHandler:
    """Answers JSON-RPC over HTTP for one world.

    Without a session every request has its own environment. ``initialize`` and ``openenv/session/create``
    keep one until it is closed or idle for too long.
    """

    sessions: SessionRegistry
    wire: WireWorld

    async def answer(self, request: Request) -> Response:
        """Answer a request; JSON-RPC errors have HTTP status 200."""
        value: Any = None
        named = request.headers.get(SESSION_HEADER)
        try:
            body = await request.body()
            value = await in_thread_if_large(len(body), _parsed, body)
            call = read_call(value)
            if named is not None and self.sessions.find(named, self.wire) is None:
                why = self.sessions.expired(named) or "unknown session"
                text = error_text(call.id, RpcError(INVALID_REQUEST, f"{why}; initialize"))
                return _json(text, status=404)
            if call.notification:
                return Response(status_code=202)
            return await self._perform(request, call, named)
        except RpcError as error:
            return _json(error_text(id_of(value), error))

    def close(self, request: Request) -> Response:
        """Close the named environment."""
        session = self.sessions.find(request.headers.get(SESSION_HEADER, ""), self.wire)
        if session is None:
            return Response(status_code=404)
        self.sessions.close(session)
        return Response(status_code=204)

    async def _perform(self, request: Request, call: RpcCall, named: str | None) -> Response:
        if call.method == "initialize" and named is None:
            session = await self._keep(request, call.params, reset=episode_asked(call.params))
            result = initialize(self.wire, call.params)
            return _json(result_text(call.id, result), headers={SESSION_HEADER: session.session_id})
        if call.method == "openenv/session/create":
            session = await self._keep(request, call.params, reset=call.params)
            return _json(result_text(call.id, encode_json({"session_id": session.session_id})))
        session_id = named or _session_id(call.params)
        if call.method == "openenv/session/close":
            self.sessions.close(self._found(session_id))
            return _json(result_text(call.id, encode_json({"session_id": session_id, "closed": True})))

        @asynccontextmanager
        async def borrow() -> AsyncIterator[Session]:
            if session_id is None:
                async with self.sessions.private(self.wire, request) as session:
                    yield session
            else:
                yield self._found(session_id)

        return _json(result_text(call.id, await perform(call, self.wire, borrow)))

    async def _keep(
        self, request: Request, params: Mapping[str, Any], *, reset: Mapping[str, Any] | None
    ) -> Session:
        wanted = reset_request(reset) if reset else None
        try:
            session = await self.sessions.open(self.wire, request, kept=True)
        except SessionsFull as error:
            raise full(error) from error
        except Refused as error:
            raise RpcError(SERVER_ERROR, error.detail) from error
        except EpisodeError as error:
            raise RpcError(INTERNAL_ERROR, str(error)) from error
        if wanted is not None:
            try:
                await session.reset(wanted)
            except (InvalidRequest, EpisodeError, Refused) as error:
                self.sessions.close(session)
                raise RpcError(INVALID_PARAMS, str(error)[:2000]) from error
        return session

    def _found(self, session_id: str | None) -> Session:
        if session_id is None:
            raise RpcError(INVALID_PARAMS, '"session_id" is required')
        session = self.sessions.find(session_id, self.wire)
        if session is None:
            why = self.sessions.expired(session_id) or f"unknown session {session_id[:80]!r}"
            raise RpcError(INVALID_PARAMS, why)
        return session


def _parsed(body: bytes) -> Any:
    try:
        return read_json(body.decode())
    except (UnicodeDecodeError, WireError) as error:
        raise RpcError(PARSE_ERROR, str(error)[:200]) from error


def _session_id(params: Mapping[str, Any]) -> str | None:
    session_id = params.get("session_id")
    if not isinstance(session_id, str | None):
        raise RpcError(INVALID_PARAMS, '"session_id" must be a string')
    return session_id


def _json(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers=dict(headers or {}), media_type="application/json")
