"""What viewers see of a long record is folded from the newest view beside it, and comes to the same."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spectator.episodes import derived_pages, reader
from spectator.episodes import supervisor as hosting
from spectator.episodes.checkpoints import Checkpointer
from spectator.episodes.reader import ViewReader
from spectator.episodes.view import State, replay_state
from spectator.errors import EpisodeDamaged
from spectator.journal.encoding import compressed, expanded
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import supervising
from tests.fakes import ManualClock

EPISODE = "ep-0001"
LENGTHS = {"READ_CHARACTERS": 2000, "KEPT_TEXTS": 6000, "MARKS": 4, "CURSORS": 2}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long is short here."""
    monkeypatch.setattr(reader, "WORTH_KEEPING", 3000)
    for name, value in LENGTHS.items():
        monkeypatch.setattr(derived_pages, name, value)


async def played(folder: Path, **asked: Any) -> SqlJournal:
    """A journal that holds one ended episode."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        options = {"turns": 60, "payload_bytes": 200}
        episode = await stage.start(environment="counting", options=options, seed=5, **asked)
        assert (await episode.wait()).reason == "finished"
    return journal


def watched(journal: SqlJournal, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the events that are read from here on, but for the first, which says how to read them."""
    seqs: list[int] = []
    read, texts = journal.read, journal.texts

    async def noted_read(episode_id: str, **how: Any) -> Any:
        found = await read(episode_id, **how)
        if how.get("limit") != 1:
            seqs.extend(one.seq for one in found)
        return found

    async def noted_texts(episode_id: str, **how: Any) -> Any:
        found = await texts(episode_id, **how)
        seqs.extend(json.loads(text)["seq"] for text in found)
        return found

    monkeypatch.setattr(journal, "read", noted_read)
    monkeypatch.setattr(journal, "texts", noted_texts)
    return seqs


async def seen(journal: SqlJournal) -> tuple[State, int]:
    """What a reader that knows nothing yet says of the end, and its number."""
    records = ViewReader(journal)
    summary = await records.episode(EPISODE)
    assert summary is not None
    return await records.state(summary), summary.head_seq


async def test_a_long_record_is_folded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = await played(tmp_path)
    whole = await journal.read(EPISODE)
    expected = replay_state(whole), whole[-1].seq
    read = watched(journal, monkeypatch)
    assert await seen(journal) == expected
    assert read == [one.seq for one in whole]
    read.clear()
    assert await seen(journal) == expected and read == []
    await journal.tidy()
    assert await seen(journal) == expected and read == []
    await journal.aclose()


async def test_what_recovery_would_go_on_from_serves_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "Checkpointer", partial(Checkpointer, characters=4000))

    journal = await played(tmp_path)
    await journal.tidy()
    (left,) = await journal.checkpoints(EPISODE)
    whole = await journal.read(EPISODE)
    read = watched(journal, monkeypatch)
    assert await seen(journal) == (replay_state(whole), whole[-1].seq)
    assert read == list(range(left.seq + 1, whole[-1].seq + 1)) and left.seq > whole[-1].seq / 2
    await journal.aclose()


@pytest.mark.parametrize("view", ["live", "derived"])
@pytest.mark.parametrize(
    "body", [b"no JSON", b"{}", b'{"state":[]}', b'{"state":{},"view":{"epoch":"x","seq":1}}']
)
async def test_one_that_is_no_view_is_not_used(tmp_path: Path, view: str, body: bytes) -> None:
    journal = await played(tmp_path, view=view)
    expected = await seen(journal)
    (newest, *_) = await journal.checkpoints(EPISODE)
    await journal.keep_checkpoint(type(newest)(EPISODE, newest.seq, compressed(body)))
    assert await seen(journal) == expected and expected[0]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file, file:
        file.execute("UPDATE checkpoints SET body = x'00'")
    assert await seen(journal) == expected
    await journal.aclose()


