"""Splits a model's thoughts from its answer where ``<think>`` tags mark them in one text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

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
