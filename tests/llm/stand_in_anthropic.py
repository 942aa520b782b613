"""A stand-in for Anthropic's Messages API that holds requests to its documented rules."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.llm.brains import Brain, Said
from tests.llm.stand_ins import KEY, Asked, Refused, pieces

FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "top_p", "top_k",
    "stop_sequences", "stream", "thinking", "metadata", "output_config",
}  # fmt: skip
BLOCKS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}


def refused(status: int, kind: str, message: str) -> Refused:
    return Refused(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r1"})


def wrong(message: str) -> Refused:
    return refused(400, "invalid_request_error", message)


class AnthropicStandIn:
    """Asks ``brain``; thinks aloud, signed, where thinking is enabled.

    Args:
        brain: Answers, by the prompt in the form of chat completions.
        model: The only one that there is.
    """

    def __init__(self, brain: Brain, model: str = "claude-haiku-4-5") -> None:
        self.brain = brain
        self.model = model
        self.signed: dict[str, str] = {}
        self.cached: set[str] = set()

    def answer(self, asked: Asked) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        body = asked.body
        self._admit(asked)
        self._fields(body)
        self._messages(body)
        self._thinking(body)
        message = self._message(body, self.brain(as_completion(body)))
        return (None, _events(message)) if body.get("stream") else (message, None)

    def _admit(self, asked: Asked) -> None:
        if asked.path != "/v1/messages":
            raise refused(404, "not_found_error", "Not found")
        if asked.headers.get("x-api-key") != KEY:
            raise refused(401, "authentication_error", "invalid x-api-key")
        if asked.headers.get("anthropic-version") != "2023-06-01":
            raise wrong("anthropic-version: header is required")
        if asked.body.get("model") != self.model:
            raise refused(404, "not_found_error", f"model: {asked.body.get('model')}")

    def _fields(self, body: Mapping[str, Any]) -> None:
        for name in body:
            if name not in FIELDS:
                raise wrong(f"{name}: Extra inputs are not permitted")
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            raise wrong("max_tokens: Field required")
        if not 0 <= body.get("temperature", 0) <= 1:
            raise wrong("temperature: range: 0..1")
        marks = json.dumps(body).count('"cache_control"')
        if marks > 4:
            raise wrong(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
        for tool in body.get("tools", ()):
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]) or tool.keys() - {
                "name", "description", "input_schema", "cache_control", "type", "strict",
            }:  # fmt: skip
                raise wrong(f"tools: {tool}")
            if tool["input_schema"].get("type") != "object":
                raise wrong("tools.input_schema.type: Field required")
        if "tool_choice" in body and body["tool_choice"].get("type") not in ("auto", "any", "tool", "none"):
            raise wrong("tool_choice")

    def _messages(self, body: Mapping[str, Any]) -> None:
        messages = body.get("messages")
        if not messages:
            raise wrong("messages: at least one message is required")
        due: list[str] = []
        for number, message in enumerate(messages):
            role, content = message["role"], message["content"]
            if role != ("user", "assistant")[number % 2] or message.keys() != {"role", "content"}:
                raise wrong(f"messages.{number}: roles must alternate, the first is user")
            for block in content:
                known = BLOCKS.get(block.get("type"))
                if known is None or block.keys() - known:
                    raise wrong(f"messages.{number}.content: Extra inputs are not permitted: {block}")
                if block["type"] == "text" and not block["text"].strip():
                    raise wrong("text content blocks must contain non-whitespace text")
            results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            if sorted(results) != sorted(due) or any(
                b["type"] != "tool_result" for b in content[: len(results)]
            ):
                raise wrong(
                    f"messages.{number}: `tool_use` ids without `tool_result` blocks: {due}, {results}"
                )
            due = [block["id"] for block in content if block["type"] == "tool_use"]
            if role == "user" and due:
                raise wrong("`tool_use` blocks can only be in `assistant` messages")
            if any(not re.fullmatch(r"[a-zA-Z0-9_-]+", one) for one in due):
                raise wrong("tool_use.id: String should match pattern")

    def _thinking(self, body: Mapping[str, Any]) -> None:
        thinking = body.get("thinking")
        for message in body["messages"]:
            for block in message["content"]:
                if block["type"] == "thinking" and self.signed.get(block["signature"]) != block["thinking"]:
                    raise wrong("`thinking` or `redacted_thinking` blocks cannot be modified")
        if not thinking:
            return
        if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            raise wrong("`max_tokens` must be greater than `thinking.budget_tokens`")
        if "temperature" in body or body.get("tool_choice", {}).get("type") in ("any", "tool"):
            raise wrong("Thinking may not be enabled when tool_choice forces tool use, or with temperature")
        for message in body["messages"]:
            kinds = [block["type"] for block in message["content"]]
            if "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
                raise wrong(f"Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`")

    def _message(self, body: Mapping[str, Any], said: Said) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if body.get("thinking"):
            thought = f"{said.thought} (thought {len(body['messages'])})"
            signature = hashlib.sha256(thought.encode()).hexdigest()
            self.signed[signature] = thought
            content.append({"type": "thinking", "thinking": thought, "signature": signature})
        if said.text:
            content.append({"type": "text", "text": said.text})
        for number, (name, arguments) in enumerate(said.calls):
            ident = f"toolu_{len(body['messages']):02}_{number}"
            content.append({"type": "tool_use", "id": ident, "name": name, "input": arguments})
        reason = "refusal" if said.refusal else "tool_use" if said.calls else "end_turn"
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": {"length": "max_tokens"}.get(said.finish, reason), "stop_sequence": None,
            "usage": self._usage(body, json.dumps(content)),
        }  # fmt: skip

    def _usage(self, body: Mapping[str, Any], written: str) -> dict[str, int]:
        """Tokens of four characters; what was cached reaches to the last mark that is known."""
        whole = [json.dumps(body.get("tools", [])), *map(json.dumps, body.get("system", []))]
        whole += [json.dumps(block) for message in body["messages"] for block in message["content"]]
        read = written_to = total = 0
        prefix = ""
        for part in whole:
            plain = part.replace(', "cache_control": {"type": "ephemeral"}', "")
            total += len(plain)
            prefix = hashlib.sha256((prefix + plain).encode()).hexdigest()
            if prefix in self.cached:
                read = total
            elif plain != part:
                written_to = total
        self._remember(whole)
        written_to = max(0, written_to - read)
        return {
            "input_tokens": (total - read - written_to) // 4,
            "cache_read_input_tokens": read // 4,
            "cache_creation_input_tokens": written_to // 4,
            "output_tokens": len(written) // 4,
        }

    def _remember(self, whole: list[str]) -> None:
        prefix = ""
        for part in whole:
            plain = part.replace(', "cache_control": {"type": "ephemeral"}', "")
            prefix = hashlib.sha256((prefix + plain).encode()).hexdigest()
            if plain != part:
                self.cached.add(prefix)


def as_completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as brains read it."""
    messages = [{"role": "system", "content": "".join(block["text"] for block in body.get("system", ()))}]
    for message in body["messages"]:
        texts = [block.get("text") or block.get("content") or "" for block in message["content"]]
        messages.append({"role": message["role"], "content": "\n".join(texts)})
    tools = [
        {"function": {"name": tool["name"], "parameters": tool["input_schema"]}}
        for tool in body.get("tools", ())
    ]
    schema = body.get("output_config", {}).get("format")
    asked = {} if schema is None else {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"messages": messages, "tools": tools, **asked}


def _events(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    usage = message["usage"]
    head = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": head}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(message["content"]):
        match block["type"]:
            case "thinking":
                begun: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": one} for one in pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                begun = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": one} for one in pieces(block["text"])]
            case _:
                begun = {**block, "input": {}}
                written = pieces(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": one} for one in ("", *written)]
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": usage["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": used}
    yield "message_stop", {"type": "message_stop"}
