"""Which voices a server speaks with."""

from __future__ import annotations

import pytest

from spectator.narration.voices import selection
from spectator.narration.voices.selection import choose_voices
from tests.narration.voices import FakeVoice


@pytest.mark.parametrize(
    ("name", "key", "program", "voices", "missing"),
    [
        ("auto", True, True, ["cartesia", "espeak"], None),
        ("auto", True, False, ["cartesia"], None),
        ("auto", False, True, ["espeak"], None),
        ("auto", False, False, ["browser"], None),
        ("cartesia", True, True, ["cartesia"], None),
        ("cartesia", False, True, ["browser"], selection.NO_KEY),
        ("espeak", True, True, ["espeak"], None),
        ("espeak", True, False, ["browser"], selection.NO_PROGRAM),
        ("browser", True, True, ["browser"], None),
        ("silent", True, True, ["silent"], None),
    ],
)
def test_the_voices_of_a_setting(
    name: selection.VoiceName,
    key: bool,
    program: bool,
    voices: list[str],
    missing: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "espeak_program", lambda: "/usr/bin/espeak-ng" if program else None)
    chosen = choose_voices(
        name,
        cartesia=(lambda: FakeVoice(name="cartesia")) if key else None,
        espeak=lambda _: FakeVoice(name="espeak"),
    )
    assert [voice.name for voice in chosen.voices] == voices
    assert chosen.missing == missing
