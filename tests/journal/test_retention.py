"""What is beyond the limits goes, oldest first; what has not ended stays; room comes back; appends go on."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import timestamp
from spectator.events import Event, RecordedEvent, encode_json, record
from spectator.journal.contract import Attachments, EpisodeFilter, truth_digest
from spectator.journal.retention import BATCH, Keep, begin_removal, continue_removal
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.calls import call_of, decided, user
from tests.journal.records import ended, execute, run, said, seqs, started, url_of

both = pytest.mark.usefixtures("each_store")

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def ended_at(episode_id: str, seq: int, moment: datetime) -> RecordedEvent:
    data = {"reason": "finished", "score": 1.0, "result": None, "turns": 1}
    return record(Event(episode_id, "e1", seq, timestamp(moment), 1, "episode.ended", data))


async def fill(journal: SqlJournal, episodes: int, *, length: int = 3, text: str = "x") -> None:
    """Episode number n ended n days ago; ``ep-unended`` is the oldest of all."""
    await journal.append([started("ep-0-unended"), said("ep-0-unended", 2)])
    for age in range(episodes, 0, -1):
        name = f"ep-{age:02d}"
        await journal.append([started(name)])
        for first in range(2, length, 50):
            last = min(first + 50, length)
            await journal.append([said(name, seq, text) for seq in range(first, last)])
        await journal.append([ended_at(name, length, NOW - timedelta(days=age))])


async def names(journal: SqlJournal) -> list[str]:
    return sorted(one.episode_id for one in await journal.episodes(EpisodeFilter()))


@both
@pytest.mark.parametrize(
    ("keep", "goes"),
    [
        (Keep(), []),
        (Keep(episodes=4), ["ep-05 count"]),
        (Keep(episodes=2), ["ep-05 count", "ep-04 count", "ep-03 count"]),
        (Keep(episodes=9), []),
        (Keep(days=3.5), ["ep-05 age", "ep-04 age"]),
        (Keep(days=0.5), [f"ep-{age:02d} age" for age in (5, 4, 3, 2, 1)]),
        (Keep(mb=100), []),
        (Keep(mb=0.001), [f"ep-{age:02d} size" for age in (5, 4, 3, 2, 1)]),
        (Keep(episodes=3, days=4.5), ["ep-05 age", "ep-04 count"]),
    ],
)
async def test_each_limit_takes_the_oldest_and_never_one_that_has_not_ended(
    tmp_path: Path, keep: Keep, goes: list[str]
) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await fill(journal, 5)
    old = await journal.surplus(keep, NOW)
    assert [f"{one.episode_id} {one.why}" for one in old] == goes
    for one in old:
        await journal.remove(one.episode_id)
    await journal.tidy()
    gone = {one.split()[0] for one in goes}
    kept = [name for name in ("ep-0-unended", *(f"ep-{age:02d}" for age in range(1, 6))) if name not in gone]
    assert await names(journal) == kept
    for name in gone:
        assert await journal.read(name) == []
    assert await journal.surplus(keep, NOW) == []
    await journal.remove("ep-0-unended")
    assert seqs(await journal.read("ep-0-unended")) == [1, 2]
    await journal.aclose()


async def test_by_size_as_much_goes_as_must_and_the_file_shrinks(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await fill(journal, 10, length=300, text="x" * 1000)
    before = await journal.figures()
    assert before.bytes > 3_000_000
    keep = Keep(mb=2)
    old = await journal.surplus(keep, NOW)
    assert 2 <= len(old) <= 7
    for one in old:
        await journal.remove(one.episode_id)
    await journal.tidy()
    after = await journal.figures()
    assert 1_000_000 < after.bytes <= 2_050_000
    assert after.free_bytes < 50_000
    assert after.episodes == before.episodes - len(old)
    for checkpoint in (False, True):
        if checkpoint:
            long = (tmp_path / "journal.db").stat().st_size
            with closing(sqlite3.connect(tmp_path / "journal.db")) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            assert (tmp_path / "journal.db").stat().st_size < long
        await journal.check()
        name = f"ep-later-{checkpoint}"  # a file that shrinks in order is not one that was cut off
        await journal.append([started(name)])
    await journal.aclose()
    assert (tmp_path / "journal.db").stat().st_size <= 2_100_000


@both
async def test_appends_go_on_while_a_long_episode_is_removed(tmp_path: Path) -> None:
    """A removal is many small transactions, with whatever waits in between."""

    journal = await SqlJournal.open(url_of(tmp_path))
    await fill(journal, 1, length=BATCH * 30)
    order: list[str] = []

    async def removing() -> None:
        await journal.remove("ep-01")
        order.append("removed")

    async def appending() -> None:
        await journal.append([started("ep-new")])
        for seq in range(2, 12):
            await journal.append([said("ep-new", seq)])
            order.append(f"event {seq}")

    await asyncio.gather(removing(), appending())
    assert order.index("event 5") < order.index("removed")
    assert seqs(await journal.read("ep-new")) == list(range(1, 12))
    await journal.aclose()


KILLED = """
    import asyncio, os, signal, sys
    from spectator.journal import retention
    from spectator.journal.sql_journal import SqlJournal
    go_on, batches = retention.continue_removal, []
    def die(connection, episode_id):
        batches.append(episode_id)
        if len(batches) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return go_on(connection, episode_id)
    retention.continue_removal = die
    async def main():
        journal = await SqlJournal.open(sys.argv[1])
        await journal.remove("ep-01")
    asyncio.run(main())
