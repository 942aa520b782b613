"""Gemini's generateContent API: requests, and answers as completion chunks.

Content is a list of parts; function calls and their results are parts too. If the model signed its
thoughts, all parts of its message are sent back as they came. Function declarations accept only a subset
of JSON Schema and reject other keywords, so what the subset cannot express is described to the model in
words. Answers are still checked against the world's own schema.
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
from spectator.llm.wire_forms import Chunk, Translation, called, count, delta, encode_json_body, joined

_KEPT: Final = frozenset({
    "type", "title", "description", "nullable", "maxItems", "minItems", "required", "minProperties",
    "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum",
})  # fmt: skip
_FORMATS: Final = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_DEPTH: Final = 12


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` in Gemini's subset.

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
    """``schema`` with what it refers to, and with all that must hold at once, in one."""
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
    """One type, and apart whether there may be none."""
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
    """Choices between texts as they are, others in words."""
    choices = list(schema.get("enum") or ([schema["const"]] if "const" in schema else ()))
    if choices and all(isinstance(choice, str) and choice for choice in choices):
        made["enum"] = choices
    elif choices:
        notes.append(f"One of {', '.join(json.dumps(choice) for choice in choices)}.")


def _bounds(made: dict[str, Any], schema: Mapping[str, Any], notes: list[str]) -> None:
    """Open bounds, steps and the like, in words."""
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
    """Alternatives; one that is nothing but null is said by ``nullable``."""
    real = [option for option in options if option.get("type") != "null"]
    if len(real) < len(options):
        made["nullable"] = True
    if len(real) == 1:
        made |= {**real[0], **made}
    elif real:
        made["anyOf"] = real


PARTS: Final = "parts"
"""Member of a message of ours that holds the parts of its content as they came."""

NO_ID: Final = "call_"
"""How the id of a call begins that the model gave none; its place among the calls follows."""

_FINISHED: Final[Mapping[str, str]] = {"STOP": "stop", "MAX_TOKENS": "length"}
_FILTERED: Final = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"}
)


def calls_of(parts: Sequence[Any]) -> dict[int, str]:
    """Places of the calls among ``parts``, with their ids."""
    named: dict[int, str] = {}
    for place, part in enumerate(parts):
        call = part.get("functionCall") if isinstance(part, Mapping) else None
        if isinstance(call, Mapping):
            given = call.get("id")
            named[place] = given if isinstance(given, str) and given else f"{NO_ID}{len(named)}"
    return named


class GeminiTranslation:
    """See :class:`spectator.llm.wire_forms.Translation`."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []

    def chunks(self, piece: Any) -> Iterator[Chunk]:
        """See :meth:`Translation.chunks`."""
        if not isinstance(piece, dict):
            raise EndpointMalformed("the endpoint answered something that is not a response")
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
            finish = "content_filter" if reason in _FILTERED else _FINISHED.get(reason, str(reason).lower())
            yield delta(finish, **self._kept())

    def _part(self, part: dict[str, Any]) -> Iterator[Chunk]:
        self._add(part)
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(text, str) and text:
            yield delta(**{THOUGHT if part.get("thought") else "content": text})
        if isinstance(call, dict):
            named = calls_of(self._parts)
            arguments = orjson.dumps(call.get("args") or {}).decode()
            yield called(
                len(named) - 1, id=named[len(self._parts) - 1], name=call.get("name"), arguments=arguments
            )

    def _add(self, part: dict[str, Any]) -> None:
        """Keep a part; plain text that follows its like is one part with it, signed parts never are."""
        if self._parts and part.keys() <= {"text", "thought"} and isinstance(part.get("text"), str):
            last = self._parts[-1]
            if last.keys() == part.keys() and last.get("thought") == part.get("thought"):
                self._parts[-1] = {**last, "text": last["text"] + part["text"]}
                return
        self._parts.append(part)

    def _kept(self) -> dict[str, Any]:
        """The parts as they are to go back; none where text and calls say all of it."""
        plain = all(part.keys() <= {"text"} or part.keys() <= {"functionCall"} for part in self._parts)
        return {} if plain else {PARTS: self._parts}


def _counted(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The usage as chat completions state it: thoughts are of the answer, what was cached of the prompt."""
    thoughts = count(usage.get("thoughtsTokenCount"))
    return {
        "prompt_tokens": count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        "completion_tokens": count(usage.get("candidatesTokenCount")) + thoughts,
        "prompt_tokens_details": {"cached_tokens": count(usage.get("cachedContentTokenCount"))},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_OURS: Final = re.compile(rf"{NO_ID}\d+")


class GeminiForm:
    """See :class:`spectator.llm.wire_forms.WireForm`. Token ids and log probabilities are not asked for."""

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
