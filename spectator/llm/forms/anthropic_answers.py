"""Answers of Anthropic's Messages API, streamed or whole, as chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.assembly import THOUGHT
from spectator.llm.forms.base import Chunk, called, count, delta
from spectator.llm.refusals import error_within

BLOCKS: Final = "content_blocks"
"""Member of a message of ours that holds the blocks of its content as they came."""

_FINISHED: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_STATUS: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TEXTS: Final[Mapping[str, str]] = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
_SAID_ANYWAY: Final = frozenset({"text", "tool_use"})


class AnthropicTranslation:
    """See :class:`spectator.llm.forms.Translation`."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._usage: dict[str, Any] = {}

    def chunks(self, piece: Any) -> Iterator[Chunk]:
        """See :meth:`Translation.chunks`."""
        if not isinstance(piece, dict):
            raise EndpointMalformed("the endpoint answered something that is not a message")
        match piece.get("type"):
            case "error":
                raise _reported(piece.get("error"))
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
            case _:  # pings, ends of blocks, and whatever joins the stream later
                return

    def _whole(self, message: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._begun(message)
        blocks = message.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            yield from self._block({"index": index, "content_block": block})
            if isinstance(block, dict) and block.get("type") == "tool_use":
                arguments = orjson.dumps(block.get("input") or {}).decode()
                yield called(self._calls[index], arguments=arguments)
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
                yield called(self._calls[index], id=block.get("id"), name=block.get("name"), arguments="")

    def _grown(self, piece: dict[str, Any]) -> Iterator[Chunk]:
        index, grown = piece.get("index"), piece.get("delta")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None or not isinstance(grown, dict):
            return
        kind = grown.get("type")
        if kind == "input_json_delta" and index in self._calls:
            written = str(grown.get("partial_json") or "")
            self._inputs.setdefault(index, []).append(written)
            yield called(self._calls[index], arguments=written)
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
        finish = _FINISHED.get(str(reason), str(reason)) if reason else None
        yield {**delta(finish, **self._kept()), "usage": self._counted()}

    def _kept(self) -> dict[str, Any]:
        """The blocks as they are to go back; none where text and calls say all of it."""
        if all(block.get("type") in _SAID_ANYWAY for block in self._blocks.values()):
            return {}
        for index, written in self._inputs.items():
            self._blocks[index]["input"] = _object("".join(written))
        return {BLOCKS: [block for _, block in sorted(self._blocks.items())]}

    def _used(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _counted(self) -> dict[str, Any] | None:
        """The usage as chat completions state it: all of the prompt, and how much of it was cached."""
        if not self._usage:
            return None
        read = count(self._usage.get("cache_read_input_tokens"))
        written = count(self._usage.get("cache_creation_input_tokens"))
        return {
            "prompt_tokens": count(self._usage.get("input_tokens")) + read + written,
            "completion_tokens": count(self._usage.get("output_tokens")),
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        }


def _object(written: str) -> Any:
    """The object that was written; an empty one where it was cut."""
    try:
        return orjson.loads(written or "{}")
    except orjson.JSONDecodeError:
        return {}


def _reported(error: Any) -> Exception:
    """The error that an event of the stream reports, by the status that it would have had."""
    kind = str(error.get("type")) if isinstance(error, dict) else ""
    return error_within(_STATUS.get(kind, 500), error)
