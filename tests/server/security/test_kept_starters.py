"""Who started an episode may stop it after a restart too, and no address is written for that."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest

from server.security.permissions import MOST_STARTERS, STARTERS_FILE, SeatKeys, StarterRegistry
from server.settings import Settings
from tests.serving import Serving, serve, test_settings

MINE, STRANGER = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
SLOW = {"environment": "counting", "pace": "broadcast", "options": {"turns": 500}}


def public(folder: Path) -> Settings:
    return test_settings(folder, profile="public", host="0.0.0.0", trusted_hops=1, max_episodes=4)


def post(serving: Serving, verb: str, headers: dict[str, str], **body: object) -> httpx.Response:
    return serving.client.post(f"/custom/{verb}", json=body, headers=headers)


def started(starters: StarterRegistry, episode_id: str, address: str = "a") -> bool:
    return asyncio.run(starters.started(episode_id, address))


def test_after_a_restart_it_is_still_mine_and_nobody_elses(tmp_path: Path) -> None:
    with serve(public(tmp_path)) as serving:
        mine, other = (post(serving, "start_episode", MINE, **SLOW).json()["episode_id"] for _ in range(2))
    for file in tmp_path.iterdir():
        assert b"203.0.113" not in file.read_bytes(), f"{file.name} holds an address"
    kept = json.loads((tmp_path / STARTERS_FILE).read_text())
    assert kept.keys() == {mine, other} and kept[mine] != kept[other], "one's episodes are not linked"
    with serve(public(tmp_path)) as serving:
        refused = post(serving, "stop_episode", STRANGER, episode_id=mine)
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-your-episode")
        assert post(serving, "pause", MINE, episode_id=mine).json()["paused"]
        assert post(serving, "stop_episode", MINE, episode_id=mine).json()["reason"] == "stopped"
        newest = post(serving, "start_episode", STRANGER, **SLOW).json()["episode_id"]
        assert post(serving, "stop_episode", MINE, episode_id=newest).status_code == 403
        kept = json.loads((tmp_path / STARTERS_FILE).read_text())
        assert kept.keys() == {other, newest}, "what ended is forgotten"


def test_without_the_secret_of_its_folder_a_digest_is_nobodys(tmp_path: Path) -> None:
    async def note() -> None:
        await StarterRegistry(tmp_path, SeatKeys(tmp_path)).note("ep-1", "203.0.113.1")

    asyncio.run(note())
    again = StarterRegistry(tmp_path, SeatKeys(tmp_path))
    assert started(again, "ep-1", "203.0.113.1")
    assert not started(again, "ep-1", "203.0.113.2") and not started(again, "ep-2", "203.0.113.1")
    (tmp_path / "seat-keys.secret").unlink()
    assert not started(StarterRegistry(tmp_path, SeatKeys(tmp_path)), "ep-1", "203.0.113.1")


@pytest.mark.parametrize("text", ["", "[]", '{"ep-1": 7}', "{", "\ufffd"])
def test_a_file_that_cannot_be_read_is_begun_anew(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / STARTERS_FILE).write_text(text, encoding="utf-8")
    starters = StarterRegistry(tmp_path, SeatKeys(tmp_path))
    assert not started(starters, "ep-1") and "starting with an empty list" in caplog.text
    asyncio.run(starters.note("ep-2", "a"))
    assert started(StarterRegistry(tmp_path, SeatKeys(tmp_path)), "ep-2")


def test_where_it_cannot_be_written_it_holds_until_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starters = StarterRegistry(tmp_path, SeatKeys(tmp_path))
    os.mkdir(tmp_path / "starters.new")
    asyncio.run(starters.note("ep-1", "a"))
    assert started(starters, "ep-1") and "cannot store who started ep-1" in caplog.text
    without = StarterRegistry(tmp_path / "gone", SeatKeys(tmp_path / "gone"))
    asyncio.run(without.note("ep-1", "a"))
    assert not started(without, "ep-1"), "not even the secret could be kept"


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    starters = StarterRegistry(tmp_path, SeatKeys(tmp_path))

    async def note() -> None:
        for number in range(MOST_STARTERS + 1):
            await starters.note(f"ep-{number}", "a")

    asyncio.run(note())
    assert not started(starters, "ep-0") and started(starters, "ep-1")
    assert len(json.loads((tmp_path / STARTERS_FILE).read_text())) == MOST_STARTERS
