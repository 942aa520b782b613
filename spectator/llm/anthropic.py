"""Anthropic's Messages API: requests, and answers as completion chunks.

The system message is a separate field, content is a list of blocks, tool results are user messages, and the
unchanging beginning is marked for caching. Thinking blocks are sent back unchanged, with their signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.answers import THOUGHT
from spectator.llm.chat import ChatRequest, Conversation, Message
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

BLOCKS: Final = "content_blocks"
"""Our own message member with the blocks of its content, unchanged."""

_TEXTS: Final[Mapping[str, str]] = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
_TRANSLATED: Final = frozenset({"text", "tool_use"})
"""Types of blocks that text and tool calls of a completion represent completely."""


class AnthropicTranslation:
    """Translates one answer; a :class:`spectator.llm.wire_forms.Translation`."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._usage: dict[str, Any] = {}

    def chunks(self, piece: Any) -> Iterator[Chunk]:
        """See :meth:`Translation.chunks`."""
        if not isinstance(piece, dict):
            raise EndpointMalformed("the endpoint's answer is not a message")
        match piece.get("type"):
            case "error":
                yield {"error": piece.get("error") or "unknown"}
            case "message":
                yield from self._whole(piece)
            case "message_start":
                yield from self._begun(piece.get("message"))
            case "content_block_start":
                yield from self._block(piece)
            case "content_block_delta":
                yield from self._grown(piece)
            case "message_delta":
                yield from self._ended(piece)
            case _:  # pings, ends of blocks, and events added to the API later
                return

    def _whole(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._begun(message)
        blocks = message.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            yield from self._block({"index": index, "content_block": block})
            if isinstance(block, dict) and block.get("type") == "tool_use":
                arguments = orjson.dumps(block.get("input") or {}).decode()
                yield call_delta(self._calls[index], arguments=arguments)
        yield from self._ended({"delta": message})

    def _begun(self, message: Any) -> Iterator[Chunk]:
        if isinstance(message, dict):
            self._used(message.get("usage"))
            yield {"model": message.get("model")}

    def _block(self, piece: dict[str, Any]) -> Iterator[Chunk]:
        index, block = piece.get("index"), piece.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return
        self._blocks[index] = dict(block)
        match block.get("type"):
            case "text":
                yield delta(content=block.get("text") or "")
            case "thinking":
                yield delta(**{THOUGHT: block.get("thinking") or ""})
            case "tool_use":
                self._calls[index] = len(self._calls)
                yield call_delta(self._calls[index], id=block.get("id"), name=block.get("name"), arguments="")

    def _grown(self, piece: dict[str, Any]) -> Iterator[Chunk]:
        index, grown = piece.get("index"), piece.get("delta")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None or not isinstance(grown, dict):
            return
        kind = grown.get("type")
        if kind == "input_json_delta" and index in self._calls:
            written = str(grown.get("partial_json") or "")
            self._inputs.setdefault(index, []).append(written)
            yield call_delta(self._calls[index], arguments=written)
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), grown.get("citation")]
        elif (name := _TEXTS.get(str(kind))) is not None and isinstance(text := grown.get(name), str):
            block[name] = (block.get(name) or "") + text
            if name != "signature":
                yield delta(**{"content" if name == "text" else THOUGHT: text})

    def _ended(self, piece: dict[str, Any]) -> Iterator[Chunk]:
        self._used(piece.get("usage"))
        ended = piece.get("delta")
        reason = ended.get("stop_reason") if isinstance(ended, dict) else None
        yield {**delta(str(reason) if reason else None, **self._kept()), "usage": self._counted()}

    def _kept(self) -> dict[str, Any]:
        """Return the blocks to send back, unless text and tool calls represent them."""
        if all(block.get("type") in _TRANSLATED for block in self._blocks.values()):
            return {}
        for index, written in self._inputs.items():
            self._blocks[index]["input"] = _parsed_input("".join(written))
        return {BLOCKS: [block for _, block in sorted(self._blocks.items())]}

    def _used(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _counted(self) -> dict[str, Any] | None:
        """Return the usage of chat completions, where cached tokens count as prompt."""
        if not self._usage:
            return None
        read = token_count(self._usage.get("cache_read_input_tokens"))
        written = token_count(self._usage.get("cache_creation_input_tokens"))
        return {
            "prompt_tokens": token_count(self._usage.get("input_tokens")) + read + written,
            "completion_tokens": token_count(self._usage.get("output_tokens")),
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        }


def _parsed_input(written: str) -> Any:
    """Return the parsed tool input; an empty object if it was cut."""
    try:
        return orjson.loads(written or "{}")
    except orjson.JSONDecodeError:
        return {}


VERSION: Final = "2023-06-01"
"""Version of the API, for its header."""

DEFAULT_MAX_TOKENS: Final = 4096
"""Longest answer, tokens, if the request sets none: the API requires a limit."""

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicForm:
    """Anthropic's Messages API; a :class:`spectator.llm.wire_forms.WireForm`.

    The API has no seeds, token ids or log probabilities.
    """

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
            "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": [
                {"role": role, "content": blocks} for role, blocks in alternate(_turns(request.messages))
            ],
        }
        if system:
            body["system"] = [{"type": "text", "text": "\n\n".join(system), **_CACHED}]
        if request.tools:
            body["tools"] = list(map(_tool, request.tools))
            choice = "required" if request.constraint == "tools" else request.tool_choice
            if choice is not None:
                if choice == "required" and _thinks(request.extra):
                    choice = "auto"  # the API does not force a call while the model thinks
                body["tool_choice"] = {"type": _CHOICES[choice]}
        if request.schema is not None:
            config = {**body.get("output_config", {})}
            body["output_config"] = {**config, "format": {"type": "json_schema", "schema": request.schema}}
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        given = {"temperature": request.temperature, "top_p": request.top_p, "stream": request.stream or None}
        body |= {name: value for name, value in given.items() if value is not None}
        return encode_json_body(body)

    def translation(self) -> Translation:
        """See :meth:`WireForm.translation`."""
        return AnthropicTranslation()


def _turns(messages: Sequence[Message]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield role and blocks of each message; mark the end of the cached prefix."""
    settled = messages.settled if isinstance(messages, Conversation) else len(messages)
    for number, message in enumerate(messages):
        match message["role"]:
            case "system":
                continue
            case "assistant":
                role, blocks = "assistant", _assistant_blocks(message)
            case "tool":
                role, blocks = "user", [_result(message)]
            case _:
                role, blocks = "user", _text(message["content"])
        if number == settled - 1 and blocks and blocks[-1]["type"] in ("text", "tool_use", "tool_result"):
            blocks[-1] = {**blocks[-1], **_CACHED}
        yield role, blocks


def _text(text: Any) -> list[dict[str, Any]]:
    """Return a block of text; none for blank text, which the API rejects."""
    return [{"type": "text", "text": text}] if isinstance(text, str) and text.strip() else []


def _result(message: Message) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}


def _assistant_blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of the model's message, without omitted calls."""
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


def _thinks(extra: Mapping[str, Any]) -> bool:
    thinking = extra.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    strict = {"strict": True} if function.get("strict") else {}
    return {"name": function["name"], **described, **strict, "input_schema": schema}
