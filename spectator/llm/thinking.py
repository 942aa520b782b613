"""Owns telling a model's thoughts from its answer where both come as one text with ``<think>`` marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

Kind = Literal["thought", "text"]

_MARKS: Final = ("think", "thinking", "thought", "reasoning")
_OPENING: Final = re.compile(rf"<(?:{'|'.join(_MARKS)})>")
_CLOSING: Final = re.compile(rf"</(?:{'|'.join(_MARKS)})>")
_LONGEST: Final = max(map(len, _MARKS)) + len("</>")


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
    return start if start >= 0 and ">" not in text[start:] else len(text)


def split_thought(text: str) -> tuple[str, str]:
    """The thoughts and the answer in a complete ``text``; a thought that never closes is all thought."""
    closing = _CLOSING.search(text)
    opening = _OPENING.search(text)
    if closing is not None and (opening is None or closing.start() < opening.start()):
        thought, rest = text[: closing.start()], text[closing.end() :]
        more, answer = split_thought(rest)
        return _join(thought, more), answer
    if opening is None:
        return "", text.strip()
    parts: dict[Kind, list[str]] = {"thought": [], "text": []}
    splitter = ThoughtSplitter()
    for kind, part in (*splitter.feed(text), *splitter.end()):
        parts[kind].append(part)
    return _join(*parts["thought"]), "".join(parts["text"]).strip()


def _join(*parts: str) -> str:
    return "\n\n".join(stripped for part in parts if (stripped := part.strip()))
