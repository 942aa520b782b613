"""The neural voice: the real model in its process, and processes that behave worse."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy
import pytest
import soundfile

from spectator.clock import Clock, SystemClock
from spectator.narration.commentary import ANALYST, LEAD, Speech, SpeechFailure, as_wav
from spectator.narration.neural import DIGESTS, REST_S, NeuralProcess, NeuralVoice, WrongModel, checked_model
from tests.fakes import ManualClock

LINE = "After twelve overs, ninety-four for three. Eight off it."

READY = "import json, sys; say = lambda head: print(json.dumps(head), flush=True); say({'ready': True})\n"


def process(script: str, *, clock: Clock | None = None, longest_s: float = 100) -> NeuralProcess:
    """A process of ours in the model's place."""
    command = (sys.executable, "-c", script)
    return NeuralProcess(clock or SystemClock(), command=command, start_s=100, longest_s=longest_s)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.usefixtures("neural_model")
async def test_two_speakers_share_a_process_that_is_replaced_when_it_dies() -> None:
    # A busy machine takes long to load a model; only that it speaks is tested.
    shared = NeuralProcess(SystemClock(), start_s=100, longest_s=100)
    lead = NeuralVoice(shared, speaker=LEAD, encoder=as_wav)
    analyst = NeuralVoice(shared, speaker=ANALYST, encoder=as_wav)
    try:
        first, second, again = [await voice.speak(LINE) for voice in (lead, analyst, lead)]
        assert isinstance(first, Speech) and isinstance(second, Speech)
        assert again == first, "a text always sounds alike"
        assert 3 < first.duration_s < 6
        assert second.duration_s == pytest.approx(first.duration_s, rel=0.1)
        assert middle_hz(second.audio) < 0.9 * middle_hz(first.audio)
        assert loudness(second.audio) == pytest.approx(loudness(first.audio), rel=0.2)
        assert shared.process_id is not None
        dead = shared.process_id
        os.kill(dead, 9)
        lost = await lead.speak(LINE)
        assert isinstance(lost, SpeechFailure)
        assert lost.reason == "unavailable"
        assert await lead.speak(LINE) == first
        assert shared.process_id not in (None, dead)
        assert await lead.speak(" ") == SpeechFailure("garbage", "the neural voice wrote silence")
        assert isinstance(await lead.speak("ਪੰਜਾਬ 12 🏏 [x](/y/) $(reboot) %s \\"), Speech)
    finally:
        await lead.aclose()
    assert shared.process_id is None


def middle_hz(audio: bytes) -> float:
    """The mean frequency of a sound, weighted by power below 4 kHz."""
    samples, rate = soundfile.read(io.BytesIO(audio))
    power = numpy.abs(numpy.fft.rfft(samples)) ** 2
    hertz = numpy.fft.rfftfreq(len(samples), 1 / rate)
    below = hertz < 4000
    return float((power[below] * hertz[below]).sum() / power[below].sum())


def loudness(audio: bytes) -> float:
    samples, _ = soundfile.read(io.BytesIO(audio))
    return float(numpy.sqrt(numpy.mean(samples**2)))


def test_a_file_that_was_not_reviewed_is_refused_by_name(neural_model: Path, tmp_path: Path) -> None:
    assert checked_model(neural_model).name == "hibari.onnx"
    for name in DIGESTS:
        shutil.copy(neural_model / name, tmp_path / name)
    changed = tmp_path / "oov.onnx"
    changed.write_bytes(changed.read_bytes() + b"\0")
    with pytest.raises(WrongModel, match=r"oov\.onnx of the neural voice differs from the reviewed file"):
        checked_model(tmp_path)
    changed.unlink()
    with pytest.raises(WrongModel, match=r"oov\.onnx of the neural voice cannot be read"):
        checked_model(tmp_path)


async def test_the_process_of_the_voice_opens_no_connection() -> None:
    script = (
        "import runpy, sys, urllib.request\n"
        "from spectator.narration import neural_program\n"
        "neural_program.load = lambda: urllib.request.urlopen('http://127.0.0.1:9/voice.onnx')\n"
        "neural_program.main()\n"
    )
    voice = NeuralVoice(process(script))
    unspoken = await voice.speak(LINE)
    assert isinstance(unspoken, SpeechFailure)
    assert "must not open network connections" in unspoken.detail


@pytest.mark.parametrize(
    ("script", "reason", "says"),
    [
        ("raise SystemExit(3)", "unavailable", "died"),
        ("print('hello', flush=True)", "unavailable", ""),
        (
            'print(\'{"error": "oov.onnx is not the one that was reviewed"}\', flush=True)',
            "unavailable",
            "reviewed",
        ),
        (READY + "sys.stdin.readline()", "unavailable", "died"),
        (READY + "sys.stdin.readline(); say({'length': 10**12})", "unavailable", "invalid answer"),
        (READY + "sys.stdin.readline(); say({'length': 100})", "unavailable", "died"),
        (
            READY + "sys.stdin.readline(); say({'error': 'no such phoneme'}); sys.stdin.read()",
            "garbage",
            "no such",
        ),
        (
            READY + "sys.stdin.readline(); say({'length': 4}); print('abcd', end='', flush=True)",
            "garbage",
            "WAV",
        ),
    ],
)
async def test_a_process_that_misbehaves_costs_a_line(script: str, reason: str, says: str) -> None:
    shared = process(script)
    unspoken = await NeuralVoice(shared).speak(LINE)
    await shared.aclose()
    assert isinstance(unspoken, SpeechFailure)
    assert unspoken.reason == reason
    assert says in unspoken.detail


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def scenario() -> None:
        tells = f"import os, pathlib; pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        script = f"{tells}{READY}sys.stdin.read()"
        shared = process(script, longest_s=0.2)
        unspoken = await NeuralVoice(shared).speak(LINE)
        assert isinstance(unspoken, SpeechFailure)
        assert unspoken.reason == "slow"

    run(scenario())
    assert not Path(f"/proc/{pid.read_text()}").exists()


async def test_after_three_failures_it_is_left_alone_for_a_minute(tmp_path: Path) -> None:
    clock, starts = ManualClock(), tmp_path / "starts"
    voice = NeuralVoice(process(f"open({str(starts)!r}, 'a').write('x')", clock=clock))
    for _ in range(5):
        assert isinstance(await voice.speak(LINE), SpeechFailure)
    assert starts.read_text() == "xxx"
    clock.advance(REST_S)
    await voice.speak(LINE)
    assert starts.read_text() == "xxxx"


async def test_who_no_longer_waits_does_not_confuse_the_next_line() -> None:
    script = READY + "\nfor line in sys.stdin: say({'error': json.loads(line)['text']})"
    shared = process(script)
    voice = NeuralVoice(shared)
    given_up = asyncio.create_task(voice.speak("the first"))
    await asyncio.sleep(0)
    given_up.cancel()
    unspoken = await voice.speak("the second")
    await shared.aclose()
    assert isinstance(unspoken, SpeechFailure)
    assert "the second" in unspoken.detail
    assert isinstance(await voice.speak("the third"), SpeechFailure), "it goes away with the server"
