"""A record that cannot be written: play stands still where everybody sees it, and goes on by itself."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.app import build_server
from tests.server.watching import Watcher, watch
from tests.serving import PATIENCE_S, Serving, serve, serve_process, test_settings

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


@contextmanager
def as_process(folder: Path) -> Iterator[tuple[Serving, int]]:
    """A server that is a process of its own; yields its process id, too."""
    with (
        serve_process(folder, variables={"SPECTATOR_VOICE": "silent"}) as process,
        httpx.Client(base_url=process.base_url, timeout=PATIENCE_S) as client,
    ):
        yield Serving(process.base_url, build_server(test_settings(folder)), client), process.process.pid


def trouble_of(serving: Serving) -> Any:
    running = serving.client.get("/custom/status").json()["running"]
    return running[0]["trouble"] if running else None


def stand_still_and_go_on(serving: Serving, hinder: Callable[[], Callable[[], object]], says: str) -> None:
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
        figures = serving.client.get("/metrics").text
        assert "spectator_episodes_troubled 1" in figures
        (waiting,) = re.findall(r"^spectator_commit_wait_seconds (\S+)", figures, re.M)
        assert float(waiting) > 0, "a stall is seen while it lasts"
        known = serving.client.get("/operator/status").json()["trouble"]
        assert [says in one["detail"] for one in known if one["episode_id"] == episode_id] == [True]
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
    ready = serving.client.get("/readyz")
    assert ready.status_code == 200, ready.text


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

        def hinder() -> Callable[[], object]:
            return fill(tmp_path).unlink

        stand_still_and_go_on(serving, hinder, "full")


def test_a_file_that_was_moved_away(tmp_path: Path) -> None:
    """Whoever has it open could go on writing a file that nobody will ever read."""
    with serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], object]:
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")

            def relieve() -> None:
                moved.rename(tmp_path / "journal.db")

            return relieve

        stand_still_and_go_on(serving, hinder, "moved or removed")


def test_a_lock_of_somebody_else(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], object]:
            other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")

            def relieve() -> None:
                other.execute("ROLLBACK")
                other.close()

            return relieve

        stand_still_and_go_on(serving, hinder, "locked")


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk: other tests have theirs in memory, where a file that is open is not protected."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_journal_that_turns_read_only(on_disk: Path) -> None:
    """The server has its files open already; SQLite's index of the log, which lies in memory, stays."""
    files = [str(on_disk / f"journal.db{suffix}") for suffix in ("", "-wal")]

    def protect(sign: str) -> int:
        return subprocess.run(["chattr", f"{sign}i", *files], capture_output=True, check=False).returncode

    with serve(test_settings(on_disk)) as serving:
        if shutil.which("chattr") is None or protect("+"):
            pytest.skip("files cannot be protected here: needs root, chattr, and a file system that knows it")
        protect("-")

        def all_ready() -> set[int]:
            """Ask so often at once that the server opens further connections to the journal."""
            with ThreadPoolExecutor(8) as several:
                asked = several.map(lambda _: httpx.get(f"{serving.base_url}/readyz", timeout=60), range(16))
                return {answer.status_code for answer in asked}

        def hinder() -> Callable[[], object]:
            protect("+")
            assert all_ready() == {503}
            return lambda: protect("-")

        try:
            stand_still_and_go_on(serving, hinder, "disk I/O error")
        finally:
            protect("-")
        assert all_ready() == {200}


def test_a_disk_that_takes_no_more_from_a_server_process(tmp_path: Path) -> None:
    if not hasattr(resource, "prlimit"):
        pytest.skip("only Linux limits the files of another process (prlimit)")
    with as_process(tmp_path) as (serving, process_id):

        def hinder() -> Callable[[], object]:
            before = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
            written = (tmp_path / "journal.db-wal").stat().st_size
            resource.prlimit(process_id, resource.RLIMIT_FSIZE, (written, before[1]))
            return lambda: resource.prlimit(process_id, resource.RLIMIT_FSIZE, before)

        stand_still_and_go_on(serving, hinder, "disk I/O error")


