"""The record of one exchange with a model: the fingerprint of the request, and the reply or failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.errors import EndpointError
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall, Usage

MAX_REPLY: Final = 32_768
"""Characters of a reply beyond which it is not kept at all: a part of it would be another reply."""

_TEXTS: Final = ("content", "thought", "refusal", "finish_reason", "model")


def fingerprint(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """SHA-256, in hex, of the messages and the tools of a question; equal in every process.

    Model, sampling and streaming are no part of it, so that any client may ask the same question.
    """
    from spectator.llm.fingerprint import hash_question

    return hash_question(messages, tools)


def answered(request: ChatRequest, answer: ChatAnswer) -> dict[str, Any]:
    """The record of a question that was answered; ``reply`` is ``None`` where it was too long to be kept."""
    calls = [
        {"id": _encodable(call.id), "name": _encodable(call.name), "arguments": _encodable(call.arguments)}
        for call in answer.tool_calls
    ]
    reply: dict[str, Any] = {
        "content": _encodable(answer.text),
        "thought": _encodable(answer.thought),
        "refusal": _encodable(answer.refusal),
        "tool_calls": calls,
        "finish_reason": _encodable(answer.finish_reason),
        "model": _encodable(answer.model),
        "usage": None if answer.usage is None else _tokens(answer.usage),
    }
    texts = [reply[name] for name in _TEXTS] + [text for call in calls for text in call.values()]
    kept = sum(len(text) for text in texts if text) <= MAX_REPLY
    return {"request": fingerprint(request.messages, request.tools), "reply": reply if kept else None}


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "cached_in": usage.cached_in,
        "thought_out": usage.thought_out,
    }


def _encodable(text: str | None) -> str | None:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def failed(request: ChatRequest, error: EndpointError) -> dict[str, Any]:
    """The record of a question that got no answer."""
    failure = {"kind": error.kind, "status": error.status, "retry_after_s": error.retry_after_s}
    return {"request": fingerprint(request.messages, request.tools), "failure": failure}


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
    )
