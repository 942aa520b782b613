"""Messages of other programs, in the form of chat templates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.events import encode_json
from spectator.importing.foreign import UnreadableEntry, kind_of, text
from spectator.journal.encoding import ChatMessage, tool_call
from spectator.text import encodable

ROLES: Final = {
    **dict.fromkeys(
        ("model", "ai", "AI", "gemini", "gpt", "chatgpt", "bing", "bard", "agent", "AIMessage"), "assistant"
    ),
    **dict.fromkeys(("human", "Human", "HumanMessage"), "user"),
    **dict.fromkeys(("developer", "SystemMessage"), "system"),
    **dict.fromkeys(
        ("function", "observation", "toolResult", "tool_response", "function_response", "ToolMessage"), "tool"
    ),
}  # fmt: skip
"""Other names of roles."""

_ROLE: Final = ("role", "from", "source", "type")
_CONTENT: Final = ("content", "value", "parts", "message", "text")
_CALLS: Final = ("tool_calls", "toolCalls", "function_call")
_ANSWERED: Final = ("tool_call_id", "toolCallId", "call_id")
_ARGUMENTS: Final = ("arguments", "args", "input", "parameters", "action")
_CALL_NAME: Final = ("name", "function_name", "toolName", "tool_name", "tool")
_CALL_ID: Final = ("id", "tool_call_id", "call_id", "tool_use_id", "toolCallId")
_OUTPUT: Final = ("output", "response", "result", "content", "tools")
"""Members of messages, calls and results, under all names that programs give them."""

THOUGHTS: Final = ("reasoning_content", "reasoningContent", "reasoning", "thinking")
"""Members with a model's thoughts."""

_CALL_PARTS: Final = frozenset({"tool_use", "server_tool_use", "tool_call", "toolCall", "functionCall"})
_RESULT_PARTS: Final = frozenset({"tool_result", "tool_call_response", "functionResponse"})
_THOUGHT_PARTS: Final = frozenset({"reasoning", "thinking"})


def messages_of(value: object, name: str) -> list[ChatMessage]:
    """Return a conversation from a list of messages or a user's text.

    Raises:
        UnreadableEntry: ``value`` is neither.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": "user", "content": encodable(value)}]
    if not isinstance(value, list):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be a text or a list of messages")
    return [message for place, one in enumerate(value) for message in messages_in(one, f"{name}[{place}]")]


def message_of(value: object, name: str) -> ChatMessage:
    """Return one message, without the results of tools that it may hold.

    Raises:
        UnreadableEntry: It is not an object with a role.
    """
    found = messages_in(value, name)
    return next((one for one in found if one["role"] != "tool"), found[0])


def messages_in(value: object, name: str) -> list[ChatMessage]:
    """Return a message in the form of chat templates, followed or preceded by the tool results that it holds.

    It may have the form of OpenAI's two APIs, Anthropic, Gemini, LangChain, OpenTelemetry, ShareGPT or ATIF.

    >>> messages_in({"from": "gpt", "value": "4"}, "it")
    [{'role': 'assistant', 'content': '4'}]
    >>> used = {"type": "tool_result", "tool_use_id": "a", "content": "4"}
    >>> messages_in({"role": "user", "content": [used]}, "it")
    [{'role': 'tool', 'content': '4', 'tool_call_id': 'a'}]

    Raises:
        UnreadableEntry: It is not an object with a role.
    """
    if not isinstance(value, Mapping):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be a message")
    value = _unwrapped(value)
    kind = value.get("type")
    if isinstance(kind, str) and "role" not in value and (item := _item(value, kind, name)) is not None:
        return [item]
    role = next((value[one] for one in _ROLE if isinstance(value.get(one), str)), None)
    if role is None:
        raise UnreadableEntry(f"{name} has no role")
    parts = parts_of(next((value[one] for one in _CONTENT if value.get(one) is not None), None))
    message: ChatMessage = {"role": ROLES.get(role, encodable(role)), "content": parts.text}
    thought = next((text(value[one]) for one in THOUGHTS if text(value.get(one))), "") or parts.thought
    if thought:
        message["reasoning_content"] = encodable(thought)
    if parts.images:
        message[IMAGES_OF] = parts.images
    given = next((value[one] for one in _CALLS if value.get(one)), None)
    given = [given] if isinstance(given, Mapping) else given
    calls = [*(given if isinstance(given, list) else ()), *parts.calls]
    if role == "function_call":  # ShareGPT
        message = {"role": "assistant", "content": ""}
        calls = [parts.text]
    if calls:
        message["tool_calls"] = [_call(one, place) for place, one in enumerate(calls)]
    answered = next((value[one] for one in _ANSWERED if isinstance(value.get(one), str)), None)
    if answered is None and isinstance(value.get("tool_call_ids"), list) and len(value["tool_call_ids"]) == 1:
        answered = text(value["tool_call_ids"][0])
    if answered and message["role"] == "tool":
        message["tool_call_id"] = encodable(answered)
    if isinstance(value.get("name"), str) and message["role"] == "tool":
        message["name"] = encodable(value["name"])
    results = [*parts.results, *_observed(value.get("observation"))]
    if not results:
        return [message]
    if message["role"] == "assistant":
        return [message, *results]
    plain = message["content"] or len(message) > 2
    return [*results, message] if plain and message["role"] != "tool" else results


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message within LangChain's serialized forms."""
    kwargs, data = value.get("kwargs"), value.get("data")
    if isinstance(kwargs, Mapping) and isinstance(value.get("id"), list) and value["id"]:
        return {"role": str(value["id"][-1]).removesuffix("Chunk"), **kwargs}
    if isinstance(data, Mapping) and "content" in data and isinstance(value.get("type"), str):
        return {"role": value["type"], **data}
    return value


