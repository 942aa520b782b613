"""`spectator replay`: a recorded episode told in lines, and as the endpoint to play it against again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import spectator
from tests.episodes.test_recorded_questions import MEASURED
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains

IDENTITY = {"fingerprint", "episode_id", "epoch", "id"}


def comparable(lines: str) -> list[object]:
    """Events without what is measured and whose they are."""

    def bare(value: object) -> object:
        if isinstance(value, dict):
            return {name: bare(item) for name, item in value.items() if name not in MEASURED | IDENTITY}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return [bare(json.loads(line)) for line in lines.splitlines()]


@contextmanager
def replaying(*arguments: str) -> Iterator[str]:
    """The command in a process of its own; gives the address that it prints."""
    command = [sys.executable, "-m", "spectator.cli", "replay", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """An episode led by a model, its id and its events."""
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", mine={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        monkeypatch.setenv("SPECTATOR_LLM_LIVE", "llm:mine")
        result = spectator(*PLAY, "--data-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[0])["episode_id"], result.stdout


PLAY = ("play", "counting", "--captain", "llm:mine", "--seed", "3", "--option", "turns=3")


def test_an_episode_is_played_again_against_its_own_record_byte_for_byte(
    played: tuple[str, str], tmp_path: Path
) -> None:
    episode_id, events = played
    with replaying(episode_id, "--as-endpoint", "--port", "0", "--data-dir", str(tmp_path)) as base_url:
        assert base_url.startswith("http://127.0.0.1:") and base_url.endswith("/v1")
        write_captains(tmp_path / "captains.toml", mine={"base_url": base_url})
        again = spectator(*PLAY)
    assert again.exit_code == 0, again.output
    assert comparable(again.stdout) == comparable(events)
    assert '"source":"model"' in again.stdout and '"source":"fallback"' not in again.stdout


def test_the_decisions_are_told_in_lines(played: tuple[str, str], tmp_path: Path) -> None:
    told = spectator("replay", played[0], "--data-dir", str(tmp_path))
    assert told.exit_code == 0
    first, *_, last = told.stdout.splitlines()
    assert first == "    1  counter (model, mine-1)   text=ACTION: 1  # 1 comes next"
    assert last == "finished: 3 of 3 right, score 1.0000"


def test_what_cannot_be_replayed_is_told_in_a_line(tmp_path: Path) -> None:
    played = spectator("play", "counting", "--data-dir", str(tmp_path))
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    where = ("--data-dir", str(tmp_path))
    nothing = spectator("replay", episode_id, "--as-endpoint", *where)
    assert nothing.exit_code == 1 and "has no recorded model calls" in nothing.stderr
    assert spectator("replay", "ep-nobody", *where).exit_code == 1
