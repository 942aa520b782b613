"""The espeak-ng voice: the real program, and programs that behave worse."""

from __future__ import annotations

import asyncio
import io
import stat
from pathlib import Path

import pytest
import soundfile

from spectator.narration.commentary import ANALYST, LEAD, Speech, SpeechFailure, as_mp3, as_wav, repair_wav
from spectator.narration.voices import EspeakVoice, espeak_voice

LINE = "Thornbury to Okafor, driven through the covers for four. Forty-five for three."


def speak(program: str, text: str = LINE, **settings: float) -> Speech | SpeechFailure:
    return asyncio.run(EspeakVoice(program, **settings).speak(text))  # type: ignore[arg-type]


def program(folder: Path, script: str) -> str:
    path = folder / "espeak-ng"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(("encoder", "suffix"), [(as_mp3, "MP3"), (as_wav, "WAV")])
def test_it_speaks(espeak: str, encoder: object, suffix: str) -> None:
    spoken = asyncio.run(EspeakVoice(espeak, encoder=encoder).speak(LINE))  # type: ignore[arg-type]
    assert isinstance(spoken, Speech)
    sound = soundfile.info(io.BytesIO(spoken.audio))
    assert sound.format == suffix
    assert sound.duration == pytest.approx(spoken.duration_s, abs=0.15)
    assert 2.0 < spoken.duration_s < 9.0


@pytest.mark.parametrize("text", ["-v fr --stdout", "$(reboot) `x` ; |", "&amp; &#x27;", "ਪੰਜਾਬ 12 🏏"])
def test_text_is_never_an_argument(espeak: str, text: str) -> None:
    assert isinstance(speak(espeak, text), Speech)


def test_what_cannot_be_heard_is_said_to_be_so(espeak: str) -> None:
    unspoken = speak(espeak, " ")
    assert isinstance(unspoken, SpeechFailure)
    assert unspoken.reason == "garbage"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec sleep 60", "slow"),
        ("cat > /dev/null; echo hello", "garbage"),
        ("exit 3", "garbage"),
        ("cat > /dev/null; printf 'RIFF....WAVEdata....'", "garbage"),
    ],
)
def test_a_program_that_misbehaves(tmp_path: Path, script: str, reason: str) -> None:
    unspoken = speak(program(tmp_path, script), longest_s=0.3 if reason == "slow" else 20)
    assert isinstance(unspoken, SpeechFailure)
    assert unspoken.reason == reason


def test_a_program_that_is_gone() -> None:
    unspoken = speak("/nowhere/espeak-ng")
    assert isinstance(unspoken, SpeechFailure)
    assert unspoken.reason == "unavailable"


def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    speak(program(tmp_path, f"echo $$ > {pid}; exec sleep 60"), longest_s=2)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


@pytest.mark.parametrize(
    "raw", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", b"x" * 99]
)
def test_what_is_no_wav_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"WAV|PCM"):
        repair_wav(raw)


def test_the_second_commentator_sounds_unlike_the_first(espeak: str) -> None:
    voices = [espeak_voice(espeak, speaker, accent="en-gb") for speaker in (LEAD, ANALYST)]
    first, second = (asyncio.run(voice.speak(LINE)) for voice in voices)
    assert isinstance(first, Speech) and isinstance(second, Speech)
    assert first.audio != second.audio
    assert len({voice.fingerprint for voice in voices}) == 2
    assert voices[0].fingerprint == EspeakVoice(espeak).fingerprint, "clips of before are asked for again"
