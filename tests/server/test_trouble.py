"""A record that cannot be written: play stands still where everybody sees it, and goes on by itself."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.watching import Watcher, watch
from tests.serving import PATIENCE_S, Serving, serve, test_settings

MATCH = {"pace": "fast", "options": {"turns": 15}}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own with 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk; run the tests as root to try a really full one")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr!r}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def trouble_of(serving: Serving) -> Any:
    running = serving.client.get("/custom/status").json()["running"]
    return running[0]["trouble"] if running else None


def stand_still_and_go_on(serving: Serving, hinder: Callable[[], Callable[[], None]], says: str) -> None:
    """Hinder the record in the middle of a match, look at it from everywhere, then let it go on.

    Args:
        serving: The server.
        hinder: Begins the trouble; what it returns ends it.
        says: What viewers are told.
    """
    episode_id = serving.start(**MATCH)
    with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
        while viewer.seq < 10:
            viewer.next()
        relieve = hinder()
        trouble = viewer.until("trouble")
        assert says in trouble["message"]
        assert trouble["since"] is not None
        stood_at = viewer.seq
        assert says in trouble_of(serving)
        assert serving.client.get("/readyz").status_code == 503
        assert serving.client.get("/health").status_code == 200
        assert "spectator_episodes_troubled 1" in serving.client.get("/metrics").text
        for refused in ("pause", "pace"):
            answer = serving.client.post(
                f"/custom/{refused}", json={"pace": "max"} if refused == "pace" else {}
            )
            assert answer.status_code == 503, answer.text
        with watch(f"{serving.ws_url}/live/{episode_id}") as late:
            assert says in late.until("trouble")["message"]
        relieve()
        assert viewer.until("trouble") == {"frame": "trouble", "message": None, "since": None}
        code, _ = viewer.to_the_end()
        assert code == 1000
        check_record(serving, episode_id, viewer, stood_at)
    assert serving.client.get("/readyz").status_code == 200


def check_record(serving: Serving, episode_id: str, viewer: Watcher, stood_at: int) -> None:
    entry = serving.finish(episode_id)
    assert (entry["reason"], entry["turns"]) == ("finished", 15)
    lines = serving.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, entry["head_seq"] + 1))
    warnings = [event for event in events if event["type"] == "warning"]
    assert len(warnings) == 1
    assert "nothing is missing" in warnings[0]["data"]["message"]
    assert warnings[0]["seq"] > stood_at
    assert viewer.seq == entry["head_seq"]


def test_a_really_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path), serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], None]:
            return fill(tmp_path).unlink

        stand_still_and_go_on(serving, hinder, "full")


def test_a_file_that_was_moved_away(tmp_path: Path) -> None:
    """Whoever has it open could go on writing a file that nobody will ever read."""
    with serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], None]:
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")

            def relieve() -> None:
                moved.rename(tmp_path / "journal.db")

            return relieve

        stand_still_and_go_on(serving, hinder, "moved or removed")


def test_a_lock_of_somebody_else(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], None]:
            other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")

            def relieve() -> None:
                other.execute("ROLLBACK")
                other.close()

            return relieve

        stand_still_and_go_on(serving, hinder, "locked")


def test_patience_ends_a_match_and_its_end_is_recorded_once_it_can_be(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, journal_patience_s=0.5)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            viewer.until("event")
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")
            viewer.until("trouble")
            stopped = serving.client.post("/custom/stop_episode", json={}, timeout=PATIENCE_S)
            assert stopped.status_code == 503
            assert serving.client.post("/custom/start_episode", json={}).status_code in (409, 503)
            moved.rename(tmp_path / "journal.db")
            viewer.to_the_end()
        entry = serving.finish(episode_id)
        assert entry["reason"] in ("stopped", "interrupted")
        if entry["reason"] == "interrupted":
            assert "moved or removed" in entry["detail"]
        assert serving.start(options={"turns": 1}) != episode_id


def test_a_server_that_must_go_meanwhile_goes_and_the_next_one_plays_on(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            viewer.until("event")
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")
            viewer.until("trouble")
    moved.rename(tmp_path / "journal.db")
    with serve(test_settings(tmp_path)) as again, watch(f"{again.ws_url}/live/{episode_id}") as viewer:
        viewer.until("snapshot")
        stood = viewer.seq
        while viewer.seq < stood + 10:
            viewer.next()
