"""Cleans text that a model or a stranger wrote, before it is recorded."""

from __future__ import annotations

import re
from typing import Final

_UNWANTED: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, terminal escapes among them; tab and newline stay
    "\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c"  # bidirectional controls
    "\ud800-\udfff"  # lone surrogates, which have no UTF-8
    "\u2028\u2029"  # line and paragraph separators, at which some readers end a line
    "\ufeff\ufffe\uffff"
    "]"
)


def clean_text(text: str, limit: int) -> str:
    """``text`` without control, bidirectional and unencodable characters, cut to ``limit`` characters.

    >>> clean_text("\\x1b[31mred\\x1b[0m alert", 8)
    '[31mred…'
    """
    cleaned = text if text.isascii() and text.isprintable() else _UNWANTED.sub("", text)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def encodable(text: str) -> str:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
