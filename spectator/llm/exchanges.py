"""Record exchanges with a model, and replay the replies to equal requests.

Requests are identified by a hash. For a growing conversation, only new messages are hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import orjson

from spectator.errors import EndpointError, SpectatorError
from spectator.llm.chat import (
    ChatAnswer,
    ChatRequest,
    Conversation,
    FrozenMessage,
    FrozenTools,
    Message,
    ToolCall,
    Usage,
)
from spectator.model_calls import ModelCall
from spectator.text import encodable

_BEGINNING: Final[hashlib._Hash] = hashlib.sha256(b'{"messages":[')


_canonical: Final = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)


def hash_request(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256, in hex, of messages and tools as JSON with sorted keys.

    Raises:
        TypeError: A value is not JSON.
    """
    try:
        if isinstance(messages, Conversation) and messages.beginning.hashed_of <= messages.settled:
            whole = _hash_conversation(messages)
        else:
            whole = _hash_messages(messages).copy()
        whole.update(b'],"tools":' + _canonical_tools(tools) + b"}")
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits: only the standard library encodes them.
        request = {"messages": list(messages), "tools": list(tools)}
        return hashlib.sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return whole.hexdigest()


def _hash_messages(messages: Sequence[Message]) -> hashlib._Hash:
    """Return the cached hash state after ``messages``; do not update it."""
    state = _BEGINNING
    for message in messages:
        frozen = message if isinstance(message, FrozenMessage) else None
        if frozen is not None and frozen.hashed is not None and frozen.hashed[0] is state:
            state = frozen.hashed[1]
            continue
        before, state = state, state.copy()
        state.update(_canonical(message) if before is _BEGINNING else b"," + _canonical(message))
        if frozen is not None:
            frozen.hashed = before, state
    return state


def _hash_conversation(messages: Conversation) -> hashlib._Hash:
    """Return a new hash state after a conversation, extending its cached prefix."""
    beginning, settled = messages.beginning, messages.settled
    if beginning.hashed is None:
        beginning.hashed = _BEGINNING.copy()
    for message in messages[beginning.hashed_of : settled]:
        canonical = _canonical(message)
        beginning.hashed.update(b"," + canonical if beginning.hashed_of else canonical)
        beginning.hashed_of += 1
    state: hashlib._Hash = beginning.hashed.copy()
    for place, message in enumerate(messages[settled:], settled):
        state.update(b"," + _canonical(message) if place else _canonical(message))
    return state


def _canonical_tools(tools: Sequence[Mapping[str, Any]]) -> bytes:
    if not isinstance(tools, FrozenTools):
        return _canonical(list(tools))
    if tools.canonical is None:
        tools.canonical = _canonical(tools)
    return tools.canonical


MAX_REPLY: Final = 32_768
"""Characters; events omit longer replies entirely, because a cut reply would be a different one."""

_SERVED_BY: Final = ("provider", "system_fingerprint")
"""Members of a reply that only some endpoints have."""

_TEXTS: Final = ("content", "thought", "refusal", "finish_reason", "model")