def _item(value: Mapping[str, Any], kind: str, name: str) -> ChatMessage | None:
    """Return an item of OpenAI's Responses API that is not a message."""
    if kind == "reasoning":
        parts = [*(value.get("summary") or ()), *(value.get("content") or ())]
        thought = "\n".join(text(one.get("text")) for one in parts if isinstance(one, Mapping))
        return {"role": "assistant", "content": "", "reasoning_content": encodable(thought)}
    if kind.endswith("_output"):
        result = parts_of(next((value[one] for one in _OUTPUT if value.get(one) is not None), None)).text
        return {"role": "tool", "content": result, "tool_call_id": encodable(text(value.get("call_id")))}
    if kind.endswith("_call"):
        named = {
            "name": kind.removesuffix("_call"),
            **value,
            "id": text(value.get("call_id") or value.get("id")),
        }
        return {"role": "assistant", "content": "", "tool_calls": [_call(named, 0)]}
    if kind in ROLES or kind in ("system", "user", "assistant", "tool"):
        return None
    if kind == "message" or any(one in value for one in ("from", "source")):
        return None
    return {"role": "tool", "content": encodable(f"[{kind}]")}


def _observed(value: object) -> list[ChatMessage]:
    """Return the results within a step of ATIF."""
    listed = value.get("results") if isinstance(value, Mapping) else None
    return [
        {"role": "tool", "content": parts_of(one.get("content")).text,
         **({"tool_call_id": encodable(one["source_call_id"])} if text(one.get("source_call_id")) else {})}
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping)
    ]  # fmt: skip


@dataclass(slots=True)
class Parts:
    """What the content of a message holds."""

    text: str = ""
    thought: str = ""
    images: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    results: list[ChatMessage] = field(default_factory=list)


