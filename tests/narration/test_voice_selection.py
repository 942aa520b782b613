"""Which voices a server speaks with."""

from __future__ import annotations

import pytest

from spectator.narration import voices
from spectator.narration.neural import NO_MODEL
from spectator.narration.voices import choose_voices
from tests.narration.voices import FakeVoice


@pytest.mark.parametrize(
    ("name", "key", "model", "program", "expected", "answering", "missing"),
    [
        ("auto", True, True, True, ["cartesia", "neural", "espeak"], ["neural", "espeak"], None),
        ("auto", True, False, True, ["cartesia", "espeak"], ["espeak"], None),
        ("auto", True, False, False, ["cartesia"], [], None),
        ("auto", False, True, True, ["neural", "espeak"], ["neural", "espeak"], None),
        ("auto", False, True, False, ["neural"], ["neural"], None),
        ("auto", False, False, True, ["espeak"], ["espeak"], None),
        ("auto", False, False, False, ["browser"], [], None),
        ("cartesia", True, True, True, ["cartesia"], ["neural", "espeak"], None),
        ("cartesia", False, True, True, ["browser"], [], voices.NO_KEY),
        ("neural", True, True, True, ["neural", "espeak"], ["neural", "espeak"], None),
        ("neural", True, False, True, ["browser"], [], NO_MODEL),
        ("espeak", True, True, True, ["espeak"], ["espeak"], None),
        ("espeak", True, True, False, ["browser"], [], voices.NO_PROGRAM),
        ("browser", True, True, True, ["browser"], [], None),
        ("silent", True, True, True, ["silent"], [], None),
    ],
)
def test_the_voices_of_a_setting(
    name: voices.VoiceName,
    key: bool,
    model: bool,
    program: bool,
    expected: list[str],
    answering: list[str],
    missing: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(voices, "espeak_program", lambda: "/usr/bin/espeak-ng" if program else None)
    speakers: list[str] = []

    def made(kind: str, speaker: str) -> FakeVoice:
        speakers.append(speaker)
        return FakeVoice(name=kind)

    chosen = choose_voices(
        name,
        cartesia=(lambda: FakeVoice(name="cartesia", costs_money=True)) if key else None,
        neural=(lambda speaker: made("neural", speaker)) if model else None,
        espeak=lambda _, speaker: made("espeak", speaker),
    )
    assert [voice.name for voice in chosen.voices] == expected
    assert [voice.name for voice in chosen.answering] == answering
    assert chosen.missing == missing
    assert not any(voice.costs_money for voice in chosen.answering)
    if answering:
        assert "analyst" in speakers
