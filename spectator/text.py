"""Clean untrusted text, and compare texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

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
    """Remove control, bidirectional and unencodable characters; cut to ``limit`` characters.

    >>> clean_text("\\x1b[31mred\\x1b[0m alert", 8)
    '[31mred…'
    """
    cleaned = text if text.isascii() and text.isprintable() else _UNWANTED.sub("", text)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def encodable(text: str) -> str:
    """Replace each lone surrogate, which has no UTF-8 encoding, with a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def common_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return the length of the common prefix of two sequences of one type.

    Compares slices, so that long sequences cost little; ``O(n)`` if one is a prefix of the other.

    Example:
        >>> common_length("over 3, ball 2", "over 3, ball 4")
        13
    """
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


LOOKS: Final = 12
"""Looks of an emblem; their classes are in card.css, and ui/emblem.js draws the same."""

SPREAD: Final = 364
"""Gives the built-in captains of one league different looks."""


def emblem(label: str) -> tuple[str, int]:
    """Return the letters and the look of a captain's emblem, from its name for people.

    >>> emblem("Old Pro"), emblem("Asha (trained here)"), emblem("Miser")
    (('OP', 0), ('A', 11), ('M', 6))
    """
    words = [word for word in label.split("(")[0].split() if word[0].isalnum()]
    look = sum(place * ord(letter) for place, letter in enumerate(label, 1)) % SPREAD % LOOKS
    return "".join(word[0].upper() for word in words[:2]) or "?", look
