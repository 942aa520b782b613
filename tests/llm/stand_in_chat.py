"""Stand-ins for the providers that take chat completions, each with the documented rules that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.llm.brains import Brain, Said
from tests.llm.fake_server import streamed_answer, whole_answer
from tests.llm.stand_ins import KEY, Asked, Refused

FIELDS = {
    "model", "messages", "tools", "tool_choice", "temperature", "top_p", "stop", "seed", "stream",
    "stream_options", "max_tokens", "max_completion_tokens", "logprobs", "reasoning_effort",
    "parallel_tool_calls", "response_format",
}  # fmt: skip
MESSAGE = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}


@dataclass(frozen=True, slots=True)
class ChatRules:
    """What a provider asks for.

    Args:
        keyed: Whether it needs a key.
        strict: Whether unknown fields of a request are refused.
        returned: Member of its messages that must come back as it went.
        max_field: The only name of the longest answer that it takes; any where ``None``.
        streams: Whether it may stream.
        tools: What it answers where tools are offered and it was not started for them; ``None`` where it was.
        context: Tokens of its context; longer prompts are refused.
        cuts_at: Tokens beyond which it drops the beginning of a prompt without a word; 0 for never.
    """

    keyed: bool = True
    strict: bool = False
    returned: str | None = None
    max_field: str | None = None
    streams: bool = True
    tools: Refused | None = None
    context: int = 1_000_000
    cuts_at: int = 0


def wrong(message: str, status: int = 400, code: str = "invalid_request_error") -> Refused:
    return Refused(status, {"error": {"message": message, "type": code, "code": code}})


def strict_only(schema: Any, *, root: bool = False) -> None:
    """Refuses a schema that is not strict: an object is closed and requires all of its members."""
    if root and schema.get("type") != "object":
        raise wrong("Invalid schema for response_format 'decision': schema must have type 'object'")
    if isinstance(schema, list):
        for one in schema:
            strict_only(one)
    elif isinstance(schema, dict):
        members = schema.get("properties")
        if members is not None and (schema.get("additionalProperties") is not False
                                    or schema.get("required") != list(members)):  # fmt: skip
            raise wrong("Invalid schema: 'additionalProperties' is required to be supplied and to be false")
        for name, one in schema.items():
            strict_only(list(one.values()) if name == "properties" else one)


RULES: Mapping[str, ChatRules] = {
    "openai": ChatRules(strict=True, max_field="max_completion_tokens", streams=False),
    "openrouter": ChatRules(returned="reasoning_details"),
    "huggingface": ChatRules(max_field="max_tokens"),
    "ollama": ChatRules(keyed=False),
    "vllm": ChatRules(keyed=False, returned="reasoning_content"),
    "sglang": ChatRules(keyed=False),
    "llama.cpp": ChatRules(keyed=False, max_field="max_tokens"),
}


class ChatStandIn:
    """Asks ``brain`` where a request keeps to the rules.

    Args:
        brain: Answers.
        rules: The provider's own.
        model: The only one that there is.
    """

    def __init__(self, brain: Brain, rules: ChatRules, model: str = "m-1") -> None:
        self.brain = brain
        self.rules = rules
        self.model = model
        self.told: list[Any] = []

    def answer(self, asked: Asked) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        body, rules = asked.body, self.rules
        if asked.path != "/v1/chat/completions":
            raise wrong("Not Found", 404)
        if rules.keyed and asked.headers.get("Authorization") != f"Bearer {KEY}":
            raise wrong("Incorrect API key provided", 401, "invalid_api_key")
        if body.get("model") != self.model:
            raise wrong(f"The model `{body.get('model')}` does not exist", 404, "model_not_found")
        self._fields(body)
        self._messages(body["messages"])
        tokens = sum(len(json.dumps(message)) for message in body["messages"]) // 4
        if tokens > rules.context:
            raise wrong(f"This model's maximum context length is {rules.context} tokens, you have {tokens}")
        seen = body
        if rules.cuts_at and tokens > rules.cuts_at:
            last = body["messages"][-1]
            seen = {**body, "messages": [{**last, "content": last["content"][-4 * rules.cuts_at :]}]}
            tokens = rules.cuts_at
        return self._said(self.brain(seen), body, tokens)

    def _fields(self, body: Mapping[str, Any]) -> None:
        rules = self.rules
        for name in body:
            if rules.strict and name not in FIELDS:
                raise wrong(f"Unrecognized request argument supplied: {name}")
            if name.startswith("max_") and rules.max_field not in (None, name):
                raise wrong(f"Unsupported parameter: '{name}'. Use '{rules.max_field}' instead.")
        asked = body.get("response_format", {}).get("json_schema", {}).get("schema")
        schemas = [] if asked is None else [asked]
        schemas += [
            one["function"]["parameters"] for one in body.get("tools", ()) if "strict" in one["function"]
        ]
        for schema in schemas:
            strict_only(schema, root=rules.strict)
        if body.get("stream") and not rules.streams:
            raise wrong("Your organization must be verified to stream this model.")
        if body.get("tools") and rules.tools is not None:
            raise rules.tools

    def _messages(self, messages: list[Mapping[str, Any]]) -> None:
        due: list[str] = []
        returned = self.rules.returned
        for message in messages:
            if message["role"] == "tool":
                if message.get("tool_call_id") not in due:
                    raise wrong("messages with role 'tool' must follow a message with 'tool_calls'")
                due.remove(message["tool_call_id"])
            elif due:
                raise wrong(f"tool_call_ids did not have response messages: {due}")
            if self.rules.strict and message.keys() - MESSAGE:
                raise wrong(f"Additional properties are not allowed: {message.keys() - MESSAGE}")
            if message["role"] == "assistant":
                due = [call["id"] for call in message.get("tool_calls") or ()]
                if returned is not None and message.get(returned) not in self.told:
                    raise wrong(f"{returned} must be passed back as it was")
        if due:
            raise wrong(f"tool_call_ids did not have response messages: {due}")

    def _said(
        self, said: Said, body: dict[str, Any], tokens: int
    ) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        usage = {"prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7}
        thought = Said(said.text, "", said.calls, said.refusal, said.finish)
        beside = self._beside(f"{said.thought or 'hm'} {len(body['messages'])}")
        if not body.get("stream"):
            whole = whole_answer(thought, body)
            whole["choices"][0]["message"] |= beside
            return {**whole, "usage": usage}, None
        events = [json.loads(event) for event in streamed_answer(thought, body, 8)]
        if beside:
            events.insert(0, {"choices": [{"index": 0, "delta": beside, "finish_reason": None}]})
        events = [{**event, "usage": usage} if event.get("usage") else event for event in events]
        return None, iter([*(("", event) for event in events), ("", "[DONE]")])

    def _beside(self, thought: str) -> dict[str, Any]:
        name = self.rules.returned
        if name is None:
            return {}
        value: Any = thought
        if name == "reasoning_details":
            value = [{"type": "reasoning.text", "index": 0, "text": value, "signature": "s"}]
        self.told.append(value)
        return {name: value}
