"""Messages as chat templates take them: arguments of tool calls as objects, thoughts beside the text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spectator.journal.json_lines import json_text

ChatMessage = dict[str, Any]


def chat_message(message: Mapping[str, Any]) -> ChatMessage:
    """A message as it was sent, the arguments of its tool calls as objects.

    Example:
        >>> call = {"id": "c", "type": "function", "function": {"name": "say", "arguments": '{"n":1}'}}
        >>> sent = {"role": "assistant", "content": "", "tool_calls": [call]}
        >>> chat_message(sent)["tool_calls"][0]["function"]["arguments"]
        {'n': 1}
    """
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_arguments(call, _object) for call in calls]}


def wire_message(message: Mapping[str, Any]) -> ChatMessage:
    """The same with the arguments as JSON text, as endpoints take them."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_arguments(call, _text) for call in calls]}


def reply_message(reply: Mapping[str, Any]) -> ChatMessage:
    """A recorded reply as a message of the assistant.

    Example:
        >>> reply_message({"content": "Four.", "thought": "2 + 2", "tool_calls": []})
        {'role': 'assistant', 'content': 'Four.', 'reasoning_content': '2 + 2'}
    """
    message: ChatMessage = {"role": "assistant", "content": reply["content"] or reply.get("refusal") or ""}
    if reply.get("thought"):
        message["reasoning_content"] = reply["thought"]
    if reply["tool_calls"]:
        message["tool_calls"] = [
            tool_call(call["id"] or f"call_{place}", call["name"], _object(call["arguments"]))
            for place, call in enumerate(reply["tool_calls"])
        ]
    return message


def tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call as messages hold it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tools_by_name(offered: Iterable[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Every tool that was offered, in the order of their first offers, each as it was offered last."""
    found: dict[str, Mapping[str, Any]] = {}
    for tools in offered:
        found.update((tool["function"]["name"], tool) for tool in tools)
    return list(found.values())


def _with_arguments(call: Mapping[str, Any], form: Any) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": form(function["arguments"])}}


def _object(arguments: Any) -> Any:
    """The object that ``arguments`` says; itself where it says none, as models sometimes do."""
    if not isinstance(arguments, str):
        return arguments
    try:
        said = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return said if isinstance(said, dict) else arguments


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json_text(arguments)
