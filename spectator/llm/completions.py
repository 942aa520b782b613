"""Recorded replies as chat completions, whole or in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

PIECE: Final = 24
"""Characters of a streamed piece."""

Reply = Mapping[str, Any]
"""A reply as :mod:`spectator.llm.exchange` records it."""


def completion(reply: Reply, about: Mapping[str, Any]) -> dict[str, Any]:
    """The completion that says ``reply``.

    Args:
        reply: What was recorded.
        about: ``id`` and ``created`` of the completion.
    """
    message: dict[str, Any] = {"role": "assistant", "content": reply["content"] or None}
    if reply["thought"]:
        message["reasoning_content"] = reply["thought"]
    if reply["refusal"]:
        message["refusal"] = reply["refusal"]
    if reply["tool_calls"]:
        message["tool_calls"] = [_call(call) for call in reply["tool_calls"]]
    choice = {"index": 0, "message": message, "finish_reason": reply["finish_reason"]}
    whole = {**_head(reply, about, "chat.completion"), "choices": [choice]}
    return whole if reply["usage"] is None else {**whole, "usage": _usage(reply["usage"])}


def chunks(reply: Reply, about: Mapping[str, Any], *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """The chunks of a stream that says ``reply``; ``with_usage`` as ``stream_options`` asks for it."""
    head = _head(reply, about, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for field, name in (("thought", "reasoning_content"), ("content", "content"), ("refusal", "refusal")):
        for piece in _pieces(reply[field] or ""):
            yield chunk({name: piece})
    for index, call in enumerate(reply["tool_calls"]):
        begun = _call({**call, "arguments": ""})
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        for piece in _pieces(call["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, reply["finish_reason"] or "stop")
    if with_usage and reply["usage"] is not None:
        yield {**head, "choices": [], "usage": _usage(reply["usage"])}


def _head(reply: Reply, about: Mapping[str, Any], kind: str) -> dict[str, Any]:
    head = {**about, "object": kind}
    return head if reply["model"] is None else {**head, "model": reply["model"]}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}


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
