"""A stand-in for Gemini's generateContent that holds requests to its documented rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.llm.brains import Brain, Said
from tests.llm.stand_ins import KEY, Asked, Refused, pieces

FIELDS = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"}
CONFIG = {
    "temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "thinkingConfig",
    "responseMimeType", "responseSchema", "responseJsonSchema", "candidateCount",
}  # fmt: skip
PART = {"text", "thought", "thoughtSignature", "functionCall", "functionResponse"}
SCHEMA = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties",
    "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf",
    "propertyOrdering", "default", "items", "minimum", "maximum",
}  # fmt: skip
TYPES = {"string", "number", "integer", "boolean", "array", "object"}


def wrong(message: str, status: int = 400, named: str = "INVALID_ARGUMENT", *details: Any) -> Refused:
    error = {"code": status, "message": message, "status": named, "details": list(details)}
    return Refused(status, {"error": error})


def per_minute(delay: str = "21s") -> Refused:
    """The refusal of a quota for a minute, whose text speaks of billing all the same."""
    return wrong(
        "You exceeded your current quota, please check your plan and billing details.",
        429,
        "RESOURCE_EXHAUSTED",
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    )


class GeminiStandIn:
    """Asks ``brain``; signs its thoughts and wants the signatures back, as Gemini 3 does.

    Args:
        brain: Answers, by the prompt in the form of chat completions.
        model: The only one that there is.
        ids: Whether its calls have ids.
    """

    def __init__(self, brain: Brain, model: str = "gemini-3-flash", *, ids: bool = True) -> None:
        self.brain = brain
        self.model = model
        self.ids = ids
        self.signed: dict[str, Any] = {}

    def answer(self, asked: Asked) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        method = asked.path.rpartition(":")[2]
        self._admit(asked, method)
        self._fields(asked.body)
        self._contents(asked.body["contents"])
        chunks = self._chunks(self.brain(as_completion(asked.body)), len(asked.body["contents"]))
        if method == "streamGenerateContent":
            return None, iter([("", chunk) for chunk in chunks])
        return self._whole(chunks), None

    def _admit(self, asked: Asked, method: str) -> None:
        if asked.headers.get("x-goog-api-key") != KEY:
            reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            raise wrong("API key not valid. Please pass a valid API key.", 400, "INVALID_ARGUMENT", reason)
        if asked.path != f"/v1beta/models/{self.model}:{method}":
            raise wrong(f"{asked.path} is not found for API version v1beta", 404, "NOT_FOUND")
        if method == "streamGenerateContent" and asked.query.get("alt") != "sse":
            raise wrong("this stand-in streams server-sent events only")

    def _fields(self, body: Mapping[str, Any]) -> None:
        known(body, FIELDS, "")
        known(body.get("generationConfig", {}), CONFIG, "generation_config.")
        known(body.get("systemInstruction", {}), {"parts", "role"}, "system_instruction.")
        for tool in body.get("tools", ()):
            known(tool, {"functionDeclarations"}, "tools.")
            for declared in tool["functionDeclarations"]:
                known(declared, {"name", "description", "parameters"}, "function_declarations.")
                if "parameters" in declared:
                    schema(declared["parameters"], "parameters")
        mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode", "AUTO")
        if mode not in ("AUTO", "ANY", "NONE"):
            raise wrong(f"Invalid value at mode: {mode}")

    def _contents(self, contents: list[Any]) -> None:
        if not contents:
            raise wrong("contents is not specified")
        due: list[str] = []
        for number, content in enumerate(contents):
            known(content, {"role", "parts"}, "contents.")
            if content["role"] != ("user", "model")[number % 2] or not content["parts"]:
                raise wrong("Please ensure that roles alternate between user and model")
            for part in content["parts"]:
                known(part, PART, "parts.")
            answered = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            for one in answered:
                known(one, {"id", "name", "response"}, "function_response.")
            if [one["name"] for one in answered] != due or not all(
                isinstance(one["response"], dict) for one in answered
            ):
                raise wrong("the number of function response parts must equal that of function call parts")
            calls = [part for part in content["parts"] if "functionCall" in part]
            due = [part["functionCall"]["name"] for part in calls]
            self._signatures(content["parts"], calls)

    def _signatures(self, parts: list[Any], calls: list[Any]) -> None:
        if calls and "thoughtSignature" not in calls[0]:
            raise wrong(f"Function call `{calls[0]['functionCall']['name']}` is missing a thought_signature")
        for part in parts:
            signature = part.get("thoughtSignature")
            if signature is not None and self.signed.get(signature) != part:
                raise wrong("Thought signature is not valid")

    def _chunks(self, said: Said, turn: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"text": one, "thought": True} for one in pieces(said.thought)]
        parts += [{"text": one} for one in pieces(said.text)]
        for number, (name, arguments) in enumerate(said.calls):
            by_id = {"id": f"fc-{turn}-{number}"} if self.ids else {}
            parts.append({"functionCall": {**by_id, "name": name, "args": arguments}})
            if number == 0:
                parts[-1] = self._sign(parts[-1])
        if not said.calls:
            parts.append(self._sign({"text": ""}))
        chunks = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
        ]
        chunks[-1]["candidates"][0]["finishReason"] = "MAX_TOKENS" if said.finish == "length" else "STOP"
        used = {
            "promptTokenCount": 90,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 102,
        }
        cached = {"cachedContentTokenCount": 64} if turn > 1 else {}
        return [{**one, "usageMetadata": {**used, **cached}, "modelVersion": self.model} for one in chunks]

    def _sign(self, part: dict[str, Any]) -> dict[str, Any]:
        """The same part is signed alike, whenever it is sent."""
        signature = f"c2ln{hashlib.sha256(repr(part).encode()).hexdigest()[:16]}"
        self.signed[signature] = signed = {**part, "thoughtSignature": signature}
        return signed

    def _whole(self, chunks: list[dict[str, Any]]) -> dict[str, Any]:
        parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
        whole = dict(chunks[-1])
        ended = {**whole["candidates"][0], "content": {"role": "model", "parts": parts}}
        return {**whole, "candidates": [ended]}


def known(given: Mapping[str, Any], names: set[str], where: str) -> None:
    for name in given:
        if name not in names:
            raise wrong(
                f'Invalid JSON payload received. Unknown name "{name}" at {where}: Cannot find field.'
            )


def schema(given: Mapping[str, Any], where: str) -> None:
    """The documented subset of schemas, at any depth."""
    known(given, SCHEMA, where)
    if "type" in given and given["type"] not in TYPES:
        raise wrong(f"Invalid value at {where}.type: {given['type']}")
    if given.get("type") == "object" and not given.get("properties"):
        raise wrong(f"{where}.properties: should be non-empty for OBJECT type")
    if any(not isinstance(choice, str) or not choice for choice in given.get("enum", ())):
        raise wrong(f"Invalid value at {where}.enum (TYPE_STRING)")
    if given.get("type") == "array" and "items" not in given:
        raise wrong(f"{where}.items: missing field.")
    for name, one in given.get("properties", {}).items():
        schema(one, f"{where}.{name}")
    for one in (*given.get("anyOf", ()), *([given["items"]] if "items" in given else ())):
        schema(one, where)


def as_completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as brains read it."""
    system = body.get("systemInstruction", {"parts": []})["parts"]
    messages = [{"role": "system", "content": "".join(part["text"] for part in system)}]
    for content in body["contents"]:
        texts = [
            part.get("text") or part.get("functionResponse", {}).get("response", {}).get("result", "")
            for part in content["parts"]
        ]
        messages.append({"role": content["role"], "content": "\n".join(texts)})
    tools = [
        {"function": {"name": declared["name"], "parameters": declared.get("parameters", {})}}
        for tool in body.get("tools", ())
        for declared in tool["functionDeclarations"]
    ]
    schema = body.get("generationConfig", {}).get("responseJsonSchema")
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"messages": messages, "tools": tools, **({} if schema is None else {"response_format": form})}
