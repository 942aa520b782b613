"""Assemble a model's answer from streamed chunks or from one complete response.

Endpoints are not trusted: a field of the wrong type is skipped. Unknown members of a message (thoughts,
their signatures, content blocks) are kept, because providers expect them back unchanged.
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import error as StructError
from struct import pack
from typing import Any, Final, Literal

from spectator.errors import EndpointMalformed
from spectator.llm.chat import ChatAnswer, DeltaKind, OnDelta, Usage
from spectator.llm.endpoints import MASK, ApiKey, cleaner
from spectator.llm.faults import finish_of
from spectator.llm.message_parts import StreamedCalls, VerbatimParts
from spectator.llm.retry import error_of, rejected_answer

Kind = Literal["thought", "text"]

_NAMES: Final = ("think", "thinking", "thought", "reasoning")
_OPENING: Final = re.compile(rf"<(?:{'|'.join(_NAMES)})>")
_CLOSING: Final = re.compile(rf"</(?:{'|'.join(_NAMES)})>")
_TAG: Final = re.compile(rf"</?(?:{'|'.join(_NAMES)})>")
_TAGS: Final = tuple(f"{start}{name}>" for name in _NAMES for start in ("<", "</"))
_LONGEST_TAG: Final = max(map(len, _TAGS))


class ThoughtSplitter:
    """Splits streamed text into thoughts and answer; a tag may be cut anywhere.

    A closing tag without an opening one (many chat templates write the opening tag themselves) turns all text
    before it into thoughts. Only :func:`split_thought`, which sees the whole text, handles that.
    """

    def __init__(self) -> None:
        self._kind: Kind = "text"
        self._held = ""

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """Yield the parts of the text that are certain after ``piece``, in order."""
        text = self._held + piece
        if "<" not in text:
            self._held = ""
            if text:
                yield self._kind, text
            return
        while found := (_OPENING if self._kind == "text" else _CLOSING).search(text):
            if found.start():
                yield self._kind, text[: found.start()]
            self._kind = "thought" if self._kind == "text" else "text"
            text = text[found.end() :]
        cut = _tag_start(text)
        self._held = text[cut:]
        if cut:
            yield self._kind, text[:cut]

    def end(self) -> Iterator[tuple[Kind, str]]:
        """Yield the text that was held back, at the end of the stream."""
        if self._held:
            yield self._kind, self._held
        self._held = ""


def _tag_start(text: str) -> int:
    """Return where an incomplete tag at the end of ``text`` starts, or its length."""
    start = text.rfind("<", max(0, len(text) - _LONGEST_TAG))
    return start if start >= 0 and any(tag.startswith(text[start:]) for tag in _TAGS) else len(text)


def split_thought(text: str) -> tuple[str, str]:
    """Return thoughts and answer of a text; an unclosed thought extends to the end.

    >>> split_thought("<think>Short ball: pull.</think>Pull it.")
    ('Short ball: pull.', 'Pull it.')
    """
    if "<" not in text:
        return "", text.strip()
    thoughts: list[str] = []
    answer: list[str] = []
    thinking, start = False, 0
    for tag in _TAG.finditer(text):
        opens = not tag[0].startswith("</")
        if opens and thinking:
            continue
        (thoughts if thinking else answer).append(text[start : tag.start()])
        if not opens and not thinking:
            thoughts += answer
            answer.clear()
        thinking, start = opens, tag.end()
    (thoughts if thinking else answer).append(text[start:])
    stripped = filter(None, (thought.strip() for thought in thoughts))
    return "\n\n".join(stripped), "".join(answer).strip()


def token_ids(values: Sequence[Any]) -> array[int]:
    """Return ``values`` as an array; twice as fast as ``array`` for many values.

    >>> token_ids([7, 2**40])
    array('q', [7, 1099511627776])

    Raises:
        ValueError: A value is not an integer from 0 to 2**63 - 1.
    """
    try:
        packed = pack(f"<{len(values)}q", *values)
    except StructError as error:
        raise ValueError("a token id is not an integer of at most 63 bits") from error
    if not packed[7::8].isascii():  # the sign bits
        raise ValueError("a token id is negative")
    ids = array("q", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


MAX_DELTA: Final = 2_048
"""Characters passed to ``on_delta`` at once, about; longer text is split."""

MAX_NAME: Final = 200
"""Characters of the name of a model, a provider or a configuration; further ones are dropped."""

MIN_MASKED: Final = 8
"""At the end of a text, shorter beginnings of the key are shown: ordinary words can match them."""

INVALID_LOGPROBS: Final = "the endpoint's log probabilities are not numbers"
INVALID_IDS: Final = "the endpoint's token ids are not integers of at least 0"

_VERSION_FIELDS: Final = frozenset({"metadata", "sglext", "weight_version"})
_NAMING: Final = frozenset({"model", "provider", "system_fingerprint"})
"""Members with which an endpoint says who answers; the first value of each is kept."""

_KNOWN: Final = frozenset({"id", "object", "created", "choices", "service_tier", *_NAMING})
"""Members of a chunk that can be skipped once their names are known."""

_TOKEN_FIELDS: Final = frozenset({"token_ids", "logprobs", "meta_info"})
_COMMON_FIELDS: Final = frozenset({"role", "content", "reasoning_content"})
"""The only members in most chunks' messages."""

