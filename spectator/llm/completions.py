"""Recorded replies as chat completions, whole or in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.llm.assembly import THOUGHT
from spectator.model_calls import ModelCall

PIECE: Final = 24
"""Characters of a streamed piece."""

Reply = Mapping[str, Any]
"""A reply as :mod:`spectator.llm.exchange` records it."""


Tokens = Sequence[Mapping[str, Any]]
"""Members of a completion and, under ``choice``, of its choice: a part of the answer's tokens each."""


def tokens_of(call: ModelCall, asked: Mapping[str, Any]) -> Tokens:
    """The tokens of a recorded call as servers send them, a part for each version of the weights.

    Args:
        call: The call.
        asked: The body of the request: ``return_token_ids`` and ``logprobs`` say what of them is wanted.
    """
    ids = call.token_ids if asked.get("return_token_ids") else None
    logprobs = call.logprobs if asked.get("logprobs") else None
    length = max(len(call.token_ids or ()), len(call.logprobs or ()))
    runs: Sequence[tuple[str | None, int]] = call.weight_versions or [(None, length)]
    parts, first = [], 0
    for version, tokens in runs:
        part: dict[str, Any] = {} if version is None else {"metadata": {"weight_version": version}}
        if first == 0 and asked.get("return_token_ids") and call.prompt_token_ids is not None:
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
    """The completion that says ``reply``.

    Args:
        reply: What was recorded.
        about: ``id`` and ``created`` of the completion.
        tokens: What :func:`tokens_of` says of it; of several versions of the weights only the last is told.
    """
    message: dict[str, Any] = {"role": "assistant", "content": _content(reply) or None}
    message |= _beside(reply)
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
    """The chunks of a stream that says ``reply``; ``with_usage`` as ``stream_options`` asks for it."""
    head = _head(reply, about, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for name, value in _beside(reply).items():
        for piece in _pieces(value) if isinstance(value, str) else (value,):
            yield chunk({name: piece})
    for name, text in (("content", _content(reply)), ("refusal", reply["refusal"] or "")):
        for piece in _pieces(text):
            yield chunk({name: piece})
    for index, call in enumerate(reply["tool_calls"]):
        begun = _call({**call, "arguments": ""})
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        for piece in _pieces(call["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for part in tokens:
        more = {name: value for name, value in part.items() if name != "choice"}
        yield {**head, **more, "choices": [{"index": 0, "delta": {}, **part["choice"]}]}
    yield chunk({}, reply["finish_reason"] or "stop")
    if with_usage and reply["usage"] is not None:
        yield {**head, "choices": [], "usage": _usage(reply["usage"])}


def _joined(tokens: Tokens) -> dict[str, Any]:
    """The tokens of all parts, for a completion that comes whole."""
    joined: dict[str, Any] = {}
    for part in tokens:
        for name, value in part["choice"].items():
            if name == "logprobs":
                joined.setdefault(name, {"content": []})["content"].extend(value["content"])
            else:
                joined.setdefault(name, []).extend(value)
    return joined


def _head(reply: Reply, about: Mapping[str, Any], kind: str) -> dict[str, Any]:
    head = {**about, "object": kind}
    return head if reply["model"] is None else {**head, "model": reply["model"]}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    beside = dict(call.get("verbatim") or {})
    return {"id": call["id"], "type": "function", "function": function | beside.pop("function", {}), **beside}


def _beside(reply: Reply) -> dict[str, Any]:
    """The thoughts, and whatever else the message held.

    Thoughts that were not to be sent back must not be this time: they stand in a member of our own.
    """
    verbatim = reply.get("verbatim") or {}
    told = verbatim.get("reasoning_content") or verbatim.get("reasoning")
    thought = {} if isinstance(told, str) or not reply["thought"] else {THOUGHT: reply["thought"]}
    return {**thought, **verbatim}


def _content(reply: Reply) -> str:
    """The text, after those of its thoughts that stood in it beside others that did not."""
    verbatim, text = reply.get("verbatim") or {}, reply["content"] or ""
    told = verbatim.get("reasoning_content") or verbatim.get("reasoning")
    inline = reply["thought"].removeprefix(told.strip()).strip() if isinstance(told, str) else ""
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
