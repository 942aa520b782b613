"""Assemble a model's answer from streamed chunks or from one whole completion.

Endpoints are not trusted: a field of the wrong type is skipped. Unknown members of a message (thoughts,
their signatures, content blocks) are kept, because providers expect them back exactly as they came.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import error as StructError
from struct import pack
from typing import Any, Final, Literal

import orjson

from spectator.errors import EndpointError, EndpointMalformed
from spectator.llm.chat import ChatAnswer, DeltaKind, OnDelta, ToolCall, Usage
from spectator.llm.endpoints import MASK, ApiKey, cleaner
from spectator.llm.retry import error_within

Kind = Literal["thought", "text"]

_NAMES: Final = ("think", "thinking", "thought", "reasoning")
_OPENING: Final = re.compile(rf"<(?:{'|'.join(_NAMES)})>")
_CLOSING: Final = re.compile(rf"</(?:{'|'.join(_NAMES)})>")
_MARK: Final = re.compile(rf"</?(?:{'|'.join(_NAMES)})>")
_ALL: Final = tuple(f"{start}{name}>" for name in _NAMES for start in ("<", "</"))
_LONGEST: Final = max(map(len, _ALL))


class ThoughtSplitter:
    """Splits a text that arrives in pieces; a mark may be cut anywhere.

    A closing mark without an opening one (many templates write the opening themselves) makes thoughts of
    all that came before it; that is known only at the end, see :func:`split_thought`.
    """

    def __init__(self) -> None:
        self._kind: Kind = "text"
        self._held = ""

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """Parts of the text that are certain after ``piece``, in order."""
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
        cut = _start_of_mark(text)
        self._held = text[cut:]
        if cut:
            yield self._kind, text[:cut]

    def end(self) -> Iterator[tuple[Kind, str]]:
        """What was held back, once nothing more comes."""
        if self._held:
            yield self._kind, self._held
        self._held = ""


def _start_of_mark(text: str) -> int:
    """Where a mark may begin that is not yet complete; the length of ``text`` when there is none."""
    start = text.rfind("<", max(0, len(text) - _LONGEST))
    return start if start >= 0 and any(mark.startswith(text[start:]) for mark in _ALL) else len(text)


def split_thought(text: str) -> tuple[str, str]:
    """The thoughts and the answer in a complete ``text``; a thought that never closes is all thought.

    >>> split_thought("<think>Short ball: pull.</think>Pull it.")
    ('Short ball: pull.', 'Pull it.')
    """
    if "<" not in text:
        return "", text.strip()
    thoughts: list[str] = []
    answer: list[str] = []
    thinking, start = False, 0
    for mark in _MARK.finditer(text):
        opens = not mark[0].startswith("</")
        if opens and thinking:
            continue
        (thoughts if thinking else answer).append(text[start : mark.start()])
        if not opens and not thinking:
            thoughts += answer
            answer.clear()
        thinking, start = opens, mark.end()
    (thoughts if thinking else answer).append(text[start:])
    stripped = filter(None, (thought.strip() for thought in thoughts))
    return "\n\n".join(stripped), "".join(answer).strip()


def token_ids(values: Sequence[Any]) -> array[int]:
    """An array of ``values``; in half the time of ``array`` where they are many.

    >>> token_ids([7, 2**40])
    array('q', [7, 1099511627776])

    Raises:
        ValueError: One is no whole number of 0 .. 2**63 - 1.
    """
    try:
        packed = pack(f"<{len(values)}q", *values)
    except StructError as error:
        raise ValueError("an id of a token is no whole number of at most 63 bits") from error
    if not packed[7::8].isascii():  # their signs
        raise ValueError("an id of a token is below 0")
    ids = array("q", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


Clean = Callable[[str], str]
"""Makes a text fit to be kept: without the key, encodable."""

_GROWING: Final = frozenset({"reasoning_content", "reasoning", "text", "summary", "data", "thinking"})
"""Texts of which each chunk of a stream has a part, even if it is the same part again."""

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


class VerbatimParts:
    """Puts such members together from the chunks of a stream; a whole message is one chunk.

    >>> parts = VerbatimParts()
    >>> for text, signature in (("Short ", None), ("ball.", "c2ln")):
    ...     parts.add("reasoning_details", [{"index": 0, "text": text, "signature": signature}])
    >>> parts.whole(str)
    {'reasoning_details': [{'index': 0, 'text': 'Short ball.', 'signature': 'c2ln'}]}
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._others: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Take in a member; what is empty says nothing."""
        if isinstance(value, str) and value:
            texts = self._texts.setdefault(name, [])
            if name in _GROWING or texts != [value]:
                texts.append(value)
        elif value not in _EMPTY:
            self._others[name] = _grown(self._others.get(name), value)

    def whole(self, clean: Clean) -> dict[str, Any]:
        """The members, in the order of their names."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        whole = {**self._others, **texts}
        return {name: cleaned(whole[name], clean) for name in sorted(whole)}


