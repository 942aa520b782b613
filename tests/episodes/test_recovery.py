"""What an earlier process left without an end gets one, and nothing else is touched."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

from spectator.episodes.recovery import Recovered
from spectator.episodes.view import replay_state
from spectator.events import RecordedEvent, decode
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import drive, end_of, recover, supervising, types
from tests.fakes import ManualClock, until, world_with

ROOT = Path(__file__).resolve().parent.parent.parent


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'journal.db'}"


def renamed(events: list[RecordedEvent], episode_id: str) -> list[RecordedEvent]:
    return [decode(one.text.replace('"ep-test"', f'"{episode_id}"')) for one in events]


async def test_an_episode_without_an_end_is_interrupted_and_the_others_stay(tmp_path: Path) -> None:
    whole = (await drive(world_with(), turns=3)).events
    journal = await SqlJournal.open(url_of(tmp_path))
    for number in range(250):
        await journal.append(renamed(whole[: 4 if number % 2 else None], f"ep-{number:03d}"))
    recovered = await recover(journal, ManualClock())
    assert sorted(recovered.interrupted) == [f"ep-{number:03d}" for number in range(1, 250, 2)]
    assert await recover(journal, ManualClock()) == Recovered()
    assert await journal.episodes(EpisodeFilter(ended=False)) == []

    left = await journal.read("ep-001")
    assert end_of(left)["reason"] == "interrupted"
    assert end_of(left)["turns"] == left[3].event.turn == 1
    assert (left[-1].event.at, left[-1].event.epoch) == ("2026-11-21T05:00:00.000Z", "e")
    state = replay_state(left)
    assert state["episode"]["status"] == "ended"
    assert state["episode"]["ended_at"] == "2026-11-21T05:00:00.000Z"
    assert state["world"] == replay_state(left[:-1])["world"]
    assert await journal.read("ep-000") == renamed(whole, "ep-000")
    summary = await journal.episode("ep-001")
    assert summary is not None
    assert (summary.reason, summary.head_seq) == ("interrupted", 5)
    await journal.aclose()


async def test_a_damaged_episode_does_not_keep_the_server_from_starting(tmp_path: Path) -> None:
    begun = (await drive(world_with(), turns=3)).events[:4]
    journal = await SqlJournal.open(url_of(tmp_path))
    for name in ("ep-1", "ep-2", "ep-3"):
        await journal.append(renamed(begun, name))
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute("UPDATE events SET text = '{' WHERE episode_id = 'ep-2' AND seq = 3")
    connection.close()
    assert sorted((await recover(journal, ManualClock())).interrupted) == ["ep-1", "ep-3"]
    await journal.aclose()


LIVE = """
    import asyncio, sys
    from spectator.episodes.plan import EpisodeRequest
    from spectator.journal.sql_journal import SqlJournal
    from tests.episodes.harness import recover, supervising
    async def main():
        async with supervising(journal=await SqlJournal.open(sys.argv[1])) as stage:
            episode = await stage.start(options={"turns": 1_000_000})
            while True:
                await asyncio.sleep(0.01)
                print(episode.head_seq, flush=True)
    asyncio.run(main())
"""


def test_an_episode_killed_in_the_middle_is_whole_up_to_there_and_then_ended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LIVE), url_of(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as playing:
        assert playing.stdout is not None
        head = 0
        while head < 30:
            head = int(playing.stdout.readline())
        playing.kill()

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        assert (await recover(journal, ManualClock())).interrupted == ["ep-0001"]
        events = await journal.read("ep-0001")
        assert len(events) > head
        assert end_of(events)["reason"] == "interrupted"
        assert types(events)[-2] in ("step.taken", "counting.number_said"), "steps are kept whole"
        assert types(events)[-2] == "step.taken"
        await journal.aclose()

    asyncio.run(scenario())


def recovery_peak(folder: Path, turns: int) -> int:
    """The most bytes that Python holds while so many large turns are recovered from their record."""

    async def scenario() -> int:
        journal = await SqlJournal.open(url_of(folder))
        async with supervising(journal=journal) as stage:
            options = {"turns": 100_000, "payload_bytes": 65_536}
            episode = await stage.start(options=options)
            await until(lambda: episode.turn >= turns)
            await stage.supervisor.suspend()
        async with supervising(journal=journal) as stage:
            await journal.transact(lambda connection: connection.exec_driver_sql("DELETE FROM checkpoints"))
            tracemalloc.start()
            recovered = await recover(journal, ManualClock(), stage.supervisor)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert recovered.playing == ["ep-0001"]
        await journal.aclose()
        return peak

    return asyncio.run(scenario())


def test_memory_is_bounded_by_the_state_and_not_by_the_record(tmp_path: Path) -> None:
    """A record of 20 MB took three times as much again."""
    short, long = (recovery_peak(tmp_path / str(turns), turns) for turns in (75, 300))
    assert long < 1.5 * short
