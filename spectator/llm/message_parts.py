"""Join the parts of a streamed message: its tool calls, and the members that this library does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from spectator.llm.chat import ToolCall

Clean = Callable[[str], str]
"""Makes a text safe to keep: removes the key and what cannot be encoded."""

_GROWING: Final = frozenset({"reasoning_content", "reasoning", "text", "summary", "data", "thinking"})
"""Text members that are concatenated over chunks; others that repeat their value are kept once."""

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


class VerbatimParts:
    """Joins unknown message members from the chunks of a stream.

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
        """Add a chunk's member; empty values are ignored."""
        if isinstance(value, str) and value:
            texts = self._texts.setdefault(name, [])
            if name in _GROWING or texts != [value]:
                texts.append(value)
        elif value not in _EMPTY:
            self._others[name] = _merged(self._others.get(name), value)

    def whole(self, clean: Clean) -> dict[str, Any]:
        """Return the joined members, sorted by name."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        whole = {**self._others, **texts}
        return {name: cleaned(whole[name], clean) for name in sorted(whole)}


def _merged(old: Any, new: Any) -> Any:
    """Merge a member with the same member of a later chunk."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _merged_member(name, old.get(name), new.get(name)) for name in {**old, **new}}
    if isinstance(old, list) and isinstance(new, list):
        merged = list(old)
        for part in new:
            index = next((at for at in range(len(merged)) if _same_part(merged[at], part)), None)
            if index is None:
                merged.append(part)
            else:
                merged[index] = _merged(merged[index], part)
        return merged
    return old if new is None else new


def _merged_member(name: str, old: Any, new: Any) -> Any:
    if isinstance(old, str) and isinstance(new, str):
        return old + new if name in _GROWING or old != new else old
    return _merged(old, new)


def _same_part(old: Any, new: Any) -> bool:
    """Whether two list items have the same ``index`` and ``type``, and so are merged."""
    if not isinstance(old, dict) or not isinstance(new, dict) or "index" not in new:
        return False
    return old.get("index") == new["index"] and old.get("type") == new.get("type")


def cleaned(value: Any, clean: Clean) -> Any:
    """Return ``value`` with every text in it cleaned, including member names."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(part, clean) for part in value]
    if isinstance(value, Mapping):
        return {clean(str(name)): cleaned(member, clean) for name, member in value.items()}
    return value


MAX_TOOL_CALLS: Final = 64
"""Tool calls of one answer; further ones are ignored."""

MAX_NAME: Final = 256
"""Characters of a tool's name; a longer one is cut, and is legal nowhere."""

_FUNCTION_FIELDS: Final = frozenset({"name", "arguments"})
_CALL_FIELDS: Final = frozenset({"id", "index", "type", "function", *_FUNCTION_FIELDS})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class StreamedCalls:
    """Tool calls that are still being streamed.

    A piece belongs to the call with its index and its id, as far as it has them. Endpoints leave out indexes,
    give several calls the same one, or write it as text, so a new id or a further name begins a new call.
    """

    def __init__(self) -> None:
        self._calls: list[_CallParts] = []
        self._together: list[_CallParts | None] = []
        self._messages = 0

    def add(self, pieces: Sequence[dict[str, Any]], *, whole: bool) -> Iterator[str]:
        """Add the pieces of a message, and yield their texts; in a ``whole`` message, each is a call."""
        self._messages += 1
        calls = [self._call(place, piece, pieces, whole) for place, piece in enumerate(pieces)]
        if len(calls) > 1:
            self._together = calls
        for call, piece in zip(calls, pieces, strict=True):
            if call is not None and (written := call.add(piece)):
                yield written

    def whole(self, clean: Clean) -> tuple[ToolCall, ...]:
        """Return the complete calls: by index if each has its own, else in order of appearance."""
        calls = self._calls
        by_index = {call.index: call for call in calls if isinstance(call.index, int)}
        if len(by_index) == len(calls):
            calls = [by_index[index] for index in sorted(by_index)]
        return tuple(call.whole(clean) for call in calls)

    def _call(
        self, place: int, piece: dict[str, Any], pieces: Sequence[dict[str, Any]], whole: bool
    ) -> _CallParts | None:
        """Return the call that ``piece`` belongs to; ``None`` if there are too many."""
        index, call_id, name = _index(piece.get("index")), _text(piece.get("id")), _name(piece)
        if index is None and not call_id and not name and 1 < len(pieces) == len(self._together):
            return self._together[place]
        near = [] if whole else [call for call in self._calls if index in (None, call.index)]
        call = near[-1] if near else None
        if call_id:
            call = next((one for one in near if one.id == call_id), call)
        if call is not None and not call.is_another(self._messages, call_id, name):
            call.message = self._messages
            return call
        if len(self._calls) >= MAX_TOOL_CALLS:
            return None
        self._calls.append(_CallParts(index, call_id, self._messages))
        return self._calls[-1]


class _CallParts:
    """A tool call that is still being streamed."""

    def __init__(self, index: int | str | None, call_id: str, message: int) -> None:
        self.index = index
        self.id = call_id
        self.message = message
        self._name = ""
        self._arguments: list[str] = []
        self._tests = 0
        self._verbatim: VerbatimParts | None = None

    def is_another(self, message: int, call_id: str, name: str) -> bool:
        """Whether a piece of this message, with this id and name, begins another call than this one."""
        if not name:
            return False
        if call_id and self.id:
            return call_id != self.id
        if message == self.message:
            return True
        return bool(self._arguments) and (name != self._name or self._is_complete())

    def add(self, call: dict[str, Any]) -> str:
        """Add a piece; return its text."""
        self.id = self.id or _text(call.get("id"))
        if not _CALL_FIELDS.issuperset(call):
            self._keep({name: call[name] for name in call.keys() - _CALL_FIELDS})
        function = _function(call)
        if function is not call and not _FUNCTION_FIELDS.issuperset(function):
            self._keep({"function": {name: function[name] for name in function.keys() - _FUNCTION_FIELDS}})
        name = self._add_name(_text(function.get("name")))
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
        if arguments:
            self._arguments.append(arguments)
        return f"{name} {arguments or ''}" if name else arguments or ""

    def _is_complete(self) -> bool:
        """Whether the arguments so far are JSON; not tested often, since each test reads all of them."""
        self._tests += 1
        try:
            return self._tests <= MAX_TOOL_CALLS and orjson.loads("".join(self._arguments)) is not None
        except orjson.JSONDecodeError:
            return False

    def _add_name(self, name: str) -> str:
        """Add a part of the name, unless it repeats the name; return what is new."""
        known = self._name
        if not name or self._arguments or len(known) > MAX_NAME or name == known:
            return ""
        self._name = name if name.startswith(known) else known + name
        return self._name[len(known) :]

    def whole(self, clean: Clean) -> ToolCall:
        """Return the complete call."""
        verbatim = {} if self._verbatim is None else self._verbatim.whole(clean)
        return ToolCall(clean(self.id), clean(self._name), clean("".join(self._arguments)), verbatim)

    def _keep(self, members: dict[str, Any]) -> None:
        if self._verbatim is None:
            self._verbatim = VerbatimParts()
        for name, value in members.items():
            self._verbatim.add(name, value)


def _function(call: dict[str, Any]) -> dict[str, Any]:
    """Return the function of a call; some endpoints write its members beside the id."""
    function = call.get("function")
    return function if isinstance(function, dict) else call


def _name(call: dict[str, Any]) -> str:
    return _text(_function(call).get("name"))


def _index(value: Any) -> int | str | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[0-9]{1,9}", value, re.ASCII) else value or None
    return value if isinstance(value, int) else None
