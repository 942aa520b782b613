"""Gemini's generateContent and streamGenerateContent: requests as they take them.

Content is made of parts; calls and results of functions are parts too. Where the model signed its thoughts,
all parts of its message go back as they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from spectator.llm.address import Address
from spectator.llm.chat import ChatRequest, Message
from spectator.llm.forms.base import Translation, joined
from spectator.llm.forms.gemini_answers import NO_ID, PARTS, GeminiTranslation, calls_of
from spectator.llm.forms.gemini_schema import gemini_schema
from spectator.llm.secret import ApiKey
from spectator.llm.wire import encode_json_body

_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_OURS: Final = re.compile(rf"{NO_ID}\d+")


class GeminiForm:
    """See :class:`spectator.llm.forms.WireForm`. Token ids and log probabilities are not asked for."""

    headers: Mapping[str, str] = {}

    def url(self, address: Address, session: str | None, request: ChatRequest) -> str:
        """See :meth:`WireForm.url`."""
        model = quote(request.model.removeprefix("models/"), safe="-._~")
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return f"{address.base_url.rstrip('/')}/models/{model}:{method}"

    def key_header(self, key: ApiKey) -> tuple[str, str]:
        """See :meth:`WireForm.key_header`."""
        return "x-goog-api-key", key.bare()

    def encode(self, request: ChatRequest) -> bytes:
        """See :meth:`WireForm.encode`."""
        extra = dict(request.extra)
        body: dict[str, Any] = {
            **extra,
            "contents": [{"role": role, "parts": parts} for role, parts in joined(_turns(request.messages))],
        }
        system = [message["content"] for message in request.messages if message["role"] == "system"]
        if system:
            body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
        if request.tools:
            body["tools"] = [{"functionDeclarations": list(map(_declared, request.tools))}]
            if request.tool_choice is not None:
                body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
        if config := {**_config(request), **extra.get("generationConfig", {})}:
            body["generationConfig"] = config
        return encode_json_body(body)

    def translation(self) -> Translation:
        """See :meth:`WireForm.translation`."""
        return GeminiTranslation()


def _config(request: ChatRequest) -> dict[str, Any]:
    given = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
        "seed": request.seed,
    }
    return {name: value for name, value in given.items() if value is not None}


def _turns(messages: Sequence[Message]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Who said which parts."""
    names: dict[str, str] = {}
    for message in messages:
        match message["role"]:
            case "system":
                continue
            case "assistant":
                names = {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
                yield "model", _said(message)
            case "tool":
                yield "user", [_response(message, names.get(message["tool_call_id"], "unknown"))]
            case _:
                yield "user", [{"text": message["content"]}] if message["content"] else []


def _response(message: Message, name: str) -> dict[str, Any]:
    """The result of a function; its id goes with it where the model gave one."""
    asked = message["tool_call_id"]
    by_id = {} if _OURS.fullmatch(asked) else {"id": asked}
    return {"functionResponse": {**by_id, "name": name, "response": {"result": message["content"]}}}


def _said(message: Message) -> list[dict[str, Any]]:
    """The model's own message: its parts as they came, where it has any, but for calls that were left out."""
    calls = message.get("tool_calls") or ()
    if isinstance(parts := message.get(PARTS), list):
        kept = {call["id"] for call in calls}
        named = calls_of(parts)
        return [part for place, part in enumerate(parts) if place not in named or named[place] in kept]
    text = [{"text": message["content"]}] if message.get("content") else []
    return [*text, *map(_call, calls)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    by_id = {} if _OURS.fullmatch(call["id"]) else {"id": call["id"]}
    return {
        "functionCall": {
            **by_id,
            "name": function["name"],
            "args": orjson.loads(function["arguments"] or "{}"),
        }
    }


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function; without parameters where it takes none, since an object without properties is refused."""
    function = tool["function"]
    schema = gemini_schema(function.get("parameters") or {})
    takes = {"parameters": schema} if schema.get("properties") else {}
    return {"name": function["name"], "description": function.get("description") or function["name"], **takes}
