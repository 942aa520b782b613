"""The voice contract: text goes in, a whole clip comes out, or the reason why none does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from spectator.text import clean_text

MAX_SPOKEN: Final = 300
"""Longest text that a voice is given, in characters."""

SUFFIXES: Final = {"audio/mpeg": "mp3", "audio/wav": "wav"}
"""Kinds of clips, and how their files end."""

_MARKUP: Final = re.compile(r"[\[\]<>{}\\|\x00-\x1f]+")
_SPACES: Final = re.compile(r"\s+")

Speaker = Literal["lead", "analyst"]
"""Who speaks: the commentator who tells what happens, or the second one, who answers what it means."""

LEAD: Final[Speaker] = "lead"
ANALYST: Final[Speaker] = "analyst"

WhyNot = Literal[
    "client_speaks", "silent", "wrong_key", "no_credit", "busy", "slow", "unavailable", "garbage", "no_space"
]
"""Why there is no clip; a short stable name, for counting."""

FOR_GOOD: Final = frozenset({"wrong_key", "no_credit"})
"""Reasons that will not go away while an episode lasts."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A spoken line, whole.

    Args:
        audio: The encoded sound.
        mime: Its media type, one of :data:`SUFFIXES`.
        duration_s: How long it lasts, seconds.
    """

    audio: bytes
    mime: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class Unspoken:
    """There is no clip of a line.

    Args:
        reason: Why.
        detail: For people; holds no key.
    """

    reason: WhyNot
    detail: str = ""


class Voice(Protocol):
    """Speaks lines. Whatever goes wrong is an answer, never an exception."""

    @property
    def name(self) -> str:
        """``espeak``, ``cartesia``, ..."""
        ...

    @property
    def fingerprint(self) -> str:
        """All that decides the sound beside the text; equal fingerprints and texts share a clip."""
        ...

    @property
    def costs_money(self) -> bool:
        """Whether each line is paid for."""
        ...

    async def speak(self, text: str) -> Speech | Unspoken:
        """Speak ``text``, which is plain: see :func:`plain_speech`. Cancelling it stops the work."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...


def plain_speech(text: str) -> str:
    """``text`` as a voice may have it: on one line, not too long, without markup and control characters.

    Engines read ``[[...]]`` as phonemes and ``<...>`` as SSML; names come from strangers.

    >>> plain_speech("FOUR!\\n<b>Bexhorn</b>  to [[Colvane]]")
    'FOUR! b Bexhorn /b to Colvane'
    """
    plain = _SPACES.sub(" ", _MARKUP.sub(" ", clean_text(text, 4 * MAX_SPOKEN))).strip()
    if len(plain) <= MAX_SPOKEN:
        return plain
    return plain[:MAX_SPOKEN].rpartition(" ")[0] or plain[:MAX_SPOKEN]