THOUGHT: Final = "thought"
"""Our own message member for thoughts that are not sent back to the endpoint."""

_MESSAGE_FIELDS: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call", THOUGHT})


class Assembly:
    """Assembles an answer from its pieces; a whole answer is one piece.

    Args:
        key: Masked if the endpoint repeats it.
        on_delta: Called with each part as it arrives.
        served: Returns the version of the weights that the endpoint serves now, for endpoints that do not
            report it. What arrives first has the version at the time of the request, and later parts have
            the one at their arrival.
    """

    def __init__(
        self,
        key: ApiKey | None = None,
        on_delta: OnDelta | None = None,
        served: Callable[[], str | None] | None = None,
    ) -> None:
        self._key = key
        self._clean = cleaner(key)
        self._on_delta = on_delta
        self._splitter = None if on_delta is None else ThoughtSplitter()
        self._text: list[str] = []
        self._thought: list[str] = []
        self._refusal: list[str] = []
        self._calls: StreamedCalls | None = None
        self._verbatim: VerbatimParts | None = None
        self.usage: Usage | None = None
        self._named: dict[str, str] = {}
        self._unnamed = set(_NAMING)
        self._version: str | None = None
        self._served = served
        self._marked = None if served is None else served()
        self._runs: list[tuple[str | None, int]] = []
        self._marks: list[tuple[str | None, int]] = [] if served is None else [(self._marked, 0)]
        self._tokens = _Tokens()
        self._grown: list[str] = []
        self._grown_kind: DeltaKind = "text"
        self._grown_size = 0
        self.finish_reason: str | None = None
        self.begun = False

    def feed(self, piece: Any) -> None:
        """Add one decoded completion or chunk; see :meth:`feed_all`."""
        self.feed_all((piece,))

    def feed_all(self, pieces: Iterable[Any]) -> None:
        """Add decoded completions or chunks that arrived together; then call ``on_delta``.

        Raises:
            EndpointError: A piece reports an error, or is not a completion.
        """
        if self._served is not None and self.begun and (now := self._served()) != self._marked:
            self._marked = now
            self._marks.append((now, 0))
        try:
            for piece in pieces:
                if not isinstance(piece, dict):
                    raise EndpointMalformed("the endpoint's answer is not a completion")
                if not (_KNOWN.issuperset(piece) and self._unnamed.isdisjoint(piece)):
                    self._metadata(piece)
                choices = piece.get("choices")
                if isinstance(choices, list) and choices and isinstance(choices[0], dict):
                    self.begun = True
                    self._choice(choices[0])
        finally:
            self._flush()

    def answer(self, *, latency_s: float, first_token_s: float | None, attempts: int) -> ChatAnswer:
        """Return the complete answer.

        Raises:
            EndpointMalformed: No piece had a choice.
            EndpointError: The endpoint did not finish the answer.
        """
        if not self.begun:
            raise EndpointMalformed("the endpoint's answer contains no completion")
        fault = None if self.finish_reason is None else finish_of(self.finish_reason)
        if fault is not None and fault.error is not None:
            raise fault.error(fault.message, detail=f"finish_reason {self.finish_reason}")
        if self._splitter is not None:
            for kind, part in self._splitter.end():
                self._grow(kind, part)
            self._flush(whole=True)
        inline, text = split_thought("".join(self._text))
        separate, refusal = "".join(self._thought).strip(), "".join(self._refusal).strip()
        calls = () if self._calls is None else self._calls.whole(self._clean)
        logprobs, token_ids, prompt = self._tokens.whole()
        return ChatAnswer(
            text=self._clean(text),
            thought=self._clean(f"{separate}\n\n{inline}" if separate and inline else separate or inline),
            tool_calls=calls,
            refusal=self._clean(refusal) or None if refusal else None,
            verbatim={} if self._verbatim is None else self._verbatim.whole(self._clean),
            finish_reason=None if fault is None else fault.finish,
            **self._named,
            weight_version=self._version or self._marked,
            weight_versions=self._weight_versions(),
            usage=self.usage,
            logprobs=logprobs,
            token_ids=token_ids,
            prompt_token_ids=prompt,
            latency_s=latency_s,
            first_token_s=first_token_s,
            attempts=attempts,
        )

    def _metadata(self, piece: dict[str, Any]) -> None:
        if piece.get("error") or piece.get("object") == "error":
            self._failed(piece if isinstance(piece.get("error"), str | None) else {"error": piece["error"]})
        for name in self._unnamed & piece.keys():
            if text := self._clean(_text(piece[name]))[:MAX_NAME]:
                self._named[name] = text
                self._unnamed.discard(name)
        for holder in (piece, piece.get("x_groq")):
            if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict):
                self.usage = _usage(usage)
        if isinstance(timings := piece.get("timings"), dict) and self.usage is None:
            self.usage = _timed(timings)
        if not _VERSION_FIELDS.isdisjoint(piece):
            for holder in (piece.get("metadata"), piece.get("sglext"), piece):
                self._read_version(holder)
        if "prompt_token_ids" in piece:
            self._tokens.prompt = _integers(piece["prompt_token_ids"]) or self._tokens.prompt

    def _failed(self, error: Mapping[str, Any]) -> None:
        """Raise the error that an answer reports; one that is the model's own fault ends the answer."""
        body = json.dumps(error, default=str).encode()
        if (said := rejected_answer(200, body)) is None:
            raise error_of(200, body)
        self.begun = True
        self._choice(said["choices"][0])

    def _read_version(self, holder: Any) -> None:
        if isinstance(holder, dict) and isinstance(holder.get("weight_version"), str | int):
            self._version = self._clean(str(holder["weight_version"]))

    def _count_version(self, tokens: int) -> None:
        """Attribute ``tokens`` tokens to the current version of the weights."""
        counted = tokens
        if tokens and self._runs and self._runs[-1][0] == self._version:
            tokens += self._runs.pop()[1]
        if tokens:
            self._runs.append((self._version, tokens))
        if self._served is not None:
            self._marks[-1] = (self._marked, self._marks[-1][1] + counted)

    def _weight_versions(self) -> Sequence[tuple[str, int]]:
        """Return ``(version, tokens)``; the first version includes tokens before it."""
        if self._version is None and self._served is not None:
            counted = any(tokens for _, tokens in self._marks)
            return tuple(
                (version, tokens)
                for version, tokens in self._marks
                if version is not None and (tokens or not counted)
            )
        unknown = self._runs[0][1] if self._runs and self._runs[0][0] is None else 0
        runs = [(version, tokens) for version, tokens in self._runs if version is not None]
        if unknown and runs:
            runs[0] = (runs[0][0], runs[0][1] + unknown)
        return tuple(runs) if runs or self._version is None else ((self._version, unknown),)

    def _choice(self, choice: dict[str, Any]) -> None:
        if isinstance(error := choice.get("error"), dict) and error:
            return self._failed({"error": error})
        if isinstance(usage := choice.get("usage"), dict):
            self.usage = _usage(usage)
        message = choice.get("delta") or choice.get("message")
        if message is None and isinstance(text := choice.get("text"), str):  # of /completions
            message = {"content": text}
        if isinstance(message, dict):
            self._message(message, whole=not choice.get("delta"))
        if reason := choice.get("finish_reason"):
            self.finish_reason = self._clean(_text(reason)) or self.finish_reason
        if not _TOKEN_FIELDS.isdisjoint(choice):
            self._read_version(choice.get("meta_info"))
            before = self._tokens.count
            self._tokens.add(choice)
            self._count_version(self._tokens.count - before)

    def _message(self, message: dict[str, Any], *, whole: bool) -> None:
        content = message.get("content")
        thought = message.get("reasoning_content") or message.get("reasoning") or message.get(THOUGHT) or ""
        if not isinstance(thought, str) or isinstance(content, list):
            thought = _content(thought) + _thinking_parts(content)
        if thought:
            self._thought.append(thought)
            self._grow("thought", thought)
        if content and (text := _content(content)):
            self._text.append(text)
            if self._splitter is not None:
                for kind, part in self._splitter.feed(text):
                    self._grow(kind, part)
        if _COMMON_FIELDS.issuperset(message):
            if thought:
                self._keep("reasoning_content", thought)
            return
        for name in message.keys() - _MESSAGE_FIELDS:
            self._keep(name, message[name])
        if "refusal" in message and (refusal := _text(message["refusal"])):
            self._refusal.append(refusal)
            self._grow("text", refusal)
        calls = message.get("tool_calls")
        if not calls and isinstance(legacy := message.get("function_call"), dict):
            calls = [{"function": legacy}]
        if calls and isinstance(calls, list):
            self._calls = self._calls or StreamedCalls()
            for written in self._calls.add([call for call in calls if isinstance(call, dict)], whole=whole):
                self._grow("tool", written)

    def _keep(self, name: str, value: Any) -> None:
        if self._verbatim is None:
            self._verbatim = VerbatimParts()
        self._verbatim.add(name, value)

    def _grow(self, kind: DeltaKind, text: str) -> None:
        if self._on_delta is None:
            return
        self._grown_size += len(text)
        if kind != self._grown_kind or self._grown_size > MAX_DELTA:
            self._flush(whole=kind != self._grown_kind)
            self._grown_kind, self._grown_size = kind, len(text)
        self._grown.append(text)

    def _flush(self, *, whole: bool = False) -> None:
        """Pass text on; hold back a possible beginning of the key, unless ``whole``."""
        if self._grown and self._on_delta is not None:
            grown, self._grown = self._clean("".join(self._grown)), []
            length = 0 if self._key is None else self._key.prefix_at_end(grown)
            if length:
                grown, prefix = grown[:-length], grown[-length:]
                if not whole:
                    self._grown = [prefix]
                else:
                    grown += prefix if length < MIN_MASKED else MASK
            if grown:
                self._on_delta(self._grown_kind, grown)
        self._grown_size = 0


