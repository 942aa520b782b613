"""Selects the voices that a server speaks with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple

from spectator.narration.speech import Speaker, Voice
from spectator.narration.voices.espeak import PROGRAM, espeak_program, espeak_voice
from spectator.narration.voices.neural_model import NO_MODEL
from spectator.narration.voices.without_clips import BrowserVoice, SilentVoice

VoiceName = Literal["auto", "cartesia", "neural", "espeak", "browser", "silent"]

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
        answering: The voices of the second commentator, the same way; none of them costs money.
    """

    voices: Sequence[Voice]
    missing: str | None = None
    answering: Sequence[Voice] = ()


def choose_voices(
    name: VoiceName,
    *,
    cartesia: Callable[[], Voice] | None,
    neural: Callable[[Speaker], Voice] | None = None,
    espeak: Callable[[str, Speaker], Voice] = espeak_voice,
) -> Chosen:
    """The voices for a setting; where the one that was named is not to be had, each viewer's browser speaks.

    Args:
        name: The setting; ``auto`` takes Cartesia where there is a key, the neural voice and then espeak-ng
            where they are installed, and else the browsers.
        cartesia: Makes the Cartesia voice; ``None`` without a key.
        neural: Makes the neural voice of a speaker; ``None`` where its model is not installed.
        espeak: Makes the espeak-ng voice of a speaker for a program's path.
    """
    if name == "silent":
        return Chosen([SilentVoice()])
    if name == "browser":
        return Chosen([BrowserVoice()])
    lead, analyst = (_local(name, neural, espeak, speaker) for speaker in ("lead", "analyst"))
    if name == "neural" and neural is None:
        return Chosen([BrowserVoice()], NO_MODEL)
    if name == "espeak" and not lead:
        return Chosen([BrowserVoice()], NO_PROGRAM)
    if name in ("neural", "espeak"):
        return Chosen(lead, answering=analyst)
    packed = find_spec("httpx") is not None and find_spec("mutagen") is not None
    if cartesia is not None and packed:
        return Chosen([cartesia(), *lead], answering=analyst or _local("auto", neural, espeak, "analyst"))
    if name == "cartesia":
        return Chosen([BrowserVoice()], NO_KEY if cartesia is None else NO_PACKAGES)
    return Chosen(lead or [BrowserVoice()], answering=analyst)


def _local(
    name: VoiceName,
    neural: Callable[[Speaker], Voice] | None,
    espeak: Callable[[str, Speaker], Voice],
    speaker: Speaker,
) -> list[Voice]:
    """The voices of a speaker that cost nothing, where ``name`` is chosen."""
    program = espeak_program() if name != "cartesia" else None
    made = [neural(speaker)] if neural is not None and name in ("auto", "neural") else []
    return [*made, espeak(program, speaker)] if program is not None else made
