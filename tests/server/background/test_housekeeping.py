"""The server keeps its record within limits by itself, and sets a damaged one aside."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from server.background.housekeeping import Housekeeper
from spectator.journal.retention import Keep
from spectator.journal.sql_journal import SqlJournal
from tests.fakes import ManualClock, until
from tests.journal.records import run, url_of
from tests.journal.test_retention import fill, names
from tests.serving import serve, test_settings


async def test_the_oldest_go_at_the_start_and_it_is_told(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await fill(journal, 5)
    await journal.aclose()
    with serve(test_settings(tmp_path, keep_episodes=2)) as serving:
        told = {"spectator_episodes_pruned_total 4.0", "spectator_journal_episodes 2.0"}
        while not told <= {*serving.client.get("/metrics").text.splitlines()}:
            pass
        kept = [one["episode_id"] for one in serving.client.get("/api/episodes").json()["episodes"]]
        assert kept == ["ep-01", "ep-0-unended"], "the one without an end was interrupted just now"
        assert serving.client.get("/api/episodes/ep-05").status_code == 404


async def test_nothing_is_removed_before_it_is_known_what_ran_before(tmp_path: Path) -> None:
    """What was spent today is read from the episodes that may go."""
    recovered_by_then: list[bool] = []

    journal = await SqlJournal.open(url_of(tmp_path))
    recovered = asyncio.Event()

    class Noting(Housekeeper):
        async def tidy(self) -> None:
            recovered_by_then.append(recovered.is_set())
            await super().tidy()

    clock = ManualClock()
    running = asyncio.get_running_loop().create_task(Noting(journal, Keep(), clock).run(recovered))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    recovered.set()
    await until(lambda: clock.sleepers == 1)
    running.cancel()
    await journal.aclose()
    assert recovered_by_then == [True]


def test_a_journal_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await fill(journal, 3)
        housekeeper = Housekeeper(journal, Keep(episodes=1), ManualClock())
        await housekeeper.tidy()
        assert await names(journal) == ["ep-0-unended", "ep-01"]
        assert housekeeper.removed == 2
        assert housekeeper.size is not None
        await journal.aclose()
        running = asyncio.get_running_loop().create_task(housekeeper.run())
        await asyncio.sleep(0.05)
        assert not running.done(), "what fails once is tried again"
        running.cancel()

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert "beyond the limit of count" in caplog.text
    assert "cannot remove old episodes" in caplog.text


async def test_a_clock_that_jumps_ahead_removes_nothing(tmp_path: Path) -> None:
    class Jumping(ManualClock):
        """A wall clock that can be set wrong."""

        ahead = timedelta()

        def now(self) -> datetime:
            return super().now() + self.ahead

    journal = await SqlJournal.open(url_of(tmp_path))
    await fill(journal, 3)
    clock = Jumping()
    before = await names(journal)
    housekeeper = Housekeeper(journal, Keep(days=3000), clock)
    clock.ahead = timedelta(days=4000)
    await housekeeper.tidy()
    assert await names(journal) == before
    clock.advance(4000 * 86_400.0)
    await housekeeper.tidy()
    assert await names(journal) == ["ep-0-unended"], "what has really passed counts"
    await journal.aclose()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "short"])
def test_a_damaged_file_is_set_aside_and_nothing_is_written_over_it(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def make() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await fill(journal, 20, length=200)
        await journal.aclose()

    run(make())
    path = tmp_path / "journal.db"
    whole = path.read_bytes()
    damaged = {"garbage": b"no database at all. " * 9000, "truncated": whole[:65536], "short": whole[:700]}
    path.write_bytes(damaged[damage])
    found = path.read_bytes()
    with serve(test_settings(tmp_path)) as serving:
        assert serving.client.get("/api/episodes").json()["episodes"] == []
        serving.finish(serving.start(options={"turns": 1}))
    aside = [one for one in tmp_path.iterdir() if ".damaged-" in one.name]
    assert [one.read_bytes() for one in aside] == [found]
    assert f"set aside as {aside[0]}" in caplog.text
