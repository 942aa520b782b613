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
"""Chapters that one table of contents holds; the format counts them in one byte."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A line of commentary as it was recorded.

    Args:
        seq: Number of its event.
        text: What was said.
        at: Where in the game, in its own notation.
        label: Its short mark.
        speaker: Who says it.
    """

    seq: int
    text: str
    at: str | None
    label: str | None
    speaker: Speaker = "lead"


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """A line in the sound.

    Args:
        line: As it was recorded.
        words: As it is said.
        starts_s: When it begins, seconds from the start.
        ends_s: When it ends.
        failure_reason: Why it is not heard; ``None`` when it is.
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
    """Speak ``lines``, one after the other, into an MP3; yields each as it is written.

    The chapters are written when all has been yielded.

    Args:
        lines: What is to be said.
        out: The file; one that exists is overwritten.
        voices: Each speaker's.
        clips: Where clips lie; those that are there are used.
        spoken: See :attr:`spectator.environments.world.World.spoken`.
    """
    said: list[SpokenLine] = []
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
            said.append(SpokenLine(line, words, starts_s, track.length_s, failure_reason))
            if path is not None:
                track.rest(PAUSE_S)
            yield said[-1]
    mark_chapters(out, said)


class _Track:
    """An MP3 that grows clip by clip; the first one decides its rate."""

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
        """How long it is, seconds."""
        return 0.0 if self._file is None else self._frames / self._file.samplerate

    def add(self, clip: bytes) -> None:
        """Append a clip."""
        samples, rate = soundfile.read(io.BytesIO(clip), dtype="float32", always_2d=True)
        if self._file is None:
            self._file = soundfile.SoundFile(
                self._out, "w", samplerate=rate, channels=1, format="MP3", compression_level=0.8
            )
        self._write(samples[:, 0])

    def rest(self, seconds: float) -> None:
        """Append silence."""
        self._write(numpy.zeros(int(seconds * self._file.samplerate), dtype="float32"))

    def _write(self, samples: Any) -> None:
        self._file.write(samples)
        self._frames += len(samples)


def mark_chapters(out: Path, said: Sequence[SpokenLine]) -> None:
    """Write a chapter for each place in the game into the MP3's ID3 tag."""
    tags = ID3()
    names = []
    for number, (title, starts_s, ends_s) in enumerate(chapters(said)):
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


def chapters(said: Sequence[SpokenLine]) -> list[tuple[str, float, float]]:
    """Title, start and end of each chapter; a line without a place belongs to the chapter before it."""
    found: list[tuple[str, float, float]] = []
    place: str | None = None
    for one in said:
        at = one.line.at
        if found and (at is None or at == place):
            title, starts_s, _ = found[-1]
            found[-1] = title, starts_s, one.ends_s
        else:
            found.append((_title(one.line), one.starts_s, one.ends_s))
            place = at
    return found


def _title(line: RecordedLine) -> str:
    return " ".join(part for part in (line.at, line.label) if part) or line.text[:60]


def captions(said: Iterable[SpokenLine]) -> str:
    """The lines that are heard, as WebVTT; each cue has the number of its event and says who speaks."""
    return "\n".join(["WEBVTT\n", *(_cue(one) for one in said if one.failure_reason is None)])


def _cue(one: SpokenLine) -> str:
    words = escape(one.line.text.replace("-->", "→"), quote=False)
    who = one.line.speaker.capitalize()
    return f"{one.line.seq}\n{_stamp(one.starts_s)} --> {_stamp(one.ends_s)}\n<v {who}>{words}\n"


def _stamp(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"
