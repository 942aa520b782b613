"""Anthropic's Messages API: requests as it takes them.

The system message stands apart, content is made of blocks, results of tools are the user's, and the
unchanging beginning is marked to be cached. Thinking goes back as it came, with its signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from spectator.llm.address import Address
from spectator.llm.chat import ChatRequest, Conversation, Message
from spectator.llm.forms.anthropic_answers import BLOCKS, AnthropicTranslation
from spectator.llm.forms.base import Translation, joined
from spectator.llm.secret import ApiKey
from spectator.llm.wire import encode_json_body

VERSION: Final = "2023-06-01"
"""Version of the API, as its header names it."""

LONGEST: Final = 4096
"""Longest answer, in tokens, where the request names none: the API must be told one."""

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicForm:
    """See :class:`spectator.llm.forms.WireForm`. Seeds, token ids and log probabilities are not asked for."""

    headers: Mapping[str, str] = {"anthropic-version": VERSION}

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """See :meth:`WireForm.url`."""
        return f"{address.base_url.rstrip('/')}/messages"

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """See :meth:`WireForm.key_header`."""
        return "x-api-key", key.bare()

    def encode(self, request: ChatRequest) -> bytes:
        """See :meth:`WireForm.encode`."""
        system = [message["content"] for message in request.messages if message["role"] == "system"]
        body: dict[str, Any] = {
            **request.extra,
            "model": request.model,
            "max_tokens": request.max_tokens or LONGEST,
            "messages": [
                {"role": role, "content": blocks} for role, blocks in joined(_turns(request.messages))
            ],
        }
        if system:
            body["system"] = [{"type": "text", "text": "\n\n".join(system), **_CACHED}]
        if request.tools:
            body["tools"] = list(map(_tool, request.tools))
            if request.tool_choice is not None:
                body["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        given = {"temperature": request.temperature, "top_p": request.top_p, "stream": request.stream or None}
        body |= {name: value for name, value in given.items() if value is not None}
        return encode_json_body(body)

    def translation(self) -> Translation:
        """See :meth:`WireForm.translation`."""
        return AnthropicTranslation()


def _turns(messages: Sequence[Message]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Who said which blocks, the last that is settled marked as the end of what is worth caching."""
    settled = messages.settled if isinstance(messages, Conversation) else len(messages)
    for number, message in enumerate(messages):
        match message["role"]:
            case "system":
                continue
            case "assistant":
                role, blocks = "assistant", _said(message)
            case "tool":
                role, blocks = "user", [_result(message)]
            case _:
                role, blocks = "user", _text(message["content"])
        if number == settled - 1 and blocks and blocks[-1]["type"] in ("text", "tool_use", "tool_result"):
            blocks[-1] = {**blocks[-1], **_CACHED}
        yield role, blocks


def _text(text: Any) -> list[dict[str, Any]]:
    """A block of text; none where there is nothing to read in it, which the API refuses."""
    return [{"type": "text", "text": text}] if isinstance(text, str) and text.strip() else []


def _result(message: Message) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}


def _said(message: Message) -> list[dict[str, Any]]:
    """The model's own message: its blocks as they came, where it has any, but for calls left out."""
    calls = message.get("tool_calls") or ()
    if isinstance(blocks := message.get(BLOCKS), list):
        kept = {call["id"] for call in calls}
        return [block for block in blocks if block.get("type") != "tool_use" or block.get("id") in kept]
    uses = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": orjson.loads(call["function"]["arguments"] or "{}"),
        }
        for call in calls
    ]
    return [*_text(message.get("content")), *uses]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], **described, "input_schema": schema}
