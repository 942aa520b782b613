"""Read the JSON objects that a model wrote: as they are, else with the usual slips repaired.

The work is linear in the length of the text, or bounded, because this runs on the event loop.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

MAX_OBJECT: Final = 64 * 1024
"""Characters of a text in which objects are read."""

MAX_REPAIRED: Final = 32 * 1024
"""Characters of a text that are repaired, over all its objects."""

MAX_TRIES: Final = 32
"""Objects of a text that may fail to parse; more make the whole text unreadable."""

_STRING: Final = (
    r'"(?:[^"\\]|\\.)*+(?:"|\Z)'  # any of these may be unclosed
    r"|'(?:[^'\\]|\\.)*+(?:'|\Z)"
    r'|[\u201c\u201d](?:[^\u201c\u201d"\\]|\\.)*+(?:[\u201c\u201d"]|\Z)'
    r"|\u2018(?:[^\u2019'\\]|\\.)*+(?:[\u2019']|\Z)"
    r'|<\|"\|>.*?(?:<\|"\|>|\Z)|<escape>.*?(?:<escape>|\Z)'  # Gemma
)
_COMMENT: Final = r"//[^\n]*+|/\*.*?(?:\*/|\Z)"
_TOKEN: Final = re.compile(rf"{_STRING}|{_COMMENT}|[A-Za-z_][\w.-]*+", re.DOTALL)
_STRUCTURE: Final = re.compile(rf"{_STRING}|{_COMMENT}|[{{}}\[\]()]|</tool_(?:call|use)>", re.DOTALL)
_SURPLUS_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|.)|"', re.DOTALL)
_KEYWORD: Final = re.compile(rf"{_STRING}|{_COMMENT}|([A-Za-z_]\w*)\s*+=(?!=)", re.DOTALL)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "undefined": "null"}


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        raise ValueError("an object has two members of one name")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)
_LENIENT: Final = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
"""Accepts line breaks and tabs inside strings."""


class ObjectReader:
    """Reads objects of one text, within bounds for the whole text.

    Args:
        text: What the model wrote.

    >>> ObjectReader("I pull: {shot: 'pull', aggression: 0.7,").read(8, unclosed=True)
    ({'shot': 'pull', 'aggression': 0.7}, 39)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.exhausted = len(text) > MAX_OBJECT
        """Whether reading stopped at a bound, so that the rest of the text is unknown."""
        self._tries = MAX_TRIES
        self._room = MAX_REPAIRED

    def read(self, start: int, *, unclosed: bool = False) -> tuple[dict[str, Any] | None, int]:
        """Read the object whose brace is at ``start``.

        Args:
            start: Position of the brace.
            unclosed: Add closing brackets that are missing at the end of the text or before a closing mark.

        Returns:
            The object, ``None`` if it cannot be read, and its end.
        """
        if not self.exhausted:
            try:
                return _DECODER.raw_decode(self.text, start)
            except (ValueError, RecursionError):
                self._tries -= 1
                self.exhausted = self._tries < 0
        end, closed = self.end_of(start)
        if not closed and not (unclosed and self.text[end : end + 2] in ("", "</")):
            return None, end
        return _decoded(repair(self.text[start:end])), end

    def read_keywords(self, start: int) -> tuple[dict[str, Any] | None, int]:
        """Read Python's keyword arguments, whose opening parenthesis is at ``start``; see :meth:`read`."""
        end, closed = self.end_of(start)
        if not closed:
            return None, end
        inner = _KEYWORD.sub(_repair_keyword, self.text[start + 1 : end - 1])
        return _decoded(repair(f"{{{inner}}}")), end

    def end_of(self, start: int) -> tuple[int, bool]:
        """Return where the bracket at ``start`` ends, and whether it is closed."""
        depth, text = 0, self.text
        limit = min(len(text), start + self._room)
        if limit < len(text):
            text = text[:limit]
        for token in _STRUCTURE.finditer(text, start):
            if token[0] in "{[(":
                depth += 1
            elif token[0] in "}])":
                depth -= 1
                if depth == 0:
                    self._room -= token.end() - start
                    return token.end(), True
            elif token[0][:2] == "</":
                limit = token.start()
                break
        self._room -= limit - start
        self.exhausted = self.exhausted or (limit < len(self.text) and self._room <= 0)
        return limit, False


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        value, end = _LENIENT.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not text[end:].strip() else None


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse ``text`` as one JSON object, also if it is encoded twice; empty text gives ``{}``.

    >>> parse_object('{"n": 1'), parse_object('"{\\\\"n\\\\": 1}"'), parse_object('{"n": 1}{"n": 2}')
    ({'n': 1}, {'n': 1}, None)
    """
    text = text.strip() if len(text) <= MAX_OBJECT else "too long"
    if text[:1] == '"':
        try:
            inner = json.loads(text)
        except ValueError:
            return None
        return parse_object(inner)
    start = text.find("{")
    if start < 0:
        return None if text else {}
    value, end = ObjectReader(text).read(start, unclosed=True)
    return None if "{" in text[end:] else value


def repair(text: str) -> str:
    """Fix Python literals, comments, quotes, bare keys, surplus commas and missing brackets.

    An unclosed string is not closed: half a text is another text.
    """
    text = _TOKEN.sub(_repair_token, text)
    text += _missing_closings(text)
    return _SURPLUS_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)


def _repair_token(found: re.Match[str]) -> str:
    token = found[0]
    first = token[0]
    if first == "/":
        return " "
    if first == "<":
        mark = token[: token.index(">") + 1]
        closed = len(token) >= 2 * len(mark) and token.endswith(mark)
        return json.dumps(token[len(mark) : -len(mark)]) if closed else token
    if first in "\"'\u201c\u201d\u2018":
        if found.end() == len(found.string) and not _is_closed(token):
            return token
        return f'"{_ESCAPE.sub(_repair_escape, token[1:-1])}"'
    if token in _WORDS:
        return _WORDS[token]
    return token if token in ("true", "false", "null") or _in_number(found) else f'"{token}"'


def _is_closed(string: str) -> bool:
    """Whether the last character of a string is a quote, and not an escaped one."""
    inner = string[1:-1]
    backslashes = len(inner) - len(inner.rstrip("\\"))
    return len(string) > 1 and string[-1] in "\"'\u201c\u201d\u2019" and backslashes % 2 == 0


def _repair_escape(found: re.Match[str]) -> str:
    """Return an escape of Python as one of JSON."""
    if found[0] == '"':
        return '\\"'
    if code := found[1] or found[2]:
        number = int(code, 16)
        return json.dumps(chr(number))[1:-1] if number < 0x110000 else found[0]
    return "'" if found[0] == "\\'" else found[0]


def _repair_keyword(found: re.Match[str]) -> str:
    return f'"{found[1]}":' if found[1] else found[0]


def _in_number(found: re.Match[str]) -> bool:
    """Whether the word is the exponent of a number, as in ``1e5``."""
    before = found.string[found.start() - 1 : found.start()]
    return before.isdigit() and found[0][0] in "eE"


def _missing_closings(text: str) -> str:
    closings: list[str] = []
    for token in _STRUCTURE.finditer(text):
        match token[0]:
            case "{":
                closings.append("}")
            case "[":
                closings.append("]")
            case "}" | "]":
                if closings:
                    closings.pop()
    return "".join(reversed(closings[:MAX_TRIES]))
