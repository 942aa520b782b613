"""An episode that another process plays, followed by its record."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spectator.bus import Overflow
from spectator.episodes.reader import ViewReader
from spectator.events import RecordedEvent
from spectator.journal.contract import EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_records import FollowedView
from tests.fakes import ManualClock
from tests.journal.records import said, seqs, started


class Growing(ViewReader):
    """Reads a journal to which an event is appended at every look at the summary."""

    def __init__(self, journal: SqlJournal) -> None:
        super().__init__(journal)
        self.journal = journal
        self.seq = 1

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        summary = await super().episode(episode_id)
        self.seq += 1
        await self.journal.append([said(episode_id, self.seq)])
        return summary


async def test_what_is_opened_twice_at_once_leaves_no_event_out(tmp_path: Path) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path}/journal.db")
    await journal.append([started("ep-1")])
    records = Growing(journal)
    summary = await journal.episode("ep-1")
    assert summary is not None
    view = FollowedView(summary, records, records, ManualClock())
    heard: list[RecordedEvent] = []

    async def join() -> int:
        await view.open()
        head, subscription = view.head_seq, view.subscribe(Overflow.CLOSE)

        async def listen() -> None:
            async for batch in subscription:
                heard.extend(batch)

        listening.append(asyncio.create_task(listen()))
        return head

    listening: list[asyncio.Task[None]] = []
    head, _ = await asyncio.gather(join(), view.advance())
    view.close()
    await asyncio.gather(*listening)
    assert seqs(heard) == list(range(head + 1, view.head_seq + 1))
    assert heard
    await journal.aclose()
