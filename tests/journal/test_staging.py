"""What is staged is no episode before the first append to it, and never half of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectator.errors import JournalError, SequenceConflict
from spectator.events import RecordedEvent
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, said, started, url_of
from tests.postgres import Cluster

both = pytest.mark.usefixtures("each_store")


def episode(episode_id: str) -> list[RecordedEvent]:
    """A record of seven events, some of them in more than ASCII."""
    told = [said(episode_id, seq, "é" * seq) for seq in range(2, 7)]
    return [started(episode_id), *told, ended(episode_id, 7)]


@both
async def test_the_first_append_makes_an_episode_of_what_was_staged(tmp_path: Path) -> None:
    events = episode("ep-1")
    journal = await SqlJournal.open(url_of(tmp_path))
    whole = await SqlJournal.open(url_of(tmp_path / "whole"))
    await whole.append(events)
    journal.begin_staging("ep-1")
    await journal.append(events[:2])
    await journal.append(events[2:5])
    assert await journal.episode("ep-1") is None
    assert await journal.episodes(EpisodeFilter()) == []
    journal.end_staging("ep-1")
    await journal.append(events[5:])
    assert await journal.read("ep-1") == events
    assert await journal.episode("ep-1") == await whole.episode("ep-1"), "the digest, too"
    await journal.unstage("ep-1")
    await journal.tidy()
    assert await journal.read("ep-1") == events
    await journal.aclose()
    await whole.aclose()


@both
async def test_what_is_there_already_is_not_staged(tmp_path: Path) -> None:
    events = episode("ep-1")
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append(events[:3])
    journal.begin_staging("ep-1")
    with pytest.raises(SequenceConflict):
        await journal.append(events[:3])
    await journal.unstage("ep-1")
    assert await journal.read("ep-1") == events[:3], "an episode that is there is left alone"
    assert await journal.episode("ep-1") is not None
    await journal.append(events[3:])
    await journal.aclose()


@both
async def test_nothing_staged_is_an_episode_like_others(tmp_path: Path) -> None:
    events = episode("ep-1")
    journal = await SqlJournal.open(url_of(tmp_path))
    journal.begin_staging("ep-1")
    await journal.append([started("ep-2")])
    assert await journal.episode("ep-2") is not None, "another one is no matter"
    journal.end_staging("ep-1")
    await journal.append(events)
    assert await journal.read("ep-1") == events
    await journal.aclose()


@both
async def test_what_is_being_removed_becomes_no_episode(tmp_path: Path) -> None:
    events = episode("ep-1")
    journal = await SqlJournal.open(url_of(tmp_path))
    journal.begin_staging("ep-1")
    await journal.append(events[:3])
    staging = journal._staged.episodes["ep-1"]
    await journal.unstage("ep-1")
    journal._staged.episodes["ep-1"] = staging
    journal.end_staging("ep-1")
    with pytest.raises(JournalError, match="were removed"):
        await journal.append(events[3:])
    assert await journal.read("ep-1") == []
    await journal.aclose()


@both
async def test_a_start_removes_what_a_death_left(tmp_path: Path) -> None:
    events = episode("ep-1")
    journal = await SqlJournal.open(url_of(tmp_path))
    journal.begin_staging("ep-1")
    await journal.append(events[:3])
    await journal.tidy()
    assert len(await journal.read("ep-1")) == 3, "not while it is being written"
    await journal.aclose()
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.tidy()
    assert await journal.read("ep-1") == []
    await journal.append(events)
    assert await journal.read("ep-1") == events, "and its number is free"
    await journal.aclose()


@both
async def test_the_last_event_within_so_many_characters(tmp_path: Path) -> None:
    events = episode("ep-1")
    sizes = [len(one.text) for one in events]
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append(events)
    for last in range(len(events) + 1):
        size = sum(sizes[:last])
        assert await journal.last_within("ep-1", size, until=len(events)) == last
        assert await journal.last_within("ep-1", size - 1, until=len(events)) == max(0, last - 1)
    assert await journal.last_within("ep-1", sum(sizes), until=3) == 3
    assert await journal.last_within("ep-2", 1000, until=3) == 0
    await journal.aclose()


async def test_another_server_leaves_alone_what_is_being_staged(
    postgres: Cluster, journal_template: str, tmp_path: Path
) -> None:
    """Where several processes may write: until the one that stages is deposed."""
    url = postgres.url(postgres.database_of(tmp_path, journal_template))

    events = episode("ep-1")
    here, there = await SqlJournal.open(url), await SqlJournal.open(url)
    here.begin_staging("ep-1")
    await here.append(events[:3])
    await there.tidy()
    await here.append(events[3:5])
    here.end_staging("ep-1")
    await here.append(events[5:])
    assert await there.read("ep-1") == events
    here.begin_staging("ep-2")
    await here.append([started("ep-2")])
    await here.aclose()  # which gives its leases back
    await there.tidy()
    assert await there.read("ep-2") == []
    assert await there.read("ep-1") == events
    await there.aclose()
    postgres.give_back()