def test_a_write_ahead_log_that_was_moved_away(tmp_path: Path) -> None:
    """SQLite would go on writing it, and a death would lose what was written since the last checkpoint."""
    with serve(test_settings(tmp_path)) as serving:

        def hinder() -> Callable[[], object]:
            moved = (tmp_path / "journal.db-wal").rename(tmp_path / "away")
            return lambda: moved.rename(tmp_path / "journal.db-wal")

        stand_still_and_go_on(serving, hinder, "write-ahead log was moved or removed")


def test_after_a_removed_write_ahead_log_a_stop_saves_all_and_the_next_server_plays_on(
    tmp_path: Path,
) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        stood_at = stand_still(serving, episode_id, (tmp_path / "journal.db-wal").unlink)
    with serve(test_settings(tmp_path)) as again, watch(f"{again.ws_url}/live/{episode_id}") as viewer:
        viewer.until("snapshot")
        assert viewer.seq >= stood_at
        viewer.until("event")


@pytest.mark.parametrize(
    ("name", "share"), [("journal.db", 0.0), ("journal.db", 0.5), ("journal.db-wal", 0.0)]
)
def test_a_cut_file_stops_play_and_the_next_server_sets_aside_what_is_left_of_it(
    tmp_path: Path, name: str, share: float
) -> None:
    with serve(test_settings(tmp_path)) as serving:
        for _ in range(2):
            serving.finish(serving.start(options={"turns": 100}))
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        if name == "journal.db":
            checkpoint(tmp_path)

        def cut() -> None:
            os.truncate(tmp_path / name, int((tmp_path / name).stat().st_size * share))

        stand_still(serving, episode_id, cut)
        assert serving.client.get("/readyz").status_code == 503
    with serve(test_settings(tmp_path)) as again:
        assert again.client.get("/readyz").status_code == 200
        again.finish(again.start(options={"turns": 1}))
    if name == "journal.db":  # what a cut log leaves depends on the last checkpoint of SQLite
        assert bool(list(tmp_path.glob("journal.db.damaged-*"))) is (share > 0)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
        assert journal.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def checkpoint(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "journal.db")) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def stand_still(serving: Serving, episode_id: str, hinder: Callable[[], object]) -> int:
    """Have the record of a match that runs broken; returns the number of the last event that was shown."""
    with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
        while viewer.seq < 10:
            viewer.next()
        hinder()
        assert "cannot be written" in viewer.until("trouble")["message"]
        assert trouble_of(serving) is not None
        return viewer.seq


def test_an_end_that_cannot_be_recorded_is_none(tmp_path: Path) -> None:
    """Somebody else has written the episode: this server is fenced off from it, and says so."""
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            while viewer.seq < 10:
                viewer.next()
            write_ahead(tmp_path, episode_id, viewer.seq + 30)
            code, bye = viewer.to_the_end()
        assert (code, bye["reconnect"]) == (1011, True)
        assert bye["reason"] == "its end could not be recorded"
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            code, bye = viewer.to_the_end()
        assert (code, bye["reconnect"]) == (4500, False), "between ours and theirs, events are missing"
        assert "missing" in bye["reason"]
        closed = serving.client.get("/metrics").text
        assert 'viewers_closed_total{code="1011"} 1' in closed


