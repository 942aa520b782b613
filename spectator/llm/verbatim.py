"""Members of a model's message that nobody here knows, kept to be sent back exactly as they came.

Providers put what they want to see again there: thoughts, their signatures, whole content blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
