"""Gemini's generateContent API: requests, and answers as completion chunks.

Content is a list of parts; function calls and their results are parts too. If the model signed its
thoughts, all parts of its message are sent back unchanged. Function declarations accept only a subset of
JSON Schema and reject other keywords, so rules beyond the subset are described in the description. Answers
are still checked against the world's full schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.answers import THOUGHT
from spectator.llm.chat import ChatRequest, Message
from spectator.llm.endpoints import Address, ApiKey
from spectator.llm.wire_forms import (
    Chunk,
    Translation,
    alternate,
    call_delta,
    delta,
    encode_json_body,
    token_count,
)

_KEPT: Final = frozenset({
    "type", "title", "description", "nullable", "maxItems", "minItems", "required", "minProperties",
    "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum",
})  # fmt: skip
_FORMATS: Final = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_DEPTH: Final = 12


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a JSON Schema to Gemini's subset.

    >>> gemini_schema({"enum": [1, 2], "additionalProperties": False})
    {'type': 'integer', 'description': 'One of 1, 2.'}
    """
    return _subset(schema, schema, 0)


def _subset(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return {"type": "string", "description": "Any value, as JSON."}
    schema = _without_reference(schema, root)
    made = {name: value for name, value in schema.items() if name in _KEPT}
    notes = [made["description"]] if made.get("description") else []
    _type(made, schema)
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    _choices(made, schema, notes)
    _bounds(made, schema, notes)
    if isinstance(properties := schema.get("properties"), Mapping) and properties:
        made["properties"] = {name: _subset(one, root, depth + 1) for name, one in properties.items()}
    if "items" in schema or made.get("type") == "array":
        made["items"] = _subset(schema.get("items") or {"type": "string"}, root, depth + 1)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        _options(made, [_subset(one, root, depth + 1) for one in options])
    if notes:
        made["description"] = " ".join(notes)
    return made


def _without_reference(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge the targets of ``$ref`` and ``allOf`` into ``schema``."""
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/"):
        found: Any = root
        for name in target[2:].split("/"):
            found = (
                found.get(name.replace("~1", "/").replace("~0", "~"), {})
                if isinstance(found, Mapping)
                else {}
            )
        schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
    for part in schema.get("allOf") or ():
        schema = {**(part if isinstance(part, Mapping) else {}), **schema}
    return schema


def _type(made: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Set one type, and ``nullable``."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        named = [kind for kind in kinds if kind != "null"]
        made["type"] = named[0] if named else "string"
        if "null" in kinds:
            made["nullable"] = True
    elif kinds is None and (choices := schema.get("enum") or [schema[k] for k in ("const",) if k in schema]):
        made["type"] = _type_of(choices[0])


def _type_of(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = ((bool, "boolean"), (int, "integer"), (float, "number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "string")


def _choices(made: dict[str, Any], schema: Mapping[str, Any], notes: list[str]) -> None:
    """Set an enum of texts; describe other choices in ``notes``."""
    choices = list(schema.get("enum") or ([schema["const"]] if "const" in schema else ()))
    if choices and all(isinstance(choice, str) and choice for choice in choices):
        made["enum"] = choices
    elif choices:
        notes.append(f"One of {', '.join(json.dumps(choice) for choice in choices)}.")


def _bounds(made: dict[str, Any], schema: Mapping[str, Any], notes: list[str]) -> None:
    """Describe exclusive bounds, multiples and uniqueness in ``notes``."""
    for name, words in (
        ("exclusiveMinimum", "More than"),
        ("exclusiveMaximum", "Less than"),
        ("multipleOf", "A multiple of"),
    ):
        if name in schema:
            notes.append(f"{words} {schema[name]}.")
    if schema.get("uniqueItems"):
        notes.append("No item twice.")


def _options(made: dict[str, Any], options: list[dict[str, Any]]) -> None:
    """Set alternatives; express null by ``nullable``."""
    real = [option for option in options if option.get("type") != "null"]
    if len(real) < len(options):
        made["nullable"] = True
    if len(real) == 1:
        made |= {**real[0], **made}
    elif real:
        made["anyOf"] = real


PARTS: Final = "parts"
"""Our own message member with the parts of its content, unchanged."""

NO_ID: Final = "call_"
"""Prefix of our ids of calls without an id; the number of the call follows."""


def calls_of(parts: Sequence[Any]) -> dict[int, str]:
    """Return the ids of the calls among ``parts``, by index."""
    ids: dict[int, str] = {}
    for index, part in enumerate(parts):
        call = part.get("functionCall") if isinstance(part, Mapping) else None
        if isinstance(call, Mapping):
            given = call.get("id")
            ids[index] = given if isinstance(given, str) and given else f"{NO_ID}{len(ids)}"
    return ids


class GeminiTranslation:
    """Translates one answer; a :class:`spectator.llm.wire_forms.Translation`."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []

    def chunks(self, piece: Any) -> Iterator[Chunk]:
        """See :meth:`Translation.chunks`."""
        if not isinstance(piece, dict):
            raise EndpointMalformed("the endpoint's answer is not a Gemini response")
        if piece.get("error"):
            yield {"error": piece["error"]}
            return
        if isinstance(usage := piece.get("usageMetadata"), dict):
            yield {"model": piece.get("modelVersion"), "usage": _counted(usage)}
        candidates = piece.get("candidates")
        if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
            yield from self._candidate(candidates[0])
        elif isinstance(blocked := piece.get("promptFeedback"), dict) and blocked.get("blockReason"):
            yield delta("content_filter")

    def _candidate(self, candidate: dict[str, Any]) -> Iterator[Chunk]:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from self._part(part)
        if reason := candidate.get("finishReason"):
            yield delta(str(reason), **self._kept())

    def _part(self, part: dict[str, Any]) -> Iterator[Chunk]:
        self._add(part)
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(text, str) and text:
            yield delta(**{THOUGHT if part.get("thought") else "content": text})
        if isinstance(call, dict):
            ids = calls_of(self._parts)
            arguments = orjson.dumps(call.get("args") or {}).decode()
            yield call_delta(
                len(ids) - 1, id=ids[len(self._parts) - 1], name=call.get("name"), arguments=arguments
            )

    def _add(self, part: dict[str, Any]) -> None:
        """Keep a part; join consecutive plain text, but never signed parts."""
        if self._parts and part.keys() <= {"text", "thought"} and isinstance(part.get("text"), str):
            last = self._parts[-1]
            if last.keys() == part.keys() and last.get("thought") == part.get("thought"):
                self._parts[-1] = {**last, "text": last["text"] + part["text"]}
                return
        self._parts.append(part)

    def _kept(self) -> dict[str, Any]:
        """Return the parts to send back, unless text and tool calls represent them."""
        plain = all(part.keys() <= {"text"} or part.keys() <= {"functionCall"} for part in self._parts)
        return {} if plain else {PARTS: self._parts}


def _counted(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of chat completions, where thoughts count as completion."""
    thoughts = token_count(usage.get("thoughtsTokenCount"))
    return {
        "prompt_tokens": token_count(usage.get("promptTokenCount"))
        + token_count(usage.get("toolUsePromptTokenCount")),
        "completion_tokens": token_count(usage.get("candidatesTokenCount")) + thoughts,
        "prompt_tokens_details": {"cached_tokens": token_count(usage.get("cachedContentTokenCount"))},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_OUR_ID: Final = re.compile(rf"{NO_ID}\d+")


class GeminiForm:
    """Gemini's generateContent API; a :class:`spectator.llm.wire_forms.WireForm`.

    Token ids and log probabilities are not requested.
    """

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
            "contents": [
                {"role": role, "parts": parts} for role, parts in alternate(_turns(request.messages))
            ],
        }
        system = [message["content"] for message in request.messages if message["role"] == "system"]
        if system:
            body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
        if request.tools:
            body["tools"] = [{"functionDeclarations": list(map(_declared, request.tools))}]
            choice = "required" if request.constraint == "tools" else request.tool_choice
            if choice is not None:
                body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}
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
        "responseMimeType": "application/json" if request.constraint.startswith("json") else None,
        "responseJsonSchema": request.schema,
    }
    return {name: value for name, value in given.items() if value is not None}


def _turns(messages: Sequence[Message]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield role and parts of each message."""
    names: dict[str, str] = {}
    for message in messages:
        match message["role"]:
            case "system":
                continue
            case "assistant":
                names = {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
                yield "model", _model_parts(message)
            case "tool":
                yield "user", [_response(message, names.get(message["tool_call_id"], "unknown"))]
            case _:
                yield "user", [{"text": message["content"]}] if message["content"] else []


def _response(message: Message, name: str) -> dict[str, Any]:
    """Return the result of a function, with the call's id if the model gave one."""
    call_id = message["tool_call_id"]
    by_id = {} if _OUR_ID.fullmatch(call_id) else {"id": call_id}
    return {"functionResponse": {**by_id, "name": name, "response": {"result": message["content"]}}}


def _model_parts(message: Message) -> list[dict[str, Any]]:
    """Return the parts of the model's message, without omitted calls."""
    calls = message.get("tool_calls") or ()
    if isinstance(parts := message.get(PARTS), list):
        kept = {call["id"] for call in calls}
        ids = calls_of(parts)
        return [part for index, part in enumerate(parts) if index not in ids or ids[index] in kept]
    text = [{"text": message["content"]}] if message.get("content") else []
    return [*text, *map(_call, calls)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    by_id = {} if _OUR_ID.fullmatch(call["id"]) else {"id": call["id"]}
    return {
        "functionCall": {
            **by_id,
            "name": function["name"],
            "args": orjson.loads(function["arguments"] or "{}"),
        }
    }


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function declaration; the API rejects parameters without properties."""
    function = tool["function"]
    schema = gemini_schema(function.get("parameters") or {})
    takes = {"parameters": schema} if schema.get("properties") else {}
    return {"name": function["name"], "description": function.get("description") or function["name"], **takes}