def test_a_damaged_page_is_named_to_readers_and_operators(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        hurt, whole = (serving.start(wait_s=50, options={"turns": turns}) for turns in (200, 3))
        assert serving.finish(whole) and serving.finish(hurt)
        assert serving.client.get("/operator/status").json()["trouble"] == []
    checkpoint(tmp_path)
    file = tmp_path / "journal.db"
    content = bytearray(file.read_bytes())
    at = content.index(b'"seq":2,')
    content[at - at % 8192] = 0xFF  # the kind of the page, which is none
    file.write_bytes(content)
    with serve(test_settings(tmp_path)) as serving:
        answer = serving.client.get(f"/api/episodes/{hurt}/export")
        assert (answer.status_code, answer.json()["type"]) == (500, "/problems/record-damaged")
        assert f"the record of {hurt} is damaged" in answer.json()["detail"]
        with watch(f"{serving.ws_url}/live/{hurt}?from_seq=0") as viewer:
            code, bye = viewer.to_the_end()
        assert (code, bye["reconnect"], hurt in bye["reason"]) == (4500, False, True)
        assert serving.events(whole)[-1]["type"] == "episode.ended"
        (trouble,) = serving.client.get("/operator/status").json()["trouble"]
        assert trouble["kind"] == "journal-damaged" and hurt in trouble["detail"]
        assert 'spectator_troubles{kind="journal-damaged"} 1' in serving.client.get("/metrics").text


def write_ahead(folder: Path, episode_id: str, seq: int) -> None:
    """Take a number of an episode that somebody else plays, as a second server would."""
    with closing(sqlite3.connect(folder / "journal.db")) as other, other:
        copied = "SELECT episode_id, ?1, json_set(text, '$.seq', ?1), digest FROM events"
        other.execute(
            f"INSERT INTO events (episode_id, seq, text, digest) {copied} WHERE episode_id = ?2 AND seq = 3",
            (seq, episode_id),
        )


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


def test_a_stop_that_cannot_be_recorded_is_told_so_and_kept_across_a_restart(tmp_path: Path) -> None:
    """Its 200 was a lie: the next server played on, and a model would have been paid again."""
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            viewer.until("event")
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")
            viewer.until("trouble")
            for _ in range(2):
                answer = serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})
                assert answer.status_code == 503, answer.text
                detail = answer.json()["detail"]
                assert "moved or removed" in detail and "a restart ends it too" in detail
    moved.rename(tmp_path / "journal.db")
    with serve(test_settings(tmp_path)) as again:
        entry = again.client.get(f"/api/episodes/{episode_id}").json()
        assert (entry["reason"], entry["detail"]) == ("stopped", "stopped by visitor")
        events = again.events(episode_id)
        assert [event["seq"] for event in events] == list(range(1, entry["head_seq"] + 1))
        assert not [event for event in events if event["type"] == "episode.recovered"]
        assert again.client.get("/custom/status").json()["running"] == []
    assert (tmp_path / "stops.json").read_text().split() == ["{}"]


def test_a_stop_on_a_really_full_disk_is_kept_too(tmp_path: Path) -> None:
    with small_disk(tmp_path):
        with serve(test_settings(tmp_path)) as serving:
            episode_id = serving.start(pace="fast", options={"turns": 1000, "payload_bytes": 2000})
            with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
                viewer.until("event")
                with closing(sqlite3.connect(tmp_path / "journal.db")) as other:
                    emptied = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    assert emptied[0] == 0, "the stop would fit into the log"
                filler = fill(tmp_path)
                viewer.until("trouble")
                answer = serving.client.post("/custom/stop_episode", json={})
                assert answer.status_code == 503
                assert "full" in answer.json()["detail"]
                assert "a restart ends it too" in answer.json()["detail"]
        filler.unlink()
        with serve(test_settings(tmp_path)) as again:
            assert again.client.get(f"/api/episodes/{episode_id}").json()["reason"] == "stopped"


def test_a_stop_is_recorded_by_this_server_once_it_can_be(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 1000})
        with watch(f"{serving.ws_url}/live/{episode_id}") as viewer:
            viewer.until("event")
            moved = (tmp_path / "journal.db").rename(tmp_path / "away.db")
            viewer.until("trouble")
            assert serving.client.post("/custom/stop_episode", json={}).status_code == 503
            moved.rename(tmp_path / "journal.db")
            viewer.to_the_end()
        assert serving.finish(episode_id)["reason"] == "stopped"
    assert (tmp_path / "stops.json").read_text().split() == ["{}"]
