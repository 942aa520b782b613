"""The JSON of chat completions, and the protocol of every wire form.

The rest of the library uses chat completions only. A wire form translates a request for its endpoint, and
the response into chunks of a completion. `anthropic` and `gemini` implement the native APIs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.chat import ChatRequest, Conversation, FrozenMessage, FrozenTools, Message
from spectator.llm.endpoints import Address, ApiKey


def encode_request(request: ChatRequest) -> bytes:
    """Encode the request's body as JSON.

    Raises:
        TypeError: A value is not JSON.
    """
    prompt = request.prompt_ids
    about = {"messages": ()} if prompt is None else {"prompt": prompt}
    body: dict[str, Any] = {**request.extra, "model": request.model, **about}
    if request.tools and prompt is None:
        tools = request.tools
        body["tools"] = (tools.encoded or _encoded(tools)) if isinstance(tools, FrozenTools) else tools
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
        if request.constraint == "tools":
            body |= {"tool_choice": "required", "parallel_tool_calls": False}
    if request.schema is not None:
        about_answer = {"name": "decision", "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": about_answer}
    elif request.constraint == "json_object":
        body["response_format"] = {"type": "json_object"}
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
        body["logprobs"] = True if prompt is None else 1
    if request.token_ids:
        body |= {"return_token_ids": True, "return_prompt_token_ids": True, "return_meta_info": True}
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True, **body.get("stream_options", {})}}
    if prompt is not None:
        return encode_json_body(body)
    try:
        body["messages"] = _encoded_messages(request.messages)
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: only the standard library encodes them.
        plain = {"messages": request.messages, **({"tools": request.tools} if request.tools else {})}
        return json.dumps({**body, **plain}, allow_nan=False, separators=(",", ":")).encode()


def encode_json_body(body: Mapping[str, Any]) -> bytes:
    """Encode ``body`` as JSON.

    Raises:
        TypeError: A value is not JSON.
    """
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: only the standard library encodes them.
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def _encoded_messages(messages: Sequence[Message]) -> Any:
    """Return ``messages`` for orjson, reusing the JSON of frozen messages.

    Raises:
        orjson.JSONEncodeError: A message cannot be encoded by orjson.
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
        (message.encoded or _encoded(message)) if isinstance(message, FrozenMessage) else message
        for message in messages
    ]


def _encoded(frozen: FrozenMessage | FrozenTools) -> Any:
    """Return the cached JSON of ``frozen``, or itself if orjson cannot encode it."""
    try:
        frozen.encoded = orjson.Fragment(orjson.dumps(frozen))
    except orjson.JSONEncodeError:
        return frozen
    return frozen.encoded


def decode_json(data: bytes) -> Any:
    """Decode JSON, including NaN, infinities and lone surrogates.

    Raises:
        EndpointMalformed: ``data`` is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        excerpt = data[:300].decode(errors="replace")
        raise EndpointMalformed("the endpoint's answer is not JSON", detail=excerpt) from error


Chunk = Mapping[str, Any]
"""A chunk of a chat completion, or a complete one."""


class Translation(Protocol):
    """Translates the pieces of one answer into chunks of a chat completion."""

    def chunks(self, piece: Any) -> Iterable[Chunk]:
        """Translate a decoded piece: an event of the stream, or the whole answer.

        Raises:
            EndpointError: The piece reports an error, or does not have the expected form.
        """
        ...


class WireForm(Protocol):
    """The requests and answers of one kind of endpoint."""

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """Return the request's URL; raises as :meth:`Address.url` does."""
        ...

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """Return name and value of the header with the key."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Further headers of each request."""
        ...

    def encode(self, request: ChatRequest) -> bytes:
        """Encode the request's body.

        Raises:
            TypeError: A value is not JSON.
        """
        ...

    def translation(self) -> Translation | None:
        """Return a translation for one answer; ``None`` if none is needed."""
        ...


class OpenAIForm:
    """Chat completions, as defined by OpenAI and accepted by most endpoints."""

    headers: Mapping[str, str] = {}

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """See :meth:`WireForm.url`."""
        url = address.url(session)
        return url if request.prompt_ids is None else url.replace("/chat/completions", "/completions")

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """See :meth:`WireForm.key_header`."""
        return "Authorization", key.header()

    encode = staticmethod(encode_request)

    def translation(self) -> Translation | None:
        """Return ``None``: nothing needs translation."""
        return None


def delta(finish: str | None = None, **message: Any) -> dict[str, Any]:
    """Return a chunk that adds ``message`` to the answer."""
    return {"choices": [{"delta": message, "finish_reason": finish}]}


def call_delta(index: int, **call: Any) -> dict[str, Any]:
    """Return a chunk that adds ``call`` to the tool call at ``index``."""
    function = {name: call.pop(name) for name in ("name", "arguments") if name in call}
    return delta(tool_calls=[{"index": index, "type": "function", **call, "function": function}])


def alternate(
    turns: Iterable[tuple[str, list[dict[str, Any]]]],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Merge neighbouring turns of one role and drop empty ones, so roles alternate."""
    current: tuple[str, list[dict[str, Any]]] | None = None
    for role, parts in turns:
        if not parts:
            continue
        if current is not None and current[0] == role:
            current[1].extend(parts)
            continue
        if current is not None:
            yield current
        current = role, list(parts)
    if current is not None:
        yield current


def token_count(value: Any) -> int:
    """Return a number of tokens; 0 if ``value`` is not a positive integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
