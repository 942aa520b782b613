"""Long records at a real server: gone through at its start, and played on after it was killed."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from benchmarks.recovery import measure
from spectator.episodes.record.past_states import SPACING
from spectator.episodes.record.state_file import FILE
from tests.episodes.long_record import EPISODE, long_journal
from tests.fakes import until
from tests.serving import serve_process

TURNS = 10_100


@pytest.mark.anyio
async def test_a_server_goes_through_a_long_record_at_its_start_and_the_first_far_jump_is_quick(
    tmp_path: Path,
) -> None:
    events = await long_journal(tmp_path, TURNS)
    with serve_process(tmp_path, variables={"SPECTATOR_LOG_LEVEL": "info"}) as server:
        gone_through = f"episode {EPISODE} is gone through"
        await until(lambda: any(gone_through in line for line in server.log), what=gone_through)
        with closing(sqlite3.connect(tmp_path / FILE)) as file:
            kept = [seq for (seq,) in file.execute("SELECT seq FROM states ORDER BY seq")]
        assert kept == list(range(SPACING, events - SPACING, SPACING)), "nobody has asked for anything so far"
        began = time.monotonic()
        async with httpx.AsyncClient(base_url=server.base_url, timeout=20) as client:
            answer = await client.get(f"/api/episodes/{EPISODE}/state?at=9999")
        took = time.monotonic() - began
        assert answer.json()["seq"] == 9_999 and answer.json()["head_seq"] == events
        assert took < 2, f"the first visitor's far jump took {took:.2f} s"


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is told by Linux's /proc")
def test_a_server_that_was_killed_plays_a_long_record_on() -> None:
    told = {figure.name.partition(": until `/readyz`")[0]: figure.value for figure in measure(20)}
    played_on = [name for name, value in told.items() if "played on from turn" in value]
    assert len(played_on) == 2, told
    assert any(name.endswith("no checkpoints") for name in played_on)
