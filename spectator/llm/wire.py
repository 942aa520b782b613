"""The JSON of chat completions: requests to bytes, bodies to values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.chat import ChatRequest, Conversation, Message, SettledMessage, SettledTools


def encode_request(request: ChatRequest) -> bytes:
    """The body of the request.

    Raises:
        TypeError: Something in it is not JSON.
    """
    body: dict[str, Any] = {**request.extra, "model": request.model, "messages": ()}
    if request.tools:
        tools = request.tools
        body["tools"] = (tools.encoded or _encoded(tools)) if isinstance(tools, SettledTools) else tools
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.seed is not None:
        body["seed"] = request.seed
    if request.max_tokens is not None:
        body[request.max_tokens_field] = request.max_tokens
    if request.stop:
        body["stop"] = request.stop
    if request.logprobs:
        body["logprobs"] = True
    if request.token_ids:
        body |= {"return_token_ids": True, "return_prompt_token_ids": True, "return_meta_info": True}
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True, **body.get("stream_options", {})}}
    try:
        body["messages"] = _encoded_messages(request.messages)
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: the standard library writes both.
        plain = {"messages": request.messages, **({"tools": request.tools} if request.tools else {})}
        return json.dumps({**body, **plain}, allow_nan=False, separators=(",", ":")).encode()


def encode_json_body(body: Mapping[str, Any]) -> bytes:
    """``body`` as JSON.

    Raises:
        TypeError: Something in it is not JSON.
    """
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: the standard library writes both.
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def _encoded_messages(messages: Sequence[Message]) -> Any:
    """``messages`` with whatever of them was encoded before.

    Raises:
        orjson.JSONEncodeError: One of those that are encoded here cannot be.
    """
    if isinstance(messages, Conversation) and messages.beginning.encoded_of <= messages.settled:
        beginning, settled = messages.beginning, messages.settled
        for message in messages[beginning.encoded_of : settled]:
            beginning.encoded += (b"," if beginning.encoded_of else b"[") + orjson.dumps(message)
            beginning.encoded_of += 1
        rest = orjson.dumps(messages[settled:])
        if beginning.encoded and len(rest) > 2:
            return orjson.Fragment(b",".join((beginning.encoded, memoryview(rest)[1:])))
    return [
        (message.encoded or _encoded(message)) if isinstance(message, SettledMessage) else message
        for message in messages
    ]


def _encoded(settled: SettledMessage | SettledTools) -> Any:
    """The JSON of what changes no more, which keeps it; itself where that cannot be made."""
    try:
        settled.encoded = orjson.Fragment(orjson.dumps(settled))
    except orjson.JSONEncodeError:
        return settled
    return settled.encoded


def decode_json(data: bytes) -> Any:
    """The JSON value in ``data``.

    Raises:
        EndpointMalformed: It is none.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _decode_loosely(data)


def _decode_loosely(data: bytes) -> Any:
    """What Python servers write beyond the standard: NaN, infinities, lone surrogates."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EndpointMalformed(
            "the endpoint answered something that is not JSON", detail=_excerpt(data)
        ) from error


def _excerpt(data: bytes) -> str:
    return data[:300].decode(errors="replace")