class _Tokens:
    """Token ids and log probabilities of an answer, as arrays."""

    def __init__(self) -> None:
        self.logprobs: array[float] = array("d")
        self.ids: array[int] = array("q")
        self._listed: list[Any] = []
        self.prompt: array[int] = array("q")

    @property
    def count(self) -> int:
        """Tokens of the answer so far."""
        return len(self.ids) or len(self.logprobs)

    def whole(self) -> tuple[array[float] | None, array[int] | None, array[int] | None]:
        """Return log probabilities, answer ids and prompt ids; ``None`` if empty."""
        if not self.ids and all(type(one) is int and 0 <= one < 2**63 for one in self._listed):
            self.ids = token_ids(self._listed)
        return self.logprobs or None, self.ids or None, self.prompt or None

    def add(self, choice: dict[str, Any]) -> None:
        """Add the tokens of a choice in the form of OpenAI, llama.cpp, vLLM or SGLang."""
        if "token_ids" in choice:
            self.ids.extend(_integers(choice["token_ids"]))
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            if not all(isinstance(token, dict) for token in content):
                raise EndpointMalformed(INVALID_LOGPROBS)
            self._add_logprobs([token.get("logprob") for token in content])
            self._listed += [token.get("id") for token in content]
        of_tokens = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
        if isinstance(of_tokens, list):
            self._add_logprobs(of_tokens)
        if "prompt_token_ids" in choice:
            self.prompt = _integers(choice["prompt_token_ids"]) or self.prompt
        meta = choice.get("meta_info")
        if isinstance(meta, dict) and isinstance(rows := meta.get("output_token_logprobs"), list):
            self._sglang(rows)
        if isinstance(meta, dict) and not self.prompt:
            self.prompt = _integers(meta.get("prompt_token_ids"))

    def _add_logprobs(self, values: list[Any]) -> None:
        """Add log probabilities; an unknown one (``null``) is not a number."""
        try:
            self.logprobs.fromlist([math.nan if value is None else value for value in values])
        except TypeError as error:
            raise EndpointMalformed(INVALID_LOGPROBS) from error

    def _sglang(self, rows: list[Any]) -> None:
        try:
            logprobs = [row[0] for row in rows]
            ids = [row[1] for row in rows]
            if not self.logprobs:
                self._add_logprobs(logprobs)
            if not self.ids:
                self.ids = token_ids(ids)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EndpointMalformed(INVALID_IDS) from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(value: Any) -> str:
    """Return the text of a content: a string or, at some endpoints, a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))


def _thinking_parts(content: Any) -> str:
    if not isinstance(content, list):
        return ""
    return "".join(_content(part.get("thinking")) for part in content if isinstance(part, dict))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _usage(usage: dict[str, Any]) -> Usage:
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(prompt.get("cached_tokens")) if isinstance(prompt, dict) else 0,
        _count(completion.get("reasoning_tokens")) if isinstance(completion, dict) else 0,
        _count(prompt.get("cache_write_tokens")) if isinstance(prompt, dict) else 0,
    )


def _timed(timings: dict[str, Any]) -> Usage:
    """Return the usage in llama.cpp's ``timings``."""
    cached = _count(timings.get("cache_n"))
    return Usage(_count(timings.get("prompt_n")) + cached, _count(timings.get("predicted_n")), cached)


def _integers(value: Any) -> array[int]:
    if not isinstance(value, list):
        return array("q")
    try:
        return token_ids(value)
    except ValueError as error:
        raise EndpointMalformed(INVALID_IDS) from error
