"""Finds JSON objects in what a model wrote around them, and repairs those that are nearly JSON.

Everything here is linear, or bounded, in the length of the text: it runs on the event loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

MAX_TEXT: Final = 16 * 1024
"""Characters that are searched: of a longer text its beginning and its end."""

MAX_TRIES: Final = 32
"""Opening braces that are tried."""

_FENCE: Final = re.compile(r"```[a-zA-Z]*\n?")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|$)'  # a string, possibly not closed
    r"|'(?:[^'\\]|\\.)*+(?:'|$)"  # a Python string
    r"|//[^\n]*|/\*.*?(?:\*/|$)"  # comments
    r"|[A-Za-z_][\w.-]*+",  # a bare word
    re.DOTALL,
)
_STRING: Final = r'"(?:[^"\\]|\\.)*+(?:"|$)'
_SURPLUS_COMMA: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)
_STRUCTURE: Final = re.compile(_STRING + r"|[{}\[\]]", re.DOTALL)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_QUOTES: Final = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
_DECODER: Final = json.JSONDecoder()
_LENIENT: Final = json.JSONDecoder(strict=False)
"""Takes line breaks and tabs inside a string as they are."""


def shorten(text: str) -> str:
    """``text``, or the beginning and the end of one that is too long to be searched."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"


def find_objects(text: str, decoder: json.JSONDecoder = _DECODER) -> Iterator[dict[str, Any]]:
    """The JSON objects in ``text``, in order, as far as they need no mending.

    Args:
        text: What a model wrote.
        decoder: Says what needs none; what is strict JSON when left out.

    >>> list(find_objects('I pull: {"shot": "pull"}. Or {"shot": "cut"}?'))
    [{'shot': 'pull'}, {'shot': 'cut'}]
    """
    position = 0
    for _ in range(MAX_TRIES):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            yield value


def find_mended(text: str) -> Iterator[dict[str, Any]]:
    """The objects in ``text`` once all from its first brace to its last has been mended.

    >>> list(find_mended("I pull: {shot: 'pull', aggression: 0.7,"))
    [{'shot': 'pull', 'aggression': 0.7}]
    """
    start, end = text.find("{"), text.rfind("}")
    if start >= 0:
        yield from find_objects(mend(text[start : end + 1] if end > start else text[start:]), _LENIENT)


def parse_object(text: str, *, mending: bool = True) -> dict[str, Any] | None:
    """The one JSON object that ``text`` is meant to be, mended if allowed; empty text means no members."""
    text = shorten(text)
    if not text.strip():
        return {}
    start = text.find("{")
    try:
        return _DECODER.raw_decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return next(find_mended(text), None) if mending else None


def mend(text: str) -> str:
    """``text`` with Python's spelling, comments, bare keys, surplus commas and missing closings put right."""
    text = _TOKEN.sub(_mend_token, _FENCE.sub("", text.translate(_QUOTES)))
    text += _missing_closings(text)
    return _SURPLUS_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)


def _mend_token(found: re.Match[str]) -> str:
    token = found[0]
    match token[0]:
        case '"':
            return token if len(token) > 1 and token.endswith('"') else f'{token}"'
        case "'":
            inner = token[1:].removesuffix("'").replace("\\'", "'").replace('"', '\\"')
            return f'"{inner}"'
        case "/":
            return ""
    if token in _WORDS:
        return _WORDS[token]
    return token if token in ("true", "false", "null") or _in_number(found) else f'"{token}"'


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
