"""The ends of a record without an end say the same, read from the journal or from a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectator.episodes.controls import Pace
from spectator.episodes.restore import TAIL, UnfinishedRecord
from spectator.errors import EpisodeDamaged
from spectator.events import Event, RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import supervising
from tests.episodes.test_playing_on import played, url_of
from tests.fakes import NO_JOURNAL
from tests.journal.records import said


def event(seq: int, kind: str) -> RecordedEvent:
    return record(Event("ep-0001", "e", seq, "2026-11-21T05:00:00.000Z", 1, kind, {"by": "test"}))


def left(first: RecordedEvent, kinds: list[str]) -> list[RecordedEvent]:
    return [first, *(event(seq, kind) for seq, kind in enumerate(kinds, 2))]


PAUSED, RESUMED, AGAIN = "episode.paused", "episode.resumed", "episode.recovered"


@pytest.mark.parametrize(
    ("kinds", "recoveries", "paused"),
    [
        ([], 0, False),
        ([AGAIN], 1, False),
        ([AGAIN, AGAIN, "decision.made", "step.taken", AGAIN], 1, False),
        ([AGAIN, "episode.suspended"], 0, False),
        ([AGAIN] * (3 * TAIL), 3 * TAIL, False),
        ([PAUSED], 0, True),
        ([PAUSED, RESUMED], 0, False),
        ([PAUSED, RESUMED, PAUSED, AGAIN], 1, True),
        ([PAUSED, *["pace.changed"] * (2 * TAIL), AGAIN], 1, True),
        (["decision.made", *["narration.clip"] * (2 * TAIL + 3), AGAIN], 1, False),
    ],
)
async def test_the_ends_of_a_record(tmp_path: Path, kinds: list[str], recoveries: int, paused: bool) -> None:
    whole = await played(tmp_path)
    recorded = left(whole[0], kinds)
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append(recorded)
    summary = await journal.episode("ep-0001")
    assert summary is not None
    for found in (await UnfinishedRecord.read(journal, summary), UnfinishedRecord.of(recorded, journal)):
        assert (found.first, found.last) == (recorded[0].event, recorded[-1].event)
        assert (found.recoveries, found.paused) == (recoveries, paused)
        assert [one async for one in found.events(0)] == recorded
        assert [one async for one in found.events(1)] == recorded[1:]
    await journal.aclose()


def test_what_does_not_begin_with_a_start_is_damaged(tmp_path: Path) -> None:
    for recorded in ([], [said("ep-1", 1)]):
        with pytest.raises(EpisodeDamaged, match="does not begin with its start"):
            UnfinishedRecord.of(recorded, NO_JOURNAL)


async def test_a_pause_of_a_real_episode_is_seen(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(journal=journal) as stage:
        episode = await stage.start(pace=Pace.FAST, options={"turns": 50})
        await episode.pause("test")
        await stage.supervisor.suspend()
    summary = await journal.episode("ep-0001")
    assert summary is not None
    assert (await UnfinishedRecord.read(journal, summary)).paused
    await journal.aclose()
