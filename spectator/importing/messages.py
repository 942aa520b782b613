"""Messages of other programs in the form of chat templates, whichever of the usual forms they are in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spectator.events import encode_json
from spectator.importing.foreign import ForeignTurn, NotReadable
from spectator.importing.values import kind_of, text
from spectator.journal.chat_form import ChatMessage, tool_call
from spectator.text import encodable

ROLES: Final = {"developer": "system", "model": "assistant", "ai": "assistant", "human": "user"}
"""Roles under other names."""

THOUGHTS: Final = ("reasoning_content", "reasoningContent", "reasoning", "thinking")
"""Members that hold a model's thoughts."""


def messages_of(value: object, name: str) -> list[ChatMessage]:
    """A conversation: a list of messages, or a text, which is one of the user's.

    Raises:
        NotReadable: It is anything else.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": "user", "content": encodable(value)}]
    if not isinstance(value, list):
        raise NotReadable(f"{name} is {kind_of(value)}: it must be a text or a list of messages")
    return [message_of(one, f"{name}[{place}]") for place, one in enumerate(value)]


def message_of(value: object, name: str) -> ChatMessage:
    """One message.

    Raises:
        NotReadable: It has no role.
    """
    if not isinstance(value, Mapping):
        raise NotReadable(f"{name} is {kind_of(value)}: it must be a message")
    role = value.get("role")
    if not isinstance(role, str):
        raise NotReadable(f"{name} has no role")
    said, thought = content_of(value.get("content"))
    message: ChatMessage = {"role": ROLES.get(role, encodable(role)), "content": said}
    thought = next((text(value[one]) for one in THOUGHTS if text(value.get(one))), "") or thought
    if thought:
        message["reasoning_content"] = encodable(thought)
    calls = value.get("tool_calls") or value.get("toolCalls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(one, place) for place, one in enumerate(calls)]
    answered = value.get("tool_call_id") or value.get("toolCallId")
    if isinstance(answered, str):
        message["tool_call_id"] = encodable(answered)
    if isinstance(value.get("name"), str) and message["role"] == "tool":
        message["name"] = encodable(value["name"])
    return message


def content_of(value: object) -> tuple[str, str]:
    """What a message says, and the thoughts among its parts; a part that is no text is named in brackets.

    >>> content_of([{"type": "reasoning", "reasoning": "2 + 2"}, {"type": "text", "text": "4"}])
    ('4', '2 + 2')
    >>> content_of([{"type": "image", "image": "data:..."}])
    ('[image]', '')
    """
    if value is None:
        return "", ""
    if isinstance(value, str):
        return encodable(value), ""
    if not isinstance(value, list):
        return encodable(encode_json(value)), ""
    said, thought = [], []
    for part in value:
        if not isinstance(part, Mapping):
            said.append(text(part))
        elif part.get("type") in ("reasoning", "thinking"):
            thought.append(
                text(part.get("reasoning")) or text(part.get("thinking")) or text(part.get("text"))
            )
        elif isinstance(part.get("text"), str):
            said.append(part["text"])
        else:
            said.append(f"[{text(part.get('type')) or 'part'}]")
    return encodable("\n".join(one for one in said if one)), "\n".join(one for one in thought if one)


def _call(value: object, place: int) -> dict[str, Any]:
    """A call of a tool, in the form of OpenAI, of verifiers or of inspect_ai, or as JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = {"name": "unreadable", "arguments": value}
    if not isinstance(value, Mapping):
        raise NotReadable(f"tool_calls[{place}] is {kind_of(value)}: it must be a call")
    function = value.get("function")
    named: Mapping[str, Any] = function if isinstance(function, Mapping) else value
    name = text(named.get("name")) or text(function) or "unnamed"
    given = named.get("arguments")
    arguments = given if isinstance(given, str) else encode_json({} if given is None else given)
    return tool_call(
        encodable(text(value.get("id")) or f"call_{place}"), encodable(name), encodable(arguments)
    )


def tools_of(value: object) -> list[Mapping[str, Any]]:
    """Tools in the endpoint's form, from that form or from flat descriptions; others are left out."""
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


def turns_of(messages: Iterable[ChatMessage]) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """A conversation cut at the answers of the assistant: the turns, and what was said after the last."""
    turns: list[ForeignTurn] = []
    said: list[ChatMessage] = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append(ForeignTurn(asked=said, reply=message))
            said = []
        else:
            said.append(message)
    return turns, said


def completed(
    prompt: Sequence[ChatMessage], completion: object
) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """The turns of a prompt and its completion, a text or messages; answers in the prompt are no turns.

    Raises:
        NotReadable: The completion is neither.
    """
    if isinstance(completion, str):
        reply: ChatMessage = {"role": "assistant", "content": encodable(completion)}
        return [ForeignTurn(asked=list(prompt), reply=reply)], []
    turns, after = turns_of(messages_of(completion, "completion"))
    if turns:
        turns[0].asked = [*prompt, *turns[0].asked]
    else:
        after = [*prompt, *after]
    return turns, after
