"""An HTTP endpoint that answers chat completions from a record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from spectator.llm.completions import chunks, completion, tokens_of
from spectator.llm.playback import NotRecorded, Playback

MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""Largest question that is read."""

SILENCE_S: Final = 3600.0
"""How long a question is left without an answer that timed out when it was recorded."""

_PLAYBACK: Final = web.AppKey("playback", Playback)


def playback_app(playback: Playback) -> web.Application:
    """The endpoint, at ``/v1`` and, for sessions in the URL, at ``/v1/SESSION``."""
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app[_PLAYBACK] = playback
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", _complete)
    app.router.add_post("/v1/{session}/chat/completions", _complete)
    return app


@asynccontextmanager
async def serving_playback(playback: Playback, host: str, port: int) -> AsyncIterator[str]:
    """Serve until the context ends; gives the base URL that clients need.

    Raises:
        OSError: The address cannot be listened on.
    """
    runner = web.AppRunner(
        playback_app(playback), access_log=None, handler_cancellation=True, shutdown_timeout=1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        name, bound = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{bound}/v1"
    finally:
        await runner.cleanup()


async def _models(request: web.Request) -> web.Response:
    listed = [{"id": name, "object": "model", "owned_by": "record"} for name in request.app[_PLAYBACK].models]
    return web.json_response({"object": "list", "data": listed})


async def _complete(request: web.Request) -> web.StreamResponse:
    try:
        body = json.loads(await request.read())
        messages, tools, stream = body["messages"], body.get("tools") or [], bool(body.get("stream"))
        if not all(isinstance(one, dict) for many in (messages, tools) for one in many):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _error(400, "send a JSON object with a list of messages", "invalid_request_error", "messages")
    try:
        kept = request.app[_PLAYBACK].answer(messages, tools)
    except NotRecorded as error:
        return _error(404, str(error), "not_recorded", error.where)
    if kept.failure is not None:
        return await _fail(kept.failure, request)
    if kept.reply is None:
        return _error(404, f"the reply of turn {kept.turn} was too long to be recorded", "not_recorded", None)
    about = {"id": f"chatcmpl-{kept.request[:24]}", "created": 0}
    tokens = () if kept.call is None else tokens_of(kept.call, body)
    if not stream:
        return web.json_response(completion(kept.reply, about, tokens))
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return await _stream(request, chunks(kept.reply, about, tokens, with_usage=with_usage))


async def _stream(request: web.Request, pieces: Iterator[dict[str, Any]]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    for chunk in pieces:
        await response.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _fail(failure: Mapping[str, Any], request: web.Request) -> web.StreamResponse:
    """Fail as the endpoint did when it was recorded."""
    if failure["status"] is not None:
        return _error(failure["status"], "recorded", failure["kind"], None, failure["retry_after_s"])
    if failure["kind"] == "timeout":
        await asyncio.sleep(SILENCE_S)
    if failure["kind"] == "malformed":
        return web.Response(text="this is no completion")
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


def _error(
    status: int, message: str, code: str, where: str | None, retry_after_s: float | None = None
) -> web.Response:
    headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
    error = {"message": message, "type": code, "code": code, "param": where}
    return web.json_response({"error": error}, status=status, headers=headers)