def _grown(held: Any, more: Any) -> Any:
    """``held`` with the same member of a later chunk."""
    if isinstance(held, dict) and isinstance(more, dict):
        return {name: _member(name, held.get(name), more.get(name)) for name in {**held, **more}}
    if isinstance(held, list) and isinstance(more, list):
        grown = list(held)
        for part in more:
            place = next((at for at in range(len(grown)) if _same_part(grown[at], part)), None)
            if place is None:
                grown.append(part)
            else:
                grown[place] = _grown(grown[place], part)
        return grown
    return held if more is None else more


def _member(name: str, held: Any, more: Any) -> Any:
    if isinstance(held, str) and isinstance(more, str):
        return held + more if name in _GROWING or held != more else held
    return _grown(held, more)


def _same_part(held: Any, part: Any) -> bool:
    """Whether two parts of lists are of one thing that grows, by their own account."""
    if not isinstance(held, dict) or not isinstance(part, dict) or "index" not in part:
        return False
    return held.get("index") == part["index"] and held.get("type") == part.get("type")


def cleaned(value: Any, clean: Clean) -> Any:
    """``value`` with every text in it cleaned, names too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(part, clean) for part in value]
    if isinstance(value, Mapping):
        return {clean(str(name)): cleaned(member, clean) for name, member in value.items()}
    return value


MAX_TOOL_CALLS: Final = 64
"""Calls of one answer that are looked at."""

MAX_DELTA: Final = 2_048
"""Characters beyond which what came together is told in parts."""

TOLD_OF_KEY: Final = 8
"""Characters that end a text like the key begins and are told all the same: a word may, too."""

NO_IDS: Final = "the endpoint's token ids are no whole numbers of at least 0"
"""Said where an answer holds such."""

_VERSION_FIELDS: Final = frozenset({"metadata", "sglext", "weight_version"})
_KNOWN: Final = frozenset(
    {"id", "object", "created", "model", "choices", "system_fingerprint", "service_tier", "provider"}
)
"""Members of a chunk that say nothing new once the model is known."""

_TOKEN_FIELDS: Final = frozenset({"token_ids", "logprobs", "meta_info"})
_GROWS: Final = frozenset({"role", "content", "reasoning_content"})
"""Members of a message that nearly every chunk is made of."""

THOUGHT: Final = "thought"
"""Member of a message that holds thoughts which are not to be sent back."""

_OF_MESSAGE: Final = frozenset({"role", "content", "refusal", "tool_calls", THOUGHT})
_OF_CALL: Final = frozenset({"id", "index", "type", "function"})
_OF_FUNCTION: Final = frozenset({"name", "arguments"})


class Assembly:
    """Puts an answer together from its pieces; a whole answer is one piece.

    Args:
        key: Masked wherever the endpoint repeats it.
        on_delta: Hears what grows.
    """

    def __init__(self, key: ApiKey | None = None, on_delta: OnDelta | None = None) -> None:
        self._key = key
        self._clean = cleaner(key)
        self._on_delta = on_delta
        self._splitter = None if on_delta is None else ThoughtSplitter()
        self._text: list[str] = []
        self._thought: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _CallParts] = {}
        self._verbatim: VerbatimParts | None = None
        self._usage: Usage | None = None
        self._model: str | None = None
        self._version: str | None = None
        self._runs: list[tuple[str | None, int]] = []
        self._tokens: _Tokens | None = None
        self._grown: list[str] = []
        self._grown_kind: DeltaKind = "text"
        self._grown_size = 0
        self.finish_reason: str | None = None
        self.begun = False

    def feed(self, piece: Any) -> None:
        """Add a decoded completion, or a chunk of one; see :meth:`feed_all`."""
        self.feed_all((piece,))

    def feed_all(self, pieces: Iterable[Any]) -> None:
        """Add what came together: decoded completions, or chunks of one. What grew by it is told at once.

        Raises:
            EndpointError: A piece reports an error instead, or is no completion at all.
        """
        try:
            for piece in pieces:
                if not isinstance(piece, dict):
                    raise EndpointMalformed("the endpoint answered something that is not a completion")
                if not _KNOWN.issuperset(piece) or (self._model is None and "model" in piece):
                    self._about(piece)
                choices = piece.get("choices")
                if isinstance(choices, list) and choices and isinstance(choices[0], dict):
                    self.begun = True
                    self._choice(choices[0])
        finally:
            self._flush()

    def answer(self, *, latency_s: float, first_token_s: float | None, attempts: int) -> ChatAnswer:
        """The whole answer.

        Raises:
            EndpointMalformed: There was never a choice in it.
        """
        if not self.begun:
            raise EndpointMalformed("the endpoint's answer holds no completion")
        if self._splitter is not None:
            for kind, part in self._splitter.end():
                self._grow(kind, part)
            self._flush(whole=True)
        inline, text = split_thought("".join(self._text))
        apart, refusal = "".join(self._thought).strip(), "".join(self._refusal).strip()
        calls = [call.whole(self._clean) for _, call in sorted(self._calls.items())] if self._calls else ()
        logprobs, token_ids, prompt = (None, None, None) if self._tokens is None else self._tokens.whole()
        return ChatAnswer(
            text=self._clean(text),
            thought=self._clean(f"{apart}\n\n{inline}" if apart and inline else apart or inline),
            tool_calls=tuple(calls),
            refusal=self._clean(refusal) or None if refusal else None,
            verbatim={} if self._verbatim is None else self._verbatim.whole(self._clean),
            finish_reason=self.finish_reason,
            model=self._model,
            weight_version=self._version,
            weight_versions=self._runs_of_versions(),
            usage=self._usage,
            logprobs=logprobs,
            token_ids=token_ids,
            prompt_token_ids=prompt,
            latency_s=latency_s,
            first_token_s=first_token_s,
            attempts=attempts,
        )

    def _about(self, piece: dict[str, Any]) -> None:
        if piece.get("error"):
            raise _reported(piece["error"])
        if self._model is None:
            self._model = self._clean(_text(piece.get("model"))) or None
        if isinstance(usage := piece.get("usage"), dict):
            self._usage = _usage(usage)
        if not _VERSION_FIELDS.isdisjoint(piece):
            for holder in (piece.get("metadata"), piece.get("sglext"), piece):
                self._weights(holder)
        if "prompt_token_ids" in piece:
            tokens = self._taken()
            tokens.prompt = _integers(piece["prompt_token_ids"]) or tokens.prompt

    def _weights(self, holder: Any) -> None:
        if isinstance(holder, dict) and isinstance(holder.get("weight_version"), str | int):
            self._version = self._clean(str(holder["weight_version"]))

    def _note_version(self, tokens: int) -> None:
        """Note that the weights of now made so many tokens."""
        if tokens and self._runs and self._runs[-1][0] == self._version:
            tokens += self._runs.pop()[1]
        if tokens:
            self._runs.append((self._version, tokens))

    def _runs_of_versions(self) -> Sequence[tuple[str, int]]:
        """Versions with how many tokens each made; those before the first that is known count to it."""
        unknown = self._runs[0][1] if self._runs and self._runs[0][0] is None else 0
        runs = [(version, tokens) for version, tokens in self._runs if version is not None]
        if unknown and runs:
            runs[0] = (runs[0][0], runs[0][1] + unknown)
        return tuple(runs) if runs or self._version is None else ((self._version, unknown),)

    def _taken(self) -> _Tokens:
        if self._tokens is None:
            self._tokens = _Tokens()
        return self._tokens

    def _choice(self, choice: dict[str, Any]) -> None:
        message = choice.get("delta") or choice.get("message")
        if isinstance(message, dict):
            self._message(message)
        if reason := choice.get("finish_reason"):
            self.finish_reason = self._clean(_text(reason)) or self.finish_reason
        if not _TOKEN_FIELDS.isdisjoint(choice):
            self._weights(choice.get("meta_info"))
            tokens = self._taken()
            before = tokens.count
            tokens.add(choice)
            self._note_version(tokens.count - before)

    def _message(self, message: dict[str, Any]) -> None:
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
        if _GROWS.issuperset(message):
            if thought:
                self._keep("reasoning_content", thought)
            return
        for name in message.keys() - _OF_MESSAGE:
            self._keep(name, message[name])
        if "refusal" in message and (refusal := _text(message["refusal"])):
            self._refusal.append(refusal)
            self._grow("text", refusal)
        if "tool_calls" in message and isinstance(calls := message["tool_calls"], list):
            for place, call in enumerate(calls):
                if isinstance(call, dict):
                    self._call(place, call)

    def _keep(self, name: str, value: Any) -> None:
        if self._verbatim is None:
            self._verbatim = VerbatimParts()
        self._verbatim.add(name, value)

    def _call(self, place: int, call: dict[str, Any]) -> None:
        index = call.get("index")
        index = index if isinstance(index, int) else place
        if index not in self._calls and len(self._calls) >= MAX_TOOL_CALLS:
            return
        parts = self._calls.setdefault(index, _CallParts())
        if written := parts.add(call):
            self._grow("tool", written)

    def _grow(self, kind: DeltaKind, text: str) -> None:
        if self._on_delta is None:
            return
        self._grown_size += len(text)
        if kind != self._grown_kind or self._grown_size > MAX_DELTA:
            self._flush(whole=kind != self._grown_kind)
            self._grown_kind, self._grown_size = kind, len(text)
        self._grown.append(text)

    def _flush(self, *, whole: bool = False) -> None:
        """Tell what grew; unless that is all, what may be the beginning of the key waits for the rest."""
        if self._grown and self._on_delta is not None:
            grown, self._grown = self._clean("".join(self._grown)), []
            begun = 0 if self._key is None else self._key.opened_run(grown)
            if begun:
                held = grown[-begun:]
                grown = grown[:-begun]
                if not whole:
                    self._grown = [held]
                else:
                    grown += held if begun < TOLD_OF_KEY else MASK
            if grown:
                self._on_delta(self._grown_kind, grown)
        self._grown_size = 0


class _CallParts:
    """A tool call that grows."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._arguments: list[str] = []
        self._verbatim: VerbatimParts | None = None

    def add(self, call: dict[str, Any]) -> str:
        """Add a piece; returns what it wrote."""
        self._id = self._id or _text(call.get("id"))
        function = call.get("function")
        if not _OF_CALL.issuperset(call):
            self._keep({name: call[name] for name in call.keys() - _OF_CALL})
        if not isinstance(function, dict):
            return ""
        if not _OF_FUNCTION.issuperset(function):
            self._keep({"function": {name: function[name] for name in function.keys() - _OF_FUNCTION}})
        name = "" if self._name else _text(function.get("name"))
        self._name = self._name or name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = orjson.dumps(arguments).decode()
        self._arguments.append(_text(arguments))
        return f"{name} {_text(arguments)}" if name else _text(arguments)

    def whole(self, clean: Clean) -> ToolCall:
        """The call."""
        beside = {} if self._verbatim is None else self._verbatim.whole(clean)
        return ToolCall(clean(self._id), clean(self._name), clean("".join(self._arguments)), beside)

    def _keep(self, members: dict[str, Any]) -> None:
        if self._verbatim is None:
            self._verbatim = VerbatimParts()
        for name, value in members.items():
            self._verbatim.add(name, value)