"""


@both
def test_a_removal_that_a_death_interrupts_is_finished_later(tmp_path: Path) -> None:
    async def make() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await fill(journal, 2, length=BATCH * 10)
        await journal.aclose()

    async def look() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        assert await names(journal) == ["ep-0-unended", "ep-02"]
        assert len(await journal.read("ep-01")) == BATCH * 7
        await journal.tidy()
        assert await journal.read("ep-01") == []
        assert len(await journal.read("ep-02")) == BATCH * 10
        await journal.aclose()

    run(make())
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), url_of(tmp_path)], timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL
    run(look())


def test_the_command_says_what_it_would_do_then_does_it(tmp_path: Path) -> None:
    async def make() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await fill(journal, 4)
        await journal.aclose()

    def listed() -> list[Any]:
        connection = sqlite3.connect(tmp_path / "journal.db")
        try:
            return [row[0] for row in connection.execute("SELECT episode_id FROM episodes ORDER BY 1")]
        finally:
            connection.close()

    run(make())
    folder = ("--data-dir", str(tmp_path))
    before = listed()
    dry = spectator("prune", *folder, "--keep-episodes", "2", "--dry-run")
    assert dry.exit_code == 0
    assert [line.split()[0] for line in dry.stdout.splitlines()] == ["ep-04", "ep-03"]
    assert "2 episodes, 0.0 MB would be removed" in dry.stderr
    assert listed() == before
    done = spectator("prune", *folder, "--keep-episodes", "2")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == dry.stdout
    assert listed() == ["ep-0-unended", "ep-01", "ep-02"]
    for arguments, says in (
        ((), "set --keep-episodes"),
        (("--keep-days", "-1"), "-1"),
        (("--keep-mb", "much"), "much"),
    ):
        refused = spectator("prune", *folder, *arguments)
        assert refused.exit_code != 0
        assert says in refused.stderr


def test_a_file_that_does_not_shrink_by_itself_is_made_to_by_compacting_it(tmp_path: Path) -> None:
    async def recorded() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        await journal.append([started("ep-1"), ended("ep-1", 2)])
        await journal.append([started("ep-2")])
        await journal.aclose()

    run(recorded())
    connection = sqlite3.connect(tmp_path / "journal.db")
    connection.executescript("PRAGMA auto_vacuum=NONE; VACUUM")
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    connection.close()
    result = spectator("prune", "--data-dir", str(tmp_path), "--keep-days", "0.5", "--compact")
    assert result.exit_code == 0, result.stderr
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
    connection.close()


def test_limits_are_not_negative() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Keep(days=-1)


@both
def test_model_calls_and_truth_are_counted_and_go_with_their_episode(tmp_path: Path) -> None:
    """A killed process may stop between any two batches; what is left is finished by the next."""
    calls = [
        call_of([user(f"question {n} {os.urandom(400).hex()}")], tokens=range(50)) for n in range(BATCH + 5)
    ]
    truth = encode_json({"hidden": os.urandom(4000).hex()})

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        for name in ("ep-1", "ep-2"):
            await journal.append([started(name)])
            for seq, call in enumerate(calls, 2):
                event = decided(name, seq, [call])
                await journal.append([event], attachments=Attachments(calls=[[call]]))
            end = ended_at(name, len(calls) + 2, NOW - timedelta(days=3)).event
            end = replace(end, data={**end.data, "truth": truth_digest(truth)})
            await journal.append([record(end)], attachments=Attachments(truth=truth))
        (one, _) = await journal.surplus(Keep(days=1), NOW)
        assert one.events == len(calls) + 2
        texts = sum(len(event.text) for event in await journal.read("ep-1"))
        assert one.bytes > texts + 400 * len(calls) + 4000
        assert journal._writer is not None
        await journal._writer.run(lambda connection: begin_removal(connection, "ep-1"))
        await journal._writer.run(lambda connection: continue_removal(connection, "ep-1"))
        await journal.tidy()
        left = {table: counted(tmp_path, table) for table in ("events", "calls", "messages", "truths")}
        assert left == {
            "events": {"ep-2": len(calls) + 2},
            "calls": {"ep-2": len(calls)},
            "messages": {"ep-2": len(calls) + 1},
            "truths": {"ep-2": 1},
        }
        await journal.compact()
        assert len([one async for one in journal.calls("ep-2")]) == len(calls)
        assert await journal.truth("ep-2") == truth
        await journal.aclose()

    run(scenario())


def counted(folder: Path, table: str) -> dict[str, int]:
    return dict(execute(folder, f"SELECT episode_id, count(*) FROM {table} GROUP BY episode_id"))
