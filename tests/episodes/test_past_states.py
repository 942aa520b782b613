"""The state at any event of a long record: right, and without reading the record again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectator.episodes import past_states, reader
from spectator.episodes.past_states import PastStates
from spectator.episodes.reader import ViewReader
from spectator.episodes.view import State, replay_state
from spectator.errors import EpisodeDamaged
from spectator.journal.contract import EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.long_record import EPISODE, long_journal


class Counting:
    """A reader that counts the events it is asked for."""

    def __init__(self, views: ViewReader) -> None:
        self._views = views
        self.read = 0

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        texts = await self._views.texts(episode_id, after_seq=after_seq, limit=limit)
        self.read += len(texts)
        return texts

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        return 0, {}


def on_long_record(tmp_path: Path, turns: int, work: Any) -> None:
    async def run() -> None:
        await long_journal(tmp_path, turns)
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=True)
        try:
            summary = await journal.episode(EPISODE)
            assert summary is not None
            await work(journal, summary)
        finally:
            await journal.aclose()

    asyncio.run(run())


def test_the_state_at_any_event_is_that_of_a_fold_and_little_is_read_for_it(tmp_path: Path) -> None:
    async def work(journal: SqlJournal, summary: EpisodeSummary) -> None:
        views = ViewReader(journal)
        whole = await views.read(EPISODE)
        counting = Counting(views)
        past = PastStates(counting, spacing=50)
        for seq in (0, 1, 49, 50, 51, 777, 500, 2, 1002):
            assert await past.state(summary, seq) == replay_state(whole[:seq]), seq
        assert counting.read < 1002 + 9 * 50  # once through it, and from the nearest state each time
        counting.read = 0
        await asyncio.gather(*(past.state(summary, seq) for seq in (333, 999, 120)))
        assert counting.read <= 3 * 50
        with pytest.raises(EpisodeDamaged, match="ends before event 1050"):
            await past.state(summary, 2000)

    on_long_record(tmp_path, 500, work)


def test_states_are_thinned_out_and_records_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_states, "MOST_STATES", 8)
    monkeypatch.setattr(past_states, "MOST_RECORDS", 1)

    async def work(journal: SqlJournal, summary: EpisodeSummary) -> None:
        views = ViewReader(journal)
        whole = await views.read(EPISODE)
        counting = Counting(views)
        past = PastStates(counting, spacing=10)
        assert await past.state(summary, 900) == replay_state(whole[:900])
        counting.read = 0
        assert await past.state(summary, 450) == replay_state(whole[:450])
        assert 0 < counting.read <= 320
        with pytest.raises(EpisodeDamaged):
            await past.state(EpisodeSummary(**{**_fields(summary), "episode_id": "ep-none"}), 1)
        counting.read = 0
        await past.state(summary, 450)
        assert counting.read >= 450  # the other record took its place

    on_long_record(tmp_path, 500, work)


def _fields(summary: EpisodeSummary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in EpisodeSummary.__dataclass_fields__}


def test_what_lies_before_the_end_is_read_from_the_view_that_is_kept_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WORTH_KEEPING", 1_000)
    monkeypatch.setattr(reader, "BEFORE_END", 100)

    async def work(journal: SqlJournal, summary: EpisodeSummary) -> None:
        whole = await ViewReader(journal).read(EPISODE)
        assert await ViewReader(journal).state(summary) == replay_state(whole)
        again, asked = ViewReader(journal), 0
        texts = again.texts

        async def counted(episode_id: str, **given: Any) -> list[str]:
            nonlocal asked
            found = await texts(episode_id, **given)
            asked += len(found)
            return found

        monkeypatch.setattr(again, "texts", counted)
        assert await again.state(summary) == replay_state(whole)
        assert asked == 100
        near = summary.head_seq - 60
        assert await again.state_after(summary, near) == replay_state(whole[:near])
        assert asked == 140

    on_long_record(tmp_path, 1_500, work)
