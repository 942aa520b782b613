"""The record of one exchange with a model: the fingerprint of the request, and the reply or failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.errors import EndpointError
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall, Usage
from spectator.model_calls import ModelCall

MAX_REPLY: Final = 32_768
"""Characters of a reply beyond which an event does not hold it: a part of it would be another reply."""

_TEXTS: Final = ("content", "thought", "refusal", "finish_reason", "model")


def fingerprint(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """SHA-256, in hex, of the messages and the tools of a question; equal in every process.

    Model, sampling and streaming are no part of it, so that any client may ask the same question.
    """
    from spectator.llm.fingerprint import hash_question  # it needs orjson, of the extra `models`

    return hash_question(messages, tools)


def call_answered(request: ChatRequest, answer: ChatAnswer) -> ModelCall:
    """The call that was answered, whole, with whatever tokens the endpoint gave."""
    return ModelCall(
        messages=request.messages,
        tools=request.tools,
        reply=_reply(answer),
        prompt_token_ids=answer.prompt_token_ids,
        token_ids=answer.token_ids,
        logprobs=answer.logprobs,
        weight_versions=answer.weight_versions,
        about=_sampling(request),
        measured={
            "latency_s": round(answer.latency_s, 6),
            "first_token_s": None if answer.first_token_s is None else round(answer.first_token_s, 6),
            "attempts": answer.attempts,
        },
    )


def call_failed(request: ChatRequest) -> ModelCall:
    """The call that got no answer."""
    return ModelCall(messages=request.messages, tools=request.tools, about=_sampling(request))


def answered(request: ChatRequest, call: ModelCall) -> dict[str, Any]:
    """What the event holds of a call that was answered; no ``reply`` where it is too long for an event."""
    asked = fingerprint(request.messages, request.tools)
    reply = call.reply or {}
    texts = [reply[name] for name in _TEXTS]
    texts += [made[name] for made in reply["tool_calls"] for name in ("id", "name", "arguments")]
    beside = [held["verbatim"] for held in (reply, *reply["tool_calls"]) if "verbatim" in held]
    fits = sum(len(text) for text in texts if text) + sum(map(_size, beside)) <= MAX_REPLY
    return {"request": asked, "reply": call.reply if fits else None, "digest": call.digest(asked)}


def _sampling(request: ChatRequest) -> dict[str, Any]:
    """How the answer was asked for; not ``extra``, which is the operator's own."""
    asked = {
        "model": request.model,
        "tool_choice": request.tool_choice,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop) or None,
        "seed": request.seed,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _reply(answer: ChatAnswer) -> dict[str, Any]:
    calls = [
        {
            "id": _encodable(call.id),
            "name": _encodable(call.name),
            "arguments": _encodable(call.arguments),
            **({"verbatim": call.verbatim} if call.verbatim else {}),
        }
        for call in answer.tool_calls
    ]
    return {
        "content": _encodable(answer.text),
        "thought": _encodable(answer.thought),
        "refusal": _encodable(answer.refusal),
        "tool_calls": calls,
        "finish_reason": _encodable(answer.finish_reason),
        "model": _encodable(answer.model),
        "usage": None if answer.usage is None else _tokens(answer.usage),
        **({"verbatim": answer.verbatim} if answer.verbatim else {}),
    }


def _size(value: Any) -> int:
    """Characters of all texts in a value, names of members too."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(member) for name, member in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8


def _tokens(usage: Usage) -> dict[str, int]:
    written = {"cache_written": usage.cache_written} if usage.cache_written else {}
    return {
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "cached_in": usage.cached_in,
        "thought_out": usage.thought_out,
        **written,
    }


def _encodable(text: str | None) -> str | None:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


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
