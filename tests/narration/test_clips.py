"""A clip is made once, kept within a limit, and never half there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spectator.narration.clip_store import CLIP_NAME, ClipStore, StoredClip, clip_key
from spectator.narration.commentary import Speech, SpeechFailure
from tests.fakes import until
from tests.narration.voices import FakeVoice


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def made(store: ClipStore, voice: FakeVoice, text: str) -> StoredClip:
    clip = await store.clip(voice, text)
    assert isinstance(clip, StoredClip)
    return clip


async def test_a_clip_is_made_once_and_found_again_by_another_process(tmp_path: Path) -> None:
    voice = FakeVoice()
    store = ClipStore(tmp_path)
    clip = await made(store, voice, "out")
    assert await made(store, voice, "out") == clip
    assert voice.asked == ["out"]
    assert CLIP_NAME.fullmatch(clip.name)
    path = store.path(clip.name)
    assert path is not None
    assert path.read_bytes() == b"out"
    later = ClipStore(tmp_path)
    assert await later.find(voice, "out") == clip
    assert later.total_bytes == 3


async def test_however_many_ask_it_is_made_once(tmp_path: Path) -> None:
    hold = asyncio.Event()
    voice = FakeVoice(hold=hold)
    store = ClipStore(tmp_path)
    asking = [asyncio.create_task(store.clip(voice, "four")) for _ in range(20)]
    await until(lambda: voice.asked == ["four"])
    asking[0].cancel()
    hold.set()
    clips = await asyncio.gather(*asking[1:])
    assert len(set(map(str, clips))) == 1
    assert voice.asked == ["four"]


async def test_it_is_given_up_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    voice = FakeVoice(hold=asyncio.Event())
    store = ClipStore(tmp_path)
    asking = [asyncio.create_task(store.clip(voice, "four")) for _ in range(2)]
    await until(lambda: bool(voice.asked))
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await until(lambda: voice.given_up == 1)


async def test_the_least_used_make_room(tmp_path: Path) -> None:
    voice = FakeVoice(lambda text: Speech(b"x" * 10, "audio/wav", 1.0))
    store = ClipStore(tmp_path, limit_bytes=30)
    for text in ("a", "b", "c"):
        await made(store, voice, text)
    await made(store, voice, "a")
    await made(store, voice, "d")
    assert store.total_bytes == 30
    assert await store.find(voice, "b") is None
    assert await store.find(voice, "a") is not None
    assert len(names(tmp_path)) == 3


async def test_a_clip_larger_than_all_may_be_is_refused(tmp_path: Path) -> None:
    store = ClipStore(tmp_path, limit_bytes=2)
    assert await store.clip(FakeVoice(), "long") == SpeechFailure(
        "no_space", "the clip is larger than the limit of all clips"
    )
    assert names(tmp_path) == []


async def test_a_folder_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "clips").write_text("a file where a folder should be")
    answer = await ClipStore(tmp_path / "clips").clip(FakeVoice(), "out")
    assert isinstance(answer, SpeechFailure)
    assert answer.reason == "no_space"


async def test_what_a_crash_left_behind_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / f"{clip_key(FakeVoice(), 'x')}-100.part").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    store = ClipStore(tmp_path)
    assert await store.find(FakeVoice(), "x") is None
    assert names(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("name", ["../journal.db", "a.mp3", f"{'0' * 40}-1.ogg", f"{'0' * 40}-1.mp3/..", ""])
def test_only_a_clip_s_name_leads_to_a_file(tmp_path: Path, name: str) -> None:
    assert ClipStore(tmp_path).path(name) is None


def test_voice_and_text_decide_the_clip() -> None:
    keys = {clip_key(FakeVoice(name=name), text) for name in ("a", "b") for text in ("x", "y")}
    assert len(keys) == 4
