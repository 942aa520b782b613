"""Long records are gone through before anybody opens them, and nothing that fails there stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.background import housekeeping
from server.background.housekeeping import LongRecordScanner
from spectator.errors import JournalError
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.long_record import EPISODE, long_journal
from tests.fakes import until


class Looked:
    """What would go through records, and notes which."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.more = asyncio.Event()

    def look_through(self, summary: Any) -> None:
        self.ids.append(summary.episode_id)
        self.more.set()

    async def next(self) -> list[str]:
        """Those that were to be gone through, once there are more."""
        await asyncio.wait_for(self.more.wait(), 5)
        self.more.clear()
        return self.ids


class Ended:
    """A journal of ended episodes with so many events each, newest first."""

    def __init__(self, heads: Sequence[int]) -> None:
        self.heads = {f"ep-{number}": head for number, head in enumerate(heads)}
        self.fails = False

    async def episodes(self, wanted: EpisodeFilter) -> list[Any]:
        assert wanted.ended
        if self.fails:
            raise JournalError("the disk is away")
        return [SimpleNamespace(episode_id=name, head_seq=head) for name, head in self.heads.items()]

    async def episode(self, episode_id: str) -> Any:
        if self.fails:
            raise JournalError("the disk is away")
        head = self.heads.get(episode_id)
        return None if head is None else SimpleNamespace(episode_id=episode_id, head_seq=head)


async def running(journal: Any, looked: Any) -> tuple[LongRecordScanner, asyncio.Task[None]]:
    """One that runs, and what an earlier process left is settled."""
    recovered = asyncio.Event()
    records = LongRecordScanner(journal, looked)
    task = asyncio.create_task(records.run(recovered))
    await asyncio.sleep(0)
    assert looked.ids == [], "that comes first"
    recovered.set()
    return records, task


async def test_the_newest_long_ones_at_the_start_then_each_that_ends() -> None:
    journal, looked = Ended([30_000, 10, 40_000, 20_000, 20_001, 50_000, 60_000]), Looked()
    records, task = await running(journal, looked)
    assert await looked.next() == ["ep-0", "ep-2", "ep-4", "ep-5"]
    looked.ids.clear()
    for name in ("ep-1", "ep-gone", "ep-6"):
        records.ended.put_nowait(name)
    assert await looked.next() == ["ep-6"]
    task.cancel()


async def test_a_journal_that_is_away_is_asked_again_at_the_next_end() -> None:
    journal, looked = Ended([30_000]), Looked()
    journal.fails = True
    records, task = await running(journal, looked)
    records.ended.put_nowait("ep-0")
    await until(records.ended.empty)
    journal.fails = False
    records.ended.put_nowait("ep-0")
    assert await looked.next() == ["ep-0"]
    task.cancel()


async def test_a_real_journal_says_which_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "LONG_EVENTS", 100)
    await long_journal(tmp_path, 60)
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
    looked = Looked()
    _, task = await running(journal, looked)
    assert await looked.next() == [EPISODE]
    task.cancel()
    await journal.aclose()
