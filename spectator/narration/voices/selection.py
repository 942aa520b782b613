"""Selects the voices that a server speaks with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple

from spectator.narration.speech import Voice
from spectator.narration.voices.espeak import PROGRAM, EspeakVoice, espeak_program
from spectator.narration.voices.without_clips import BrowserVoice, SilentVoice

VoiceName = Literal["auto", "cartesia", "espeak", "browser", "silent"]

CARTESIA_URL: Final = "https://api.cartesia.ai"
CARTESIA_MODEL: Final = "sonic-3.5"
CARTESIA_VOICE: Final = "e07c00bc-4134-4eae-9ea4-1a55fb45746b"
"""The voice in the vendor's own examples."""

NO_KEY: Final = "Cartesia needs a key: set CARTESIA_API_KEY"
NO_PACKAGES: Final = "Cartesia needs: pip install 'openenv-spectator[voice]'"
NO_PROGRAM: Final = f"{PROGRAM} is not installed: apt-get install {PROGRAM}"


class Chosen(NamedTuple):
    """The voices of a server.

    Args:
        voices: The best first; the others speak when it cannot.
        missing: What the voice that was asked for lacks, for people; ``None`` when it lacks nothing.
    """

    voices: Sequence[Voice]
    missing: str | None = None


def choose_voices(
    name: VoiceName, *, cartesia: Callable[[], Voice] | None, espeak: Callable[[str], Voice] = EspeakVoice
) -> Chosen:
    """The voices for a setting; where the one that was named is not to be had, each viewer's browser speaks.

    Args:
        name: The setting; ``auto`` takes Cartesia where there is a key, espeak-ng where it is installed, and
            else the browsers.
        cartesia: Makes the Cartesia voice; ``None`` without a key.
        espeak: Makes the espeak-ng voice for a program's path.
    """
    if name == "silent":
        return Chosen([SilentVoice()])
    program = espeak_program() if name in ("auto", "espeak") else None
    local = [espeak(program)] if program is not None else []
    if name == "espeak":
        return Chosen(local) if local else Chosen([BrowserVoice()], NO_PROGRAM)
    if name == "browser":
        return Chosen([BrowserVoice()])
    packed = find_spec("httpx") is not None and find_spec("mutagen") is not None
    if cartesia is not None and packed:
        return Chosen([cartesia(), *local])
    if name == "cartesia":
        return Chosen([BrowserVoice()], NO_KEY if cartesia is None else NO_PACKAGES)
    return Chosen(local or [BrowserVoice()])
