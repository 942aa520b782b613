"""Long records at a real server: gone through at its start, and played on after it was killed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from benchmarks.recovery import ENDLESS, forget_checkpoints
from spectator.episodes.past_states import FILE, SPACING
from tests.episodes.long_record import EPISODE, long_journal
from tests.fakes import until
from tests.serving import serve_process
from tests.serving import until as until_true

TURNS = 10_100
LONG_BYTES = 20_000_000


async def test_a_server_goes_through_a_long_record_at_its_start_before_anybody_jumps_in_it(
    tmp_path: Path,
) -> None:
    events = await long_journal(tmp_path, TURNS)
    with serve_process(tmp_path, variables={"SPECTATOR_LOG_LEVEL": "info"}) as server:
        gone_through = f"episode {EPISODE} is indexed: every"
        await until(lambda: any(gone_through in line for line in server.log), what=gone_through)
        with closing(sqlite3.connect(tmp_path / FILE)) as file:
            kept = [seq for (seq,) in file.execute("SELECT seq FROM states ORDER BY seq")]
        assert kept == list(range(SPACING, events - SPACING, SPACING)), "nobody has asked for anything so far"
        async with httpx.AsyncClient(base_url=server.base_url, timeout=20) as client:
            answer = await client.get(f"/api/episodes/{EPISODE}/state?at=9999")
        assert answer.json()["seq"] == 9_999 and answer.json()["head_seq"] == events


def test_a_server_that_was_killed_plays_a_long_record_on(tmp_path: Path) -> None:
    """From its newest checkpoint, and where there is none by playing the whole record again."""
    journal = tmp_path / "journal.db"
    with serve_process(tmp_path) as server:
        httpx.post(f"{server.base_url}/custom/start_episode", json=ENDLESS).raise_for_status()
        until_true("a long record", lambda: journal.stat().st_size > LONG_BYTES)
        server.kill()
    turns = [played_on_from(tmp_path)]
    forget_checkpoints(journal)
    turns.append(played_on_from(tmp_path))
    assert 0 < turns[0] <= turns[1]


def played_on_from(folder: Path) -> int:
    """The turn that a new server has come to once it is ready; it is killed then."""
    with serve_process(folder) as server:
        [running] = httpx.get(f"{server.base_url}/custom/status").json()["running"]
        server.kill()
    return int(running["turn"])
