"""A recording is spoken into one file, with a chapter for each place and the words beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile
from mutagen.id3 import ID3
from mutagen.mp3 import MP3

from spectator.narration.episode_audio import RecordedLine, SpokenLine, captions, chapters
from tests.commands import spectator


def spoken(
    seq: int, at: str | None, starts_s: float, text: str = "text", label: str | None = None
) -> SpokenLine:
    return SpokenLine(RecordedLine(seq, text, at, label), text, starts_s, starts_s + 1)


@pytest.mark.usefixtures("espeak")
def test_a_whole_match_is_one_file_with_chapters_and_captions(tmp_path: Path) -> None:
    played = spectator(
        "play", "cricket", "--seed", "9", "--option", "max_overs=1", "--data-dir", str(tmp_path)
    )
    events = [json.loads(line) for line in played.stdout.splitlines()]
    episode_id = events[0]["episode_id"]
    lines = [event for event in events if event["type"] == "narration.line"]
    told = [
        (line["seq"], f"<v {who}>{words}")
        for line in lines
        for who, words in (
            ("Lead", line["data"]["radio"] or line["data"]["text"]),
            ("Analyst", line["data"].get("reply")),
        )
        if words
    ]
    assert len(told) > len(lines)
    out, words = tmp_path / "match.mp3", tmp_path / "match.vtt"
    command = [
        "narrate",
        episode_id,
        "--voice",
        "espeak",
        "--data-dir",
        str(tmp_path),
        "--out",
        str(out),
        "--captions",
        str(words),
    ]
    done = spectator(*command)
    assert done.exit_code == 0, done.output
    assert f"{len(told)} lines" in done.stderr

    sound = soundfile.info(out)
    cues = words.read_text().strip().split("\n\n")[1:]
    assert len(cues) == len(told)
    for cue, (seq, words_said) in zip(cues, told, strict=True):
        number, times, text = cue.split("\n")
        assert int(number) == seq
        assert text == words_said
        assert seconds(times.split(" --> ")[1]) <= sound.duration + 0.2

    tags = ID3(out)
    starts = [tag.start_time for tag in sorted(tags.getall("CHAP"), key=lambda tag: tag.start_time)]
    places = [line["data"]["at"] for line in lines]
    balls = {place for place in places if place is not None}
    assert len(starts) >= len(balls)
    assert starts == sorted(set(starts))
    titles = {str(tag.sub_frames["TIT2"].text[0]).split(" ")[0] for tag in tags.getall("CHAP")}
    assert balls <= titles
    assert sum(len(tag.child_element_ids) for tag in tags.getall("CTOC")) == len(starts)
    assert MP3(out).info.length == pytest.approx(sound.duration, abs=1)

    clips = sorted((tmp_path / "clips").iterdir())
    again = spectator(*command)
    assert again.exit_code == 0
    assert sorted((tmp_path / "clips").iterdir()) == clips


def seconds(stamp: str) -> float:
    hours, minutes, rest = stamp.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ep-none", "--out", "match.mp3"], "no journal"),
        (["ep-none", "--out", "match.wav"], "must end in .mp3"),
        (["ep-none"], "--out"),
        (["ep-none", "--out", "match.mp3", "--words-per-minute", "9"], "80"),
        (["ep-none", "--out", "match.mp3", "--voice", "cartesia"], "neural"),
    ],
)
def test_bad_arguments_are_refused_by_name(tmp_path: Path, arguments: list[str], says: str) -> None:
    result = spectator("narrate", *arguments, "--data-dir", str(tmp_path))
    assert result.exit_code != 0
    assert says in result.output
    assert "Traceback" not in result.output


def test_help_shows_an_example() -> None:
    assert "Example:" in spectator("narrate", "--help").stdout


def test_a_line_without_a_place_belongs_to_the_chapter_before() -> None:
    said = [
        spoken(1, None, 0, "They bat first."),
        spoken(2, "0.1", 2, label="4"),
        spoken(3, None, 4),
        spoken(4, "0.1", 6),
        spoken(5, "0.2", 8),
    ]
    assert chapters(said) == [("They bat first.", 0, 1), ("0.1 4", 2, 7), ("0.2", 8, 9)]


def test_captions_hold_what_is_heard() -> None:
    silent = SpokenLine(RecordedLine(3, "unheard", None, None), "unheard", 2, 2, "slow")
    text = captions([spoken(2, "0.1", 3661.5, "a --> b & <v C>"), silent])
    assert text == "WEBVTT\n\n2\n01:01:01.500 --> 01:01:02.500\n<v Lead>a → b &amp; &lt;v C&gt;\n"