def parts_of(value: object) -> Parts:
    """Return the texts, thoughts, calls and results of a message's content."""
    if value is None:
        return Parts()
    if isinstance(value, str):
        return Parts(encodable(value))
    if not isinstance(value, list):
        return Parts(encodable(encode_json(value)))
    found = Parts()
    texts, thoughts = [], []
    for part in value:
        if not isinstance(part, Mapping):
            texts.append(text(part))
            continue
        one = next((name for name in ("functionCall", "functionResponse") if name in part), part.get("type"))
        said = next((part[name] for name in ("text", "content") if isinstance(part.get(name), str)), None)
        if one in _CALL_PARTS:
            found.calls.append(part.get("functionCall", part))
        elif one in _RESULT_PARTS:
            found.results.append(_result(part.get("functionResponse", part)))
        elif one in _THOUGHT_PARTS:
            thoughts.append(text(part.get("reasoning")) or text(part.get("thinking")) or said or "")
        else:
            texts.append(f"[{text(one) or 'part'}]" if said is None else said)
            if said is None and (image := _image(part)) is not None:
                found.images.append(image)
    found.text = encodable("\n".join(one for one in texts if one))
    found.thought = "\n".join(one for one in thoughts if one)
    return found


def _result(part: Any) -> ChatMessage:
    value = part if isinstance(part, Mapping) else {}
    given = parts_of(next((value[one] for one in _OUTPUT if value.get(one) is not None), None))
    answered = next((value[one] for one in ("tool_use_id", "id") if isinstance(value.get(one), str)), "")
    result: ChatMessage = {"role": "tool", "content": given.text}
    if answered:
        result["tool_call_id"] = encodable(answered)
    if given.images:
        result[IMAGES_OF] = given.images
    return result


IMAGES_OF: Final = "images"
"""Member of a message with its images as ``data:`` URLs, which models are not sent again."""

_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_LARGEST_IMAGE: Final = 500_000


def _image(part: Mapping[str, Any]) -> str | None:
    """Return the image of a part as a ``data:`` URL, in any form of OpenAI, Anthropic, Gemini, inspect_ai.

    >>> _image({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}})
    'data:image/png;base64,iVBO'
    >>> _image({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}) is None
    True
    """
    held = next((part[one] for one in ("image_url", "image", "source", "inlineData") if part.get(one)), part)
    if isinstance(held, Mapping):
        kind = next((held[one] for one in ("media_type", "mimeType", "mime_type") if text(held.get(one))), "")
        given = text(held.get("data"))
        held = f"data:{kind};base64,{given}" if kind and given else held.get("url")
    fits = isinstance(held, str) and len(held) <= _LARGEST_IMAGE and _IMAGE.fullmatch(held)
    return held if fits else None


def _call(value: object, place: int) -> dict[str, Any]:
    """Return a tool call from any of its forms, or JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = {"name": "unreadable", "arguments": value}
    if not isinstance(value, Mapping):
        raise UnreadableEntry(f"tool_calls[{place}] is {kind_of(value)}: it must be a call")
    function = value.get("function")
    named: Mapping[str, Any] = function if isinstance(function, Mapping) else value
    name = next((named[one] for one in _CALL_NAME if text(named.get(one))), text(function)) or "unnamed"
    given = next((named[one] for one in _ARGUMENTS if named.get(one) is not None), None)
    arguments = given if isinstance(given, str) else encode_json({} if given is None else given)
    call_id = next((value[one] for one in _CALL_ID if text(value.get(one))), f"call_{place}")
    return tool_call(encodable(call_id), encodable(name), encodable(arguments))


def tools_of(value: object) -> list[Mapping[str, Any]]:
    """Return tools in chat completions' form, from that or from flat descriptions."""
    found: list[Mapping[str, Any]] = []
    for one in value if isinstance(value, list) else ():
        if not isinstance(one, Mapping):
            continue
        function = one.get("function")
        described = function if isinstance(function, Mapping) else one
        if not isinstance(described.get("name"), str):
            continue
        kept = {key: described[key] for key in ("name", "description", "parameters") if key in described}
        found.append({"type": "function", "function": kept})
    return found
