"""The record of one exchange with a model: the fingerprint of the request, and the reply or failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.errors import EndpointError
from spectator.json_encoders import PlainObject, is_plain_real
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall, Usage
from spectator.llm.fingerprint import hash_question
from spectator.model_calls import ModelCall
from spectator.text import encodable

MAX_REPLY: Final = 32_768
"""Characters of a reply beyond which an event does not hold it: a part of it would be another reply."""

_TEXTS: Final = ("content", "thought", "refusal", "finish_reason", "model")


def fingerprint(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """SHA-256, in hex, of the messages and the tools of a question; equal in every process.

    Model, sampling and streaming are no part of it, so that any client may ask the same question.
    """
    return hash_question(messages, tools)


def call_answered(request: ChatRequest, answer: ChatAnswer) -> ModelCall:
    """The call that was answered, whole, with whatever tokens the endpoint gave."""
    latency_s, first_token_s = round(answer.latency_s, 6), answer.first_token_s
    measured = {
        "latency_s": latency_s,
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
        about=_sampling(request),
        measured=PlainObject(measured) if first_token_s is None and is_plain_real(latency_s) else measured,
    )


def call_failed(request: ChatRequest) -> ModelCall:
    """The call that got no answer."""
    return ModelCall(messages=request.messages, tools=request.tools, about=_sampling(request))


def answered(request: ChatRequest, call: ModelCall) -> dict[str, Any]:
    """What the event holds of a call that was answered; no ``reply`` where it is too long for an event."""
    asked = fingerprint(request.messages, request.tools)
    reply = call.reply or {}
    size = sum([len(reply[name]) for name in _TEXTS if reply[name]])
    for made in reply["tool_calls"]:
        size += len(made["id"]) + len(made["name"]) + len(made["arguments"])
    size += sum(_size(held["verbatim"]) for held in (reply, *reply["tool_calls"]) if "verbatim" in held)
    stated = call.reply if size <= MAX_REPLY else None
    return {"request": asked, "reply": stated, "digest": call.digest(asked)}


def _sampling(request: ChatRequest) -> dict[str, Any]:
    """How the answer was asked for; not ``extra``, which is the operator's own."""
    asked: dict[str, Any] = {"model": request.model}
    if request.tool_choice is not None:
        asked["tool_choice"] = request.tool_choice
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
    plain = is_plain_real(request.temperature or 0.0) and is_plain_real(request.top_p or 0.0)
    return PlainObject(asked) if plain else asked


def _reply(answer: ChatAnswer) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    plain = not answer.verbatim
    for call in answer.tool_calls:
        made: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
        if not (call.id.isascii() and call.name.isascii() and call.arguments.isascii()):
            made = {name: encodable(text) for name, text in made.items()}
        if call.verbatim:
            made["verbatim"], plain = call.verbatim, False
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
    if answer.verbatim:
        reply["verbatim"] = answer.verbatim
    return PlainObject(reply) if plain else reply


def _size(value: Any) -> int:
    """Characters of all texts in a value, names of members too."""
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


def failed(request: ChatRequest, call: ModelCall, error: EndpointError) -> dict[str, Any]:
    """What the event holds of a call that got no answer."""
    failure = {"kind": error.kind, "status": error.status, "retry_after_s": error.retry_after_s}
    asked = fingerprint(request.messages, request.tools)
    return {"request": asked, "failure": failure, "digest": call.digest(asked)}


def answer_of(reply: Mapping[str, Any]) -> ChatAnswer:
    """The answer that was recorded as ``reply``."""
    usage = reply.get("usage")
    return ChatAnswer(
        text=reply["content"],
        thought=reply["thought"],
        refusal=reply["refusal"],
        tool_calls=tuple(ToolCall(**call) for call in reply["tool_calls"]),
        finish_reason=reply["finish_reason"],
        model=reply["model"],
        usage=None if usage is None else Usage(**usage),
        verbatim=reply.get("verbatim") or {},
    )
