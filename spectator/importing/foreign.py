"""Episodes of other programs, in one form for all formats, and helpers to read their JSON.

Unknown values are ``None``. Members of the wrong type are rejected with a message. Messages in several common
forms are converted to the form of chat templates.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from spectator.events import encode_json
from spectator.journal.encoding import ChatMessage, tool_call
from spectator.json_values import json_encoder
from spectator.text import encodable


class UnreadableEntry(ValueError):
    """An entry does not fit its format; the message names the field and the rule."""


@dataclass(slots=True, kw_only=True)
class ForeignTurn:
    """One answer of a model.

    Args:
        asked: The messages between the previous answer and this one; the whole prompt if ``fresh_prompt``.
        reply: The answer as an assistant message.
        fresh_prompt: Whether ``asked`` is a whole prompt that does not continue from the previous answer.
        reward: Reward of the answer, if known.
        token_ids: Ids of the answer's tokens, shape ``(n,)``.
        logprobs: Their log probabilities in nats, shape ``(n,)``.
        usage: ``tokens_in`` and ``tokens_out``, if counted.
        latency_s: Duration of the request, seconds.
        weight_version: Version of the weights that answered.
        known: How many messages of a fresh prompt were shown before; viewers see the others.
    """

    asked: Sequence[ChatMessage]
    reply: ChatMessage
    fresh_prompt: bool = False
    reward: float | None = None
    prompt_token_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    at: datetime | None = None
    latency_s: float = 0.0
    weight_version: str | None = None
    known: int = 0


@dataclass(slots=True, kw_only=True)
class ForeignEpisode:
    """An episode that was played by another program.

    Args:
        key: Identity of the episode as JSON: its own ids or a digest of its content, never its line number.
        turns: The answers, in order.
        agent: The model or agent; empty if unknown.
        group: Name of the group of episodes with the same prompt.
        seed: The seed.
        reward: Reward of the episode; ``None`` if unknown, which is not 0.
        error: Error that ended the episode without a score.
        ended: Whether it ended.
        tools: The offered tools, in the form of chat completions.
        notes: What is not shown, one sentence each.
        order_ms: Sort key of episodes without a time, 0 .. 2**48 - 1.
        anonymous: Whether the file gives it no id; equal ones in one file are then different episodes.
    """

    key: Sequence[Any]
    environment: str
    turns: Sequence[ForeignTurn]
    after: Sequence[ChatMessage] = ()
    agent: str = ""
    title: str = ""
    group: str | None = None
    seed: int | None = None
    reward: float | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    cut: str | None = None
    ended: bool = True
    result: str | None = None
    began: datetime | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    order_ms: int = 0
    anonymous: bool = False


def digest_of(value: object) -> str:
    """Return the SHA-256, in hex, of a JSON value: the same however it is written.

    Order of members, white space, and ``1`` for ``1.0`` make no difference.

    >>> digest_of({"a": 1, "b": [2.0]}) == digest_of({"b": [2], "a": 1.0})
    True
    """
    return sha256(_canonical(_same_numbers(value)).encode("utf-8", "replace")).hexdigest()


_canonical: Final = json_encoder(sorted_keys=True)


def _same_numbers(value: Any) -> Any:
    """Return the value with whole numbers as integers and ``None`` for non-finite numbers."""
    kind = type(value)
    if kind is dict:
        return {name: _same_numbers(one) for name, one in value.items()}
    if kind is list:
        return value if set(map(type, value)) <= {int, str} else [_same_numbers(one) for one in value]
    if kind is float:
        return None if not math.isfinite(value) else int(value) if value.is_integer() else value
    return value


def group_of(environment: str, task: str, prompt: object) -> str:
    """Name the group of the answers to one prompt: two environments never share one.

    >>> group_of("adder", "task-0", "1 + 1?")
    'adder:task-0:7de67345'
    """
    return f"{group_within(environment, task)}:{digest_of(prompt)[:8]}"


def group_within(environment: str, name: str) -> str:
    """Name a group of one environment; no other environment has a group of this name.

    >>> group_within("adder", "g0"), group_within("a:b", "c") == group_within("a", "b:c")
    ('adder:g0', False)
    """
    return f"{environment.replace('%', '%25').replace(':', '%3A')}:{name}"


LATEST_S: Final = 253_402_300_799
"""The last Unix time with a four-digit year."""


def number(value: object) -> float | None:
    """Return a finite number or a boolean as float; ``None`` for anything else.

    >>> number(1), number(True), number("1"), number(float("nan"))
    (1.0, 1.0, None, None)
    """
    if not isinstance(value, bool | int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def numbers(value: object) -> dict[str, float]:
    """Return the numeric members of an object."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): known for name, one in value.items() if (known := number(one)) is not None}