class _Tokens:
    """Token ids and log probabilities, straight into arrays."""

    def __init__(self) -> None:
        self.logprobs: array[float] = array("d")
        self.ids: array[int] = array("q")
        self.prompt: array[int] = array("q")

    @property
    def count(self) -> int:
        """Tokens of the answer so far."""
        return len(self.ids) or len(self.logprobs)

    def whole(self) -> tuple[array[float] | None, array[int] | None, array[int] | None]:
        """Log probabilities and ids of the answer, and ids of the prompt, as far as there are any."""
        return self.logprobs or None, self.ids or None, self.prompt or None

    def add(self, choice: dict[str, Any]) -> None:
        """Take what a choice holds, in the form of OpenAI, vLLM or SGLang."""
        if "token_ids" in choice:
            self.ids.extend(_integers(choice["token_ids"]))
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            try:
                self.logprobs.fromlist([token["logprob"] for token in content])
            except (KeyError, TypeError) as error:
                raise EndpointMalformed("the endpoint's log probabilities are not numbers") from error
        meta = choice.get("meta_info")
        if isinstance(meta, dict) and isinstance(rows := meta.get("output_token_logprobs"), list):
            self._sglang(rows)
        if isinstance(meta, dict) and not self.prompt:
            self.prompt = _integers(meta.get("prompt_token_ids"))

    def _sglang(self, rows: list[Any]) -> None:
        try:
            logprobs = [row[0] for row in rows]
            ids = [row[1] for row in rows]
            if not self.logprobs:
                self.logprobs.fromlist(logprobs)
            if not self.ids:
                self.ids = token_ids(ids)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EndpointMalformed(NO_IDS) from error


def _reported(error: Any) -> EndpointError:
    """The error that an endpoint reports in a body whose status was 200."""
    code = error.get("code") or error.get("status") if isinstance(error, dict) else None
    status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[345][0-9]{2}", str(code)) else 500
    return error_within(status, error)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(value: Any) -> str:
    """Text of a content that is a string or, as some endpoints have it, a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))


def _thinking_parts(content: Any) -> str:
    if not isinstance(content, list):
        return ""
    parts = [part.get("thinking") for part in content if isinstance(part, dict)]
    return "".join(_content(part) for part in parts)


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


def _integers(value: Any) -> array[int]:
    if not isinstance(value, list):
        return array("q")
    try:
        return token_ids(value)
    except ValueError as error:
        raise EndpointMalformed(NO_IDS) from error
