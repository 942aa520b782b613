"""An HTTP endpoint that serves recorded model replies as chat completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from spectator.llm.answers import THOUGHT
from spectator.llm.exchanges import NotRecorded, Playback
from spectator.llm.recorded_responses import ResponsePlayback
from spectator.model_calls import ModelCall

PIECE: Final = 24
"""Characters of a streamed piece."""

Reply = Mapping[str, Any]
"""A reply as recorded by :mod:`spectator.llm.exchanges`."""


Tokens = Sequence[Mapping[str, Any]]
"""Parts of an answer's tokens: members of the completion and, under ``choice``, of its choice."""


def tokens_of(call: ModelCall, body: Mapping[str, Any]) -> Tokens:
    """Return the tokens of a recorded call, one part per version of the weights.

    Args:
        body: The request's body; ``return_token_ids`` and ``logprobs`` select what to return.
    """
    ids = call.token_ids if body.get("return_token_ids") else None
    logprobs = call.logprobs if body.get("logprobs") else None
    length = max(len(call.token_ids or ()), len(call.logprobs or ()))
    runs: Sequence[tuple[str | None, int]] = call.weight_versions or [(None, length)]
    parts, first = [], 0
    for version, tokens in runs:
        part: dict[str, Any] = {} if version is None else {"metadata": {"weight_version": version}}
        if first == 0 and body.get("return_token_ids") and call.prompt_token_ids is not None:
            part["prompt_token_ids"] = call.prompt_token_ids.tolist()
        choice: dict[str, Any] = {}
        if ids is not None:
            choice["token_ids"] = ids[first : first + tokens].tolist()
        if logprobs is not None:
            content = [{"token": "", "logprob": value} for value in logprobs[first : first + tokens]]
            choice["logprobs"] = {"content": content}
        parts.append({**part, "choice": choice})
        first += tokens
    return parts


def completion(reply: Reply, about: Mapping[str, Any], tokens: Tokens = ()) -> dict[str, Any]:
    """Return the completion for ``reply``.

    Args:
        about: ``id`` and ``created`` of the completion.
        tokens: Tokens from :func:`tokens_of`; of several versions of the weights only the last is included.
    """
    message: dict[str, Any] = {"role": "assistant", "content": _content(reply) or None}
    message |= _other_members(reply)
    if reply["refusal"]:
        message["refusal"] = reply["refusal"]
    if reply["tool_calls"]:
        message["tool_calls"] = [_call(call) for call in reply["tool_calls"]]
    choice = {"index": 0, "message": message, "finish_reason": reply["finish_reason"], **_joined(tokens)}
    whole = {**_head(reply, about, "chat.completion"), "choices": [choice]}
    for part in tokens:
        whole |= {name: value for name, value in part.items() if name != "choice"}
    return whole if reply["usage"] is None else {**whole, "usage": _usage(reply["usage"])}