async def test_a_derived_view_goes_on_from_where_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await played(tmp_path, view="derived")
    whole = [one async for one in ViewReader(journal).stream(EPISODE)]
    expected = replay_state(whole), whole[-1].event.seq
    assert await seen(journal) == expected
    read = watched(journal, monkeypatch)
    assert await seen(journal) == expected and read == []
    again = ViewReader(journal)
    assert await again.read(EPISODE, limit=5) == whole[:5]
    assert await again.read(EPISODE) == whole
    (newest, *_) = await journal.checkpoints(EPISODE)
    told = json.loads(expanded(newest.body))
    told["view"]["made_by"] = "another version"
    other = type(newest)(EPISODE, newest.seq, compressed(json.dumps(told).encode()))
    await journal.keep_checkpoint(other)
    read.clear()
    assert await seen(journal) == expected and read, "it was derived anew"
    await journal.aclose()


async def test_any_page_of_a_long_derived_view_is_that_of_the_whole(tmp_path: Path) -> None:
    journal = await played(tmp_path, view="derived")
    whole = [one.text async for one in ViewReader(journal).stream(EPISODE)]
    records, rng = ViewReader(journal), random.Random(4)
    summary = await records.episode(EPISODE)
    assert summary is not None and summary.head_seq == len(whole)
    pages = records._derived[EPISODE]
    assert len(pages._marks) <= LENGTHS["MARKS"] and sum(map(len, whole)) > 5 * LENGTHS["KEPT_TEXTS"]
    for _ in range(60):
        after, limit = rng.randrange(-1, len(whole) + 3), rng.choice((1, 2, 7, 30, None))
        first = max(0, after)
        expected = whole[first:] if limit is None else whole[first : first + limit]
        assert await records.texts(EPISODE, after_seq=after, limit=limit) == expected, (after, limit)
        assert sum(map(len, pages._texts)) <= LENGTHS["KEPT_TEXTS"]
        assert len(pages._cursors) <= LENGTHS["CURSORS"]
    await journal.aclose()


async def test_a_derived_view_is_read_on_from_where_a_reader_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await played(tmp_path, view="derived")
    records = ViewReader(journal)
    await records.episode(EPISODE)
    texts: list[str] = []
    read = watched(journal, monkeypatch)
    while page := await records.texts(EPISODE, after_seq=len(texts), limit=4):
        texts += page
    assert texts == [one.text async for one in ViewReader(journal).stream(EPISODE)]
    recorded = (await journal.read(EPISODE))[-1].seq
    assert len(read) < 8 * recorded, "each page reads about what it shows"
    await journal.aclose()


async def test_a_state_within_a_long_derived_view_is_derived_from_a_mark_near_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BEFORE_END", 20)
    monkeypatch.setattr(derived_pages, "MARKS", 64)

    journal = await played(tmp_path, view="derived")
    whole = [one async for one in ViewReader(journal).stream(EPISODE)]
    summary = await ViewReader(journal).episode(EPISODE)
    assert summary is not None and summary.head_seq == len(whole)
    records = ViewReader(journal)
    for seq in (len(whole), 0, 1, len(whole) // 2, len(whole) // 2 - 1, 3, len(whole) - 1):
        assert await records.state_after(summary, seq) == replay_state(whole[:seq]), seq
    read = watched(journal, monkeypatch)
    assert await records.state_after(summary, len(whole) // 2) == replay_state(whole[: len(whole) // 2])
    assert len(read) < len(whole) / 4, "a mark was kept on the way"
    read.clear()
    assert (await ViewReader(journal).texts(EPISODE, after_seq=len(whole) - 15))[0] == whole[-15].text
    assert min(read) > len(whole) - 40, "the view that is kept lies before the last page"
    with pytest.raises(EpisodeDamaged, match="ends before event"):
        await records.state_after(summary, len(whole) + 5)
    await journal.aclose()
