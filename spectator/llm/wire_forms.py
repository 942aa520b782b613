"""The JSON of chat completions, and the protocol of every wire form.

The rest of the library knows chat completions only. A wire form turns a request into what its endpoint
takes, and the response into chunks of a completion. `anthropic` and `gemini` hold the native forms.
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
    """The body of the request.

    Raises:
        TypeError: Something in it is not JSON.
    """
    body: dict[str, Any] = {**request.extra, "model": request.model, "messages": ()}
    if request.tools:
        tools = request.tools
        body["tools"] = (tools.encoded or _encoded(tools)) if isinstance(tools, FrozenTools) else tools
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
        (message.encoded or _encoded(message)) if isinstance(message, FrozenMessage) else message
        for message in messages
    ]


def _encoded(settled: FrozenMessage | FrozenTools) -> Any:
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


Chunk = Mapping[str, Any]
"""A chunk of a chat completion, or a whole one."""


class Translation(Protocol):
    """Turns the pieces of one answer into chunks of a chat completion."""

    def chunks(self, piece: Any) -> Iterable[Chunk]:
        """The chunks that a decoded piece says: an event of the stream, or the whole answer.

        Raises:
            EndpointError: It reports an error instead, or is nothing of this form.
        """
        ...


class WireForm(Protocol):
    """How one kind of endpoint is asked."""

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """Where the request goes; raises as :meth:`Address.url` does."""
        ...

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """The header that carries the key."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """What else the head of each request says."""
        ...

    def encode(self, request: ChatRequest) -> bytes:
        """The body of the request.

        Raises:
            TypeError: Something in it is not JSON.
        """
        ...

    def translation(self) -> Translation | None:
        """For one answer; ``None`` where it needs none."""
        ...


class OpenAIForm:
    """Chat completions, as OpenAI began them and most others take them."""

    headers: Mapping[str, str] = {}

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """See :meth:`WireForm.url`."""
        return address.url(session)

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """See :meth:`WireForm.key_header`."""
        return "Authorization", key.header()

    encode = staticmethod(encode_request)

    def translation(self) -> Translation | None:
        """Nothing is to be translated."""
        return None


def delta(finish: str | None = None, **message: Any) -> dict[str, Any]:
    """A chunk whose message grew by ``message``."""
    return {"choices": [{"delta": message, "finish_reason": finish}]}


def called(index: int, **call: Any) -> dict[str, Any]:
    """A chunk in which the call at ``index`` grew; ``name`` and ``arguments`` are its function's."""
    function = {name: call.pop(name) for name in ("name", "arguments") if name in call}
    return delta(tool_calls=[{"index": index, "type": "function", **call, "function": function}])


def joined(turns: Iterable[tuple[str, list[dict[str, Any]]]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """``(role, parts)`` with neighbours of one role made one, as roles must alternate; none is empty."""
    held: tuple[str, list[dict[str, Any]]] | None = None
    for role, parts in turns:
        if not parts:
            continue
        if held is not None and held[0] == role:
            held[1].extend(parts)
            continue
        if held is not None:
            yield held
        held = role, list(parts)
    if held is not None:
        yield held


def count(value: Any) -> int:
    """A number of tokens; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
