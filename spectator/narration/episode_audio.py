"""A recorded episode as audio: one MP3 with chapters, and its captions."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy
import soundfile
from mutagen.id3 import CHAP, CTOC, ID3, TIT2, CTOCFlags

from spectator.narration.clip_store import ClipStore, StoredClip
from spectator.narration.commentary import Speaker, Voice, plain_speech

PAUSE_S: Final = 0.35
"""Silence after each line, seconds."""

CONTENTS: Final = 200
"""Chapters per table of contents; the format counts them in one byte."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A recorded line of commentary."""

    seq: int
    text: str
    at: str | None
    label: str | None
    speaker: Speaker = "lead"


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """A line in the audio file.

    Args:
        starts_s: Start, seconds from the beginning.
        failure_reason: Why it could not be spoken; ``None`` if it was.
    """

    line: RecordedLine
    words: str
    starts_s: float
    ends_s: float
    failure_reason: str | None = None


async def recite(
    lines: Iterable[RecordedLine],
    out: Path,
    *,
    voices: Mapping[Speaker, Voice],
    clips: ClipStore,
    spoken: Callable[[str], str],
) -> AsyncIterator[SpokenLine]:
    """Speak ``lines`` into an MP3; yield each one when it is written.

    The chapters are written after the last line.

    Args:
        out: The MP3 file; overwritten if it exists.
    """
    done: list[SpokenLine] = []
    with _Track(out) as track:
        for line in lines:
            words = plain_speech(spoken(line.text))
            clip = await clips.clip(voices[line.speaker], words)
            starts_s = track.length_s
            path = clips.path(clip.name) if isinstance(clip, StoredClip) else None
            if path is not None:
                track.add(path.read_bytes())
            failure_reason = (
                None if isinstance(clip, StoredClip) else f"{clip.reason}: {clip.detail}".strip(": ")
            )
            done.append(SpokenLine(line, words, starts_s, track.length_s, failure_reason))
            if path is not None:
                track.rest(PAUSE_S)
            yield done[-1]
    mark_chapters(out, done)


class _Track:
    """An MP3 to which clips are appended; the first clip sets its sample rate."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._file: Any = None
        self._frames = 0

    def __enter__(self) -> _Track:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def length_s(self) -> float:
        return 0.0 if self._file is None else self._frames / self._file.samplerate

    def add(self, clip: bytes) -> None:
        samples, rate = soundfile.read(io.BytesIO(clip), dtype="float32", always_2d=True)
        if self._file is None:
            self._file = soundfile.SoundFile(
                self._out, "w", samplerate=rate, channels=1, format="MP3", compression_level=0.8
            )
        self._write(samples[:, 0])

    def rest(self, seconds: float) -> None:
        self._write(numpy.zeros(int(seconds * self._file.samplerate), dtype="float32"))

    def _write(self, samples: Any) -> None:
        self._file.write(samples)
        self._frames += len(samples)


def mark_chapters(out: Path, lines: Sequence[SpokenLine]) -> None:
    """Write a chapter for each position in the game into the MP3's ID3 tag."""
    tags = ID3()
    names = []
    for number, (title, starts_s, ends_s) in enumerate(chapters(lines)):
        names.append(f"chapter{number}")
        tags.add(
            CHAP(
                element_id=names[-1],
                start_time=round(1000 * starts_s),
                end_time=round(1000 * ends_s),
                sub_frames=[TIT2(text=[title])],
            )
        )
    parts = [names[first : first + CONTENTS] for first in range(0, len(names), CONTENTS)]
    flags = CTOCFlags.TOP_LEVEL | CTOCFlags.ORDERED
    for number, part in enumerate(parts):
        tags.add(CTOC(element_id=f"contents{number}", flags=flags, child_element_ids=part, sub_frames=[]))
    tags.save(out)


def chapters(lines: Sequence[SpokenLine]) -> list[tuple[str, float, float]]:
    """Return title, start and end of each chapter."""
    found: list[tuple[str, float, float]] = []
    position: str | None = None
    for one in lines:
        at = one.line.at
        if found and (at is None or at == position):
            title, starts_s, _ = found[-1]
            found[-1] = title, starts_s, one.ends_s
        else:
            found.append((_title(one.line), one.starts_s, one.ends_s))
            position = at
    return found


def _title(line: RecordedLine) -> str:
    return " ".join(part for part in (line.at, line.label) if part) or line.text[:60]


def captions(lines: Iterable[SpokenLine]) -> str:
    """Return the spoken lines as WebVTT; each cue has its event's number and speaker."""
    return "\n".join(["WEBVTT\n", *(_cue(one) for one in lines if one.failure_reason is None)])


def _cue(one: SpokenLine) -> str:
    words = escape(one.line.text.replace("-->", "→"), quote=False)
    who = one.line.speaker.capitalize()
    return f"{one.line.seq}\n{_stamp(one.starts_s)} --> {_stamp(one.ends_s)}\n<v {who}>{words}\n"


def _stamp(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"
