"""A handler that chooses an experience by what the prompt is about: diagonal LinUCB on hashed words."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from spectator.rollouts.handlers.base import Message
from spectator.rollouts.handlers.experience import Experience, Tally
from spectator.rollouts.handlers.ucb import ExperienceHandler

DIMENSIONS: Final = 64
"""Length of a hashed text."""

LEXICAL_PRIOR: Final = 0.35
"""Weight of the likeness of words between prompt and experience, before anything was learned."""

EXPLORATION: Final = 1.0
"""Weight of the uncertainty (alpha of LinUCB; Li et al. 2010)."""

WORD: Final = re.compile(r"[a-z0-9]+")


def hashed_text(text: str) -> list[float]:
    """Words of ``text`` hashed into :data:`DIMENSIONS` signed counts, scaled to length 1 (all 0 if empty).

    Example:
        >>> vector = hashed_text("bowl full at the stumps")
        >>> len(vector), round(sum(x * x for x in vector), 6)
        (64, 1.0)
        >>> hashed_text("Bowl FULL at the stumps!") == vector
        True
    """
    counts = [0.0] * DIMENSIONS
    for word in WORD.findall(text.lower()):
        place = zlib.crc32(word.encode())
        counts[place % DIMENSIONS] += 1.0 if place & 0x80000000 else -1.0
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts] if length else counts


class ContextualUcbHandler(ExperienceHandler):
    """Adds the experience with the highest upper confidence bound for this very prompt."""

    def features(self, messages: Sequence[Message]) -> Sequence[float]:
        """The text of the prompt, hashed."""
        texts = (message.get("content") for message in messages)
        return hashed_text(" ".join(text for text in texts if isinstance(text, str)))

    def value(self, experience: Experience, known: Mapping[str, Tally], features: Sequence[float]) -> float:
        """Predicted reward, its uncertainty, and how alike the words of prompt and experience are."""
        tally = known[experience.id]
        weights = tally.weights or [0.0] * len(features)
        precision = tally.precision or [1.0] * len(features)
        predicted = sum(w * x for w, x in zip(weights, features, strict=True))
        variance = sum(x * x / p for x, p in zip(features, precision, strict=True))
        likeness = sum(a * b for a, b in zip(hashed_text(experience.text), features, strict=True))
        return predicted + EXPLORATION * math.sqrt(variance) + LEXICAL_PRIOR * likeness