def text(value: object) -> str:
    """Return ``value`` if it is a text, otherwise an empty one."""
    return encodable(value) if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return a non-negative number as int; ``None`` for anything else."""
    if type(value) is int:
        return value if value >= 0 else None
    known = number(value)
    return int(known) if known is not None and known >= 0 and not isinstance(value, bool) else None


def usage_of(value: object, tokens_in: str, tokens_out: str) -> dict[str, int] | None:
    """Return token counts from an object, given the names of its members.

    >>> usage_of({"input_tokens": 3, "output_tokens": None}, "input_tokens", "output_tokens")
    {'tokens_in': 3}
    """
    if not isinstance(value, Mapping):
        return None
    counted = {"tokens_in": count(value.get(tokens_in)), "tokens_out": count(value.get(tokens_out))}
    return {name: known for name, known in counted.items() if known is not None}


def integers(value: object) -> list[int] | None:
    """Return token ids; ``None`` if the list is empty or has an invalid id.

    >>> integers([0, 7]), integers([]), integers([1, -1]), integers([1, 2.0]), integers([2**63])
    ([0, 7], None, None, None, None)
    """
    if not isinstance(value, list) or not value:
        return None
    try:
        return value if min(array("q", value)) >= 0 else None
    except (TypeError, OverflowError):
        return None


def reals(value: object, length: int) -> list[float] | None:
    """Return ``length`` log probabilities with NaN for missing ones, or ``None``.

    >>> reals([-0.5, -1.5], 2), reals([-0.5, None, 1, float("inf")], 4), reals([-0.5], 2)
    ([-0.5, -1.5], [-0.5, nan, 1.0, nan], None)
    """
    if not isinstance(value, list) or len(value) != length:
        return None
    if set(map(type, value)) <= {float} and all(map(math.isfinite, value)):
        return value  # fast path for the usual case
    return [math.nan if (known := number(one)) is None else known for one in value]


def moment(value: object) -> datetime | None:
    """Parse a time: RFC 3339, or Unix time in seconds, or in thousandths down to nanoseconds.

    >>> moment(1_700_000_000_000) == moment(1_700_000_000) == moment("2023-11-14T22:13:20Z")
    True
    >>> moment(0) is None
    True
    """
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return None
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    known = number(value)
    if known is None or known <= 0 or isinstance(value, bool):
        return None
    for _ in range(3):  # milliseconds, microseconds, nanoseconds
        known = known / 1000 if known > LATEST_S / 10 else known
    return datetime.fromtimestamp(known, UTC) if known <= LATEST_S else None


def need(row: Mapping[str, Any], name: str, kind: type, rule: str) -> Any:
    """Return the member ``name``, which must be a ``kind``.

    Raises:
        UnreadableEntry: It is missing or has another type; the message ends with ``rule``.
    """
    if name not in row:
        raise UnreadableEntry(f"{name} is missing: {rule}")
    if not isinstance(row[name], kind):
        raise UnreadableEntry(f"{name} is {kind_of(row[name])}: {rule}")
    return row[name]


def kind_of(value: object) -> str:
    """Return the type of a JSON value, as text.

    >>> kind_of(None), kind_of([]), kind_of(3)
    ('null', 'a list', 'a number')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)


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


def content_of(value: object) -> tuple[str, str]:
    """Return a message's text and thoughts; other parts as their type in brackets.

    >>> content_of([{"type": "reasoning", "reasoning": "2 + 2"}, {"type": "text", "text": "4"}])
    ('4', '2 + 2')
    >>> content_of([{"type": "image", "image": "data:..."}])
    ('[image]', '')
    """
    parts = parts_of(value)
    return parts.text, parts.thought


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