def chunks(
    reply: Reply, about: Mapping[str, Any], tokens: Tokens = (), *, with_usage: bool
) -> Iterator[dict[str, Any]]:
    """Yield the chunks for ``reply``; ``with_usage``: the request's ``include_usage``."""
    head = _head(reply, about, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for name, value in _other_members(reply).items():
        for piece in _pieces(value) if isinstance(value, str) else (value,):
            yield chunk({name: piece})
    for name, text in (("content", _content(reply)), ("refusal", reply["refusal"] or "")):
        for piece in _pieces(text):
            yield chunk({name: piece})
    for index, call in enumerate(reply["tool_calls"]):
        start = _call({**call, "arguments": ""})
        yield chunk({"tool_calls": [{"index": index, **start}]})
        for piece in _pieces(call["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for part in tokens:
        more = {name: value for name, value in part.items() if name != "choice"}
        yield {**head, **more, "choices": [{"index": 0, "delta": {}, **part["choice"]}]}
    yield chunk({}, reply["finish_reason"] or "stop")
    if with_usage and reply["usage"] is not None:
        yield {**head, "choices": [], "usage": _usage(reply["usage"])}


def _joined(tokens: Tokens) -> dict[str, Any]:
    """Return the tokens of all parts, for a completion that is not streamed."""
    joined: dict[str, Any] = {}
    for part in tokens:
        for name, value in part["choice"].items():
            if name == "logprobs":
                joined.setdefault(name, {"content": []})["content"].extend(value["content"])
            else:
                joined.setdefault(name, []).extend(value)
    return joined


def _head(reply: Reply, about: Mapping[str, Any], kind: str) -> dict[str, Any]:
    names = ("model", "provider", "system_fingerprint")
    return {**about, "object": kind, **{name: reply[name] for name in names if reply.get(name) is not None}}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    verbatim = dict(call.get("verbatim") or {})
    function |= verbatim.pop("function", {})
    return {"id": call["id"], "type": "function", "function": function, **verbatim}


def _other_members(reply: Reply) -> dict[str, Any]:
    """Return the thoughts and all other members of the message.

    Thoughts that must not be sent back to a model are in our own member :data:`THOUGHT`.
    """
    verbatim = reply.get("verbatim") or {}
    reasoning = verbatim.get("reasoning_content") or verbatim.get("reasoning")
    thought = {} if isinstance(reasoning, str) or not reply["thought"] else {THOUGHT: reply["thought"]}
    return {**thought, **verbatim}


def _content(reply: Reply) -> str:
    """Return the text, with inline thoughts in ``<think>`` if there are any."""
    verbatim, text = reply.get("verbatim") or {}, reply["content"] or ""
    reasoning = verbatim.get("reasoning_content") or verbatim.get("reasoning")
    inline = reply["thought"].removeprefix(reasoning.strip()).strip() if isinstance(reasoning, str) else ""
    return f"<think>{inline}</think>{text}" if inline else text


def _usage(usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "prompt_tokens": usage["tokens_in"],
        "completion_tokens": usage["tokens_out"],
        "total_tokens": usage["tokens_in"] + usage["tokens_out"],
        "prompt_tokens_details": {"cached_tokens": usage["cached_in"]},
        "completion_tokens_details": {"reasoning_tokens": usage["thought_out"]},
    }


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""Largest accepted request body."""

SILENCE_S: Final = 3600.0
"""How long to stay silent for a request that timed out when it was recorded."""

_PLAYBACK: Final = web.AppKey("playback", Playback)
_RESPONSES: Final = web.AppKey("responses", ResponsePlayback)


def playback_app(playback: Playback) -> web.Application:
    """Return the app that serves ``/v1`` and, for sessions, ``/v1/SESSION``."""
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app[_PLAYBACK] = playback
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", _complete)
    app.router.add_post("/v1/{session}/chat/completions", _complete)
    return app


def responses_app(playback: ResponsePlayback) -> web.Application:
    """Return the app that serves raw recorded responses at their paths."""
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app[_RESPONSES] = playback
    app.router.add_post("/{path:.*}", _respond)
    return app


@asynccontextmanager
async def serving_playback(playback: Playback | ResponsePlayback, host: str, port: int) -> AsyncIterator[str]:
    """Serve until the context ends; yield the base URL for clients.

    Raises:
        OSError: Cannot listen on the address.
    """
    if isinstance(playback, Playback):
        app, path = playback_app(playback), "/v1"
    else:
        app, path = responses_app(playback), ""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        name, bound = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{bound}{path}"
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
        message = "the body must be a JSON object with a list of messages"
        return _error(400, message, "invalid_request_error", "messages")
    try:
        exchange = request.app[_PLAYBACK].answer(messages, tools)
    except NotRecorded as error:
        return _error(404, str(error), "not_recorded", error.where)
    if exchange.failure is not None:
        return await _fail(exchange.failure, request)
    if exchange.reply is None:
        message = f"the reply of turn {exchange.turn} was too long to be recorded"
        return _error(404, message, "not_recorded", None)
    about = {"id": f"chatcmpl-{exchange.request[:24]}", "created": 0}
    tokens = () if exchange.call is None else tokens_of(exchange.call, body)
    if not stream:
        return web.json_response(completion(exchange.reply, about, tokens))
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return await _stream(request, chunks(exchange.reply, about, tokens, with_usage=with_usage))


async def _stream(request: web.Request, pieces: Iterator[dict[str, Any]]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    for chunk in pieces:
        await response.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _respond(request: web.Request) -> web.StreamResponse:
    """Send a raw response as it was recorded."""
    try:
        body = json.loads(await request.read())
        recorded = request.app[_RESPONSES].answer(request.path_qs, body)
    except (ValueError, RecursionError):
        return _error(400, "the body must be JSON", "invalid_request_error", None)
    except NotRecorded as error:
        return _error(404, str(error), "not_recorded", error.where)
    response = web.StreamResponse(status=recorded.status or 503, headers=recorded.headers)
    if recorded.status is not None:
        await response.prepare(request)
        piece = b""
        for piece in recorded.pieces():
            await response.write(piece)
        while recorded.ending == "endless":
            await response.write(piece)
            await asyncio.sleep(0)
    if recorded.ending == "silent":
        await asyncio.sleep(SILENCE_S)
    if recorded.ending == "cut" and request.transport is not None:
        request.transport.abort()
    elif recorded.ending == "hangs_up" and request.transport is not None:
        await response.write_eof()
        request.transport.close()
    return response


async def _fail(failure: Mapping[str, Any], request: web.Request) -> web.StreamResponse:
    """Fail in the same way as the recorded endpoint."""
    if failure["status"] is not None:
        return _error(failure["status"], "recorded", failure["kind"], None, failure["retry_after_s"])
    if failure["kind"] == "timeout":
        await asyncio.sleep(SILENCE_S)
    if failure["kind"] == "malformed":
        return web.Response(text="this is not a completion")
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


def _error(
    status: int, message: str, code: str, where: str | None, retry_after_s: float | None = None
) -> web.Response:
    headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
    error = {"message": message, "type": code, "code": code, "param": where}
    return web.json_response({"error": error}, status=status, headers=headers)
