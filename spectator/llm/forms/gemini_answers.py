"""Answers of Gemini's generateContent, streamed or whole, as chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from spectator.errors import EndpointMalformed
from spectator.llm.assembly import THOUGHT
from spectator.llm.forms.base import Chunk, called, count, delta

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
    """See :class:`spectator.llm.forms.Translation`."""

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
