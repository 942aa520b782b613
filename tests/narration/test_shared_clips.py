"""Clips that several servers share, in a folder and in a bucket behind the real protocol of S3."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import httpx
import pytest

from spectator.clock import SystemClock
from spectator.errors import ConfigurationError
from spectator.narration import clip_store
from spectator.narration.clip_store import REST_S, ClipStore, SharedClips, StoredClip
from tests.fakes import ManualClock
from tests.narration.voices import FakeVoice
from tests.serving import PATIENCE_S, serve, test_settings

BUCKET = "clips"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server that speaks S3, which has a bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Running on" in line:
                    break
            address = f"http://127.0.0.1:{port}"
            httpx.put(f"{address}/{BUCKET}", trust_env=False).raise_for_status()
            yield address
        finally:
            process.kill()


@pytest.fixture(params=["folder", "bucket"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return f"file://{tmp_path / 'shared'}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tester")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(clip_store, "ANSWER_S", PATIENCE_S)  # the first question loads all of S3's models
    fsspec.filesystem("s3").clear_instance_cache()
    return f"s3://{BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}"


def store(folder: Path, url: str) -> ClipStore:
    return ClipStore(folder, shared=SharedClips(url, SystemClock()))


async def made(clips: ClipStore, voice: FakeVoice, text: str) -> StoredClip:
    clip = await clips.clip(voice, text)
    assert isinstance(clip, StoredClip)
    return clip


async def test_what_one_server_made_another_finds_and_serves(url: str, tmp_path: Path) -> None:
    clip = await made(store(tmp_path / "a", url), FakeVoice(), "bowled him")
    silent = FakeVoice()
    assert await store(tmp_path / "b", url).find(silent, "bowled him") == clip
    assert await made(store(tmp_path / "c", url), silent, "bowled him") == clip
    assert silent.asked == []
    path = await store(tmp_path / "d", url).file(clip.name)
    assert path is not None
    assert path.read_bytes() == b"bowled him"
    assert await store(tmp_path / "d", url).file(f"{'0' * 40}-1.wav") is None
    assert await store(tmp_path / "d", url).find(silent, "never said") is None


async def test_a_clip_that_is_fetched_twice_is_counted_once(url: str, tmp_path: Path) -> None:
    clip = await made(store(tmp_path / "a", url), FakeVoice(), "four")
    clips = store(tmp_path / "b", url)
    await asyncio.gather(*(clips.file(clip.name) for _ in range(5)))
    assert clips.total_bytes == len(b"four")


def test_a_server_serves_what_another_made(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'shared'}"
    clip = asyncio.run(made(store(tmp_path / "a", url), FakeVoice(), "out"))
    (tmp_path / "b").mkdir()
    with serve(test_settings(tmp_path / "b", clips_url=url)) as server:
        answer = server.client.get(f"/audio/{clip.name}")
        assert (answer.status_code, answer.content) == (200, b"out")
        assert server.client.get(f"/audio/{'0' * 40}-1.wav").status_code == 404


class Failing:
    """A store that fails, or does not answer until it is let."""

    protocol = "s3"

    def __init__(self, waits_for: threading.Event | None = None) -> None:
        self.asked = 0
        self._waits_for = waits_for

    def ls(self, path: str, detail: bool) -> list[str]:
        self.asked += 1
        if self._waits_for is not None:
            self._waits_for.wait()
        raise PermissionError("no key")

    def pipe_file(self, path: str, audio: bytes) -> None:
        self.ls(path, False)


@pytest.mark.parametrize("stalls", [False, True])
async def test_a_store_that_fails_or_stalls_is_left_alone_for_a_while_and_the_line_is_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, stalls: bool
) -> None:
    monkeypatch.setattr(clip_store, "ANSWER_S", 0.05)
    waits_for = threading.Event()
    files: Any = Failing(waits_for if stalls else None)
    clock = ManualClock()

    shared = SharedClips(f"file://{tmp_path / 'shared'}", clock)
    shared._files = files
    clips = ClipStore(tmp_path / "a", shared=shared)
    try:
        for text in ("one", "two", "three"):
            assert (await made(clips, FakeVoice(), text)).mime == "audio/wav"
        assert files.asked == 1
        clock.advance(REST_S + 1)
        await made(clips, FakeVoice(), "four")
        assert files.asked == 2
    finally:
        waits_for.set()
    told = [one.message for one in caplog.records if "shared clips" in one.message]
    assert len(told) == 2
    assert ("no answer" if stalls else "no key") in told[0]


@pytest.mark.parametrize("url", ["clips", "s3://", "nosuch://bucket/clips"])
def test_a_url_that_cannot_be_shared_in_is_refused_by_its_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="SPECTATOR_CLIPS_URL"):
        SharedClips(url, SystemClock())


async def test_what_lies_there_under_no_clip_s_name_is_left_alone(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'shared'}"

    clip = await made(store(tmp_path / "a", url), FakeVoice(), "six")
    (folder,) = (tmp_path / "shared").iterdir()
    (folder / clip.name).rename(folder / "evil.html")
    (folder / f"{clip.name}.0000.part").write_bytes(b"half")
    voice = FakeVoice()
    await made(store(tmp_path / "b", url), voice, "six")
    assert voice.asked == ["six"]