def fingerprint(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the SHA-256, in hex, of messages and tools; equal in every process.

    Model, sampling and streaming are not included, so that any client can send an equal request.
    """
    return hash_request(messages, tools)


def call_answered(
    request: ChatRequest, answer: ChatAnswer, settings: Mapping[str, Any] = MappingProxyType({})
) -> ModelCall:
    """Return the complete record of an answered call, including tokens.

    Args:
        settings: Settings of the captain that reach the endpoint, without secrets.
    """
    first_token_s = answer.first_token_s
    measured = {
        "latency_s": round(answer.latency_s, 6),
        "first_token_s": None if first_token_s is None else round(first_token_s, 6),
        "attempts": answer.attempts,
    }
    return ModelCall(
        messages=request.messages,
        tools=request.tools,
        reply=_reply(answer),
        prompt_token_ids=answer.prompt_token_ids,
        token_ids=answer.token_ids,
        logprobs=answer.logprobs,
        weight_versions=answer.weight_versions,
        about=_about(request, settings),
        measured=measured,
    )


def call_failed(request: ChatRequest, settings: Mapping[str, Any] = MappingProxyType({})) -> ModelCall:
    """Return the record of a call without an answer; see :func:`call_answered`."""
    return ModelCall(messages=request.messages, tools=request.tools, about=_about(request, settings))


def answered(call: ModelCall) -> dict[str, Any]:
    """Return the event data of an answered call, without a reply that is too long."""
    asked = fingerprint(call.messages, call.tools)
    reply = call.reply or {}
    size = sum([len(reply[name]) for name in _TEXTS if reply[name]])
    for made in reply["tool_calls"]:
        size += len(made["id"]) + len(made["name"]) + len(made["arguments"])
    size += sum(_size(part["verbatim"]) for part in (reply, *reply["tool_calls"]) if "verbatim" in part)
    short = call.reply if size <= MAX_REPLY else None
    return {"request": asked, "reply": short, "digest": call.digest(asked)}


SETTINGS: Final = "settings"
"""Member of a call's ``about`` with the captain's settings, without secrets."""


def _about(request: ChatRequest, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return model, sampling options and the captain's settings; ``extra`` only as they state it."""
    asked: dict[str, Any] = {"model": request.model}
    if request.tool_choice is not None:
        asked["tool_choice"] = request.tool_choice
    if request.constraint != "none":
        asked["constraint"] = request.constraint
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.top_p is not None:
        asked["top_p"] = request.top_p
    if request.max_tokens is not None:
        asked["max_tokens"] = request.max_tokens
    if request.stop:
        asked["stop"] = list(request.stop)
    if request.seed is not None:
        asked["seed"] = request.seed
    if settings:
        return {**asked, SETTINGS: dict(settings)}
    return asked


def _reply(answer: ChatAnswer) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    for call in answer.tool_calls:
        made: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
        if not (call.id.isascii() and call.name.isascii() and call.arguments.isascii()):
            made = {name: encodable(text) for name, text in made.items()}
        if call.verbatim:
            made["verbatim"] = call.verbatim
        calls.append(made)
    reply: dict[str, Any] = {
        "content": answer.text if answer.text.isascii() else encodable(answer.text),
        "thought": answer.thought and encodable(answer.thought),
        "refusal": answer.refusal and encodable(answer.refusal),
        "tool_calls": calls,
        "finish_reason": answer.finish_reason and encodable(answer.finish_reason),
        "model": answer.model and encodable(answer.model),
        "usage": None if answer.usage is None else _tokens(answer.usage),
    }
    for name in _SERVED_BY:
        if (text := getattr(answer, name)) is not None:
            reply[name] = encodable(text)
    if answer.verbatim:
        reply["verbatim"] = answer.verbatim
    return reply


def _size(value: Any) -> int:
    """Return the number of characters of all texts in a value, including member names."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(member) for name, member in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8


def _tokens(usage: Usage) -> dict[str, int]:
    tokens = {
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "cached_in": usage.cached_in,
        "thought_out": usage.thought_out,
    }
    if usage.cache_written:
        tokens["cache_written"] = usage.cache_written
    return tokens


def failed(call: ModelCall, error: EndpointError) -> dict[str, Any]:
    """Return the event data of a call without an answer."""
    failure = {"kind": error.kind, "status": error.status, "retry_after_s": error.retry_after_s}
    asked = fingerprint(call.messages, call.tools)
    return {"request": asked, "failure": failure, "digest": call.digest(asked)}


def answer_of(reply: Mapping[str, Any]) -> ChatAnswer:
    """Return the answer that was recorded as ``reply``."""
    usage = reply.get("usage")
    return ChatAnswer(
        text=reply["content"],
        thought=reply["thought"],
        refusal=reply["refusal"],
        tool_calls=tuple(ToolCall(**call) for call in reply["tool_calls"]),
        finish_reason=reply["finish_reason"],
        model=reply["model"],
        provider=reply.get("provider"),
        system_fingerprint=reply.get("system_fingerprint"),
        usage=None if usage is None else Usage(**usage),
        verbatim=reply.get("verbatim") or {},
    )


EXCERPT: Final = 60
"""Characters quoted from the first difference of two requests."""


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One recorded request to a model, and its reply or failure.

    Args:
        actor: The seat that had to decide.
        request: Hash of the request; see :func:`fingerprint`.
        messages: The request's messages.
        tools: The request's tools.
        reply: The reply; ``None`` if there was none.
        failure: Why there was no reply: ``kind``, ``status``, ``retry_after_s``.
        call: The complete call, with its tokens.
    """

    turn: int
    actor: str
    request: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    reply: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None
    call: ModelCall | None = None


class NotRecorded(SpectatorError):
    """The request is not in the record.

    Args:
        message: Names the most similar recorded request and the difference.
        where: The part that differs, such as ``messages[3]``.
    """

    def __init__(self, message: str, where: str) -> None:
        self.where = where
        super().__init__(message)


class Playback:
    """Serves the recorded replies of one episode, any number of times.

    If equal requests got different replies, they are served in turn, and then from the start again.

    Args:
        exchanges: The recorded exchanges, in order.
    """

    def __init__(self, exchanges: Sequence[RecordedExchange]) -> None:
        self._exchanges = exchanges
        self._by_request: dict[str, list[RecordedExchange]] = defaultdict(list)
        self._served: dict[str, int] = defaultdict(int)
        for exchange in exchanges:
            self._by_request[exchange.request].append(exchange)

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def models(self) -> list[str]:
        """Names of the models in the replies."""
        return sorted(
            {str(one.reply["model"]) for one in self._exchanges if one.reply and one.reply["model"]}
        )

    def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> RecordedExchange:
        """Return the next recorded exchange with this request.

        Raises:
            NotRecorded: There is none.
        """
        request = fingerprint(messages, tools)
        recorded = self._by_request.get(request)
        if recorded is None:
            raise self._unknown(messages, tools)
        exchange = recorded[self._served[request] % len(recorded)]
        self._served[request] += 1
        return exchange

    def _unknown(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> NotRecorded:
        if not self._exchanges:
            return NotRecorded("the record has no requests", "messages")
        nearest = max(self._exchanges, key=lambda one: _similarity(one.messages, messages))
        where, how = _difference(nearest, messages, tools)
        near = f"the most similar one is of turn {nearest.turn} for {nearest.actor}"
        return NotRecorded(f"this request is not recorded; {near}: {how}", where)


def _similarity(recorded: Sequence[Message], asked: Sequence[Message]) -> tuple[int, int, int]:
    """Return a sort key: equal messages, difference in length, equal characters."""
    same = _common_messages(recorded, asked)
    follow = zip(recorded[same : same + 1], asked[same : same + 1], strict=False)
    characters = sum(_common_prefix(_content(one), _content(other)) for one, other in follow)
    return same, -abs(len(recorded) - len(asked)), characters


def _common_messages(recorded: Sequence[Message], asked: Sequence[Message]) -> int:
    pairs = enumerate(zip(recorded, asked, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(recorded), len(asked)))


def _difference(
    nearest: RecordedExchange, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    recorded = nearest.messages
    index = _common_messages(recorded, messages)
    if index == len(recorded) == len(messages):
        return "tools", _different_tools(nearest.tools, tools)
    if index in (len(recorded), len(messages)):
        return "messages", f"it has {len(recorded)} messages, this one {len(messages)}; the others are equal"
    one, other = recorded[index], messages[index]
    where = f"messages[{index}]"
    before, after = _content(one), _content(other)
    if before == after:
        names = [name for name in {*one, *other} if one.get(name) != other.get(name)]
        return where, f"message {index} differs in {', '.join(sorted(names))}"
    at = _common_prefix(before, after)
    return where, (
        f"message {index} ({other.get('role')}) differs from character {at}: recorded "
        f"{_excerpt(before, at)!r}, received {_excerpt(after, at)!r}"
    )


def _different_tools(recorded: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> str:
    one, other = ([_tool_name(tool) for tool in tools] for tools in (recorded, asked))
    if one != other:
        return f"its tools are {', '.join(one) or 'none'}, this one's are {', '.join(other) or 'none'}"
    changed = [name for name, a, b in zip(one, recorded, asked, strict=True) if a != b]
    return f"the messages are equal, but the schemas of these tools differ: {', '.join(changed)}"


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else "unnamed"


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _content(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _excerpt(text: str, at: int) -> str:
    return text[max(0, at - EXCERPT // 3) : at + EXCERPT]
