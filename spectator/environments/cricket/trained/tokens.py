"""The tokens of the trained captain: words with the space before them, whole numbers, slots of players."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

UNKNOWN: Final = "<?>"
NOTHING: Final = "~"
"""The token of a part that is left as usual; it is not shown."""

_SPLIT: Final = re.compile(
    r"[;,] [A-Za-z][A-Za-z'-]*\d*|\n| ?[A-Za-z][A-Za-z'-]*\d*| ?[+-]?\d+(?:\.\d)?|[\s\S]"
)
_NUMBERS: Final = range(-99, 400)


class Tokenizer:
    """Turns text into ids and back.

    Args:
        words: The vocabulary; the place of a word is its id.

    >>> tokenizer = Tokenizer(["<?>", "They", " need", " 12", "."])
    >>> tokenizer.encode("They need 12."), tokenizer.decode([1, 2, 3, 4])
    ([1, 2, 3, 4], 'They need 12.')
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words)}

    def learn(self, words: Iterable[str]) -> None:
        """Take in further words."""
        new = [word for word in dict.fromkeys(words) if word not in self._ids]
        self._ids |= {word: len(self.words) + number for number, word in enumerate(new)}
        self.words += tuple(new)

    def encode(self, text: str) -> list[int]:
        """The ids of a text; what is not in the vocabulary becomes :data:`UNKNOWN`."""
        return [self._ids.get(word, 0) for word in words_of(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return "".join(self.words[number] for number in ids)


def words_of(text: str) -> list[str]:
    """The tokens of a text as text."""
    return _SPLIT.findall(text)


def vocabulary(texts: Iterable[str]) -> list[str]:
    """All tokens of ``texts``, all numbers and all slots, in a fixed order."""
    slots = [f"{side}{place}" for side in "bf" for place in range(1, 12)]
    always = [UNKNOWN, NOTHING, "\n", ">", ".", ":"]
    always += [f" {number}" for number in _NUMBERS]
    always += [f"{before}{slot}" for before in (" ", "; ") for slot in slots]
    found = {word for text in texts for word in words_of(text)}
    return list(dict.fromkeys([*always, *sorted(found)]))
