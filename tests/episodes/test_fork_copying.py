"""The past of a fork is written in batches, and nobody ever finds half of it, however the process ends."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.episodes import fork as copying
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.episodes.recovery import Recovered
from spectator.errors import EpisodeBusy, JournalError, JournalUnavailable
from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments, EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import Stage, no_environment_threads, recover, supervising
from tests.episodes.test_forking import discrepancies
from tests.episodes.test_playing_on import ROOT, step_ends, url_of

PARENT = "ep-0001"
COUNT: dict[str, Any] = {"turns": 30, "payload_bytes": 300}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches hold a few events."""
    monkeypatch.setattr(copying, "BATCH_CHARACTERS", 3000)


async def nothing(episode_id: str) -> None:
    """What is done after a batch, as a rule."""


class Staging(SqlJournal):
    """A journal that does something before or after the staging of a batch, by the batch's number from 1."""

    batches = 0
    fails_at = 0
    waits_at = 0
    waiting: asyncio.Event
    appends_fail = False
    after_batch: Callable[[str], Awaitable[None]]

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        staging = self._staged.episodes.get(events[0].episode_id)
        if staging is None or not staging.goes_on:
            if self.appends_fail:
                raise JournalUnavailable("the disk is full")
            await super().append(events, attachments=attachments)
            return
        self.batches += 1
        if self.batches == self.fails_at:
            raise JournalUnavailable("the disk is full")
        if self.batches == self.waits_at:
            self.waiting.set()
            await asyncio.Event().wait()
        await super().append(events, attachments=attachments)
        await self.after_batch(events[0].episode_id)


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[tuple[Stage, Staging, list[RecordedEvent]]]:
    """A supervisor, its journal, and a parent that has ended."""
    journal = await Staging.open(url_of(folder))
    journal.waiting, journal.after_batch = asyncio.Event(), nothing
    async with supervising(journal=journal) as stage:
        await (await stage.start(options=COUNT)).wait()
        yield stage, journal, await journal.read(PARENT)
    await journal.aclose()
    await no_environment_threads()


def rows(folder: Path) -> dict[str, set[str]]:
    """The episodes that have rows, by table."""
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        return {
            table: {one for (one,) in journal.execute(f"SELECT DISTINCT episode_id FROM {table}")}
            for table in ("events", "episodes", "removals")
        }


ALONE = {"events": {PARENT}, "episodes": {PARENT}, "removals": set()}


async def test_a_fork_of_many_batches_is_found_only_when_it_is_whole(tmp_path: Path) -> None:
    async with house(tmp_path) as (stage, journal, parent):
        seq = step_ends(parent)[-4]
        seen: list[Any] = []

        async def look(child: str) -> None:
            await journal.tidy()  # housekeeping comes by meanwhile
            await journal.remove(child)
            found = await journal.episodes(EpisodeFilter())
            seen.append((await journal.episode(child), [one.episode_id for one in found]))

        journal.after_batch = look
        fork = await stage.supervisor.fork(ForkRequest(PARENT, seq, pace=Pace.MAX))
        assert len(seen) > 3
        assert all(summary is None and ids == [PARENT] for summary, ids in seen)
        await fork.wait()
        events = await journal.read(fork.episode_id)
        assert await discrepancies(events) == []
        assert [one.event.data for one in events[1:seq]] == [one.event.data for one in parent[1:seq]]
        summary = await journal.episode(fork.episode_id)
        assert summary is not None and summary.parent == PARENT
        await journal.tidy()
        assert len(await journal.read(fork.episode_id)) == len(events)
    assert rows(tmp_path)["removals"] == set()


@pytest.mark.parametrize("batch", [1, 3])
async def test_a_disk_that_fills_up_meanwhile_leaves_nothing_of_it(tmp_path: Path, batch: int) -> None:
    async with house(tmp_path) as (stage, journal, parent):
        journal.fails_at = batch
        seq = step_ends(parent)[-4]
        with pytest.raises(JournalError, match="the disk is full"):
            await stage.supervisor.fork(ForkRequest(PARENT, seq))
        assert rows(tmp_path) == ALONE
        assert stage.supervisor.free_slots == 1
        fork = await stage.supervisor.fork(ForkRequest(PARENT, seq, pace=Pace.MAX))
        await fork.wait()


async def test_an_opening_that_cannot_be_recorded_leaves_nothing_of_it(tmp_path: Path) -> None:
    async with house(tmp_path) as (stage, journal, parent):
        journal.appends_fail = True
        with pytest.raises(JournalError, match="the disk is full"):
            await stage.supervisor.fork(ForkRequest(PARENT, step_ends(parent)[-4]))
        await asyncio.gather(*(one for one in stage.supervisor._tasks._tasks))
        assert rows(tmp_path) == ALONE
        assert stage.supervisor.free_slots == 1


async def test_who_goes_away_meanwhile_leaves_nothing_of_it(tmp_path: Path) -> None:
    async with house(tmp_path) as (stage, journal, parent):
        journal.waits_at = 3
        forking = asyncio.ensure_future(stage.supervisor.fork(ForkRequest(PARENT, step_ends(parent)[-4])))
        await journal.waiting.wait()
        assert rows(tmp_path)["removals"]
        forking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forking
        assert rows(tmp_path) == ALONE
        assert stage.supervisor.free_slots == 1


async def test_a_server_that_goes_away_does_not_finish_it(tmp_path: Path) -> None:
    async with house(tmp_path) as (stage, journal, parent):

        async def closing(child: str) -> None:
            await stage.supervisor.suspend()

        journal.after_batch = closing
        with pytest.raises(EpisodeBusy):
            await stage.supervisor.fork(ForkRequest(PARENT, step_ends(parent)[-4]))
        assert rows(tmp_path) == ALONE


async def test_a_parent_that_is_removed_meanwhile_makes_no_fork(tmp_path: Path) -> None:
    async with house(tmp_path) as (stage, journal, parent):

        async def removing(child: str) -> None:
            await journal.remove(PARENT)

        journal.after_batch = removing
        with pytest.raises(JournalError):
            await stage.supervisor.fork(ForkRequest(PARENT, step_ends(parent)[-4]))
        assert rows(tmp_path) == {"events": set(), "episodes": set(), "removals": set()}


DYING = """
    import asyncio, os, signal, sys
    from spectator.episodes import fork
    from spectator.episodes.fork import ForkRequest
    from spectator.episodes.controls import Pace
    from spectator.journal import writer
    from spectator.journal.sql_journal import SqlJournal
    from tests.episodes.harness import supervising

    fork.BATCH_CHARACTERS = 3000
    folder, seq, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    async def main():
        journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
        commit = writer.Writer._commit

        def dying(self, connection, group):
            global commits
            if group and group[0].events[0].episode_id != "ep-0001":
                commits -= 1
                if commits < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            commit(self, connection, group)

        writer.Writer._commit = dying
        async with supervising(journal=journal) as stage:
            next(stage.supervisor.new_id.__closure__[0].cell_contents)
            fork = await stage.supervisor.fork(ForkRequest("ep-0001", seq, pace=Pace.MAX))
            await fork.wait()

    asyncio.run(main())
"""


def test_killed_at_any_commit_of_it_there_is_a_whole_fork_or_none(tmp_path: Path) -> None:
    """Real kills, before every commit in turn; the next start removes what is left, or plays the fork on."""

    async def parent() -> int:
        async with house(tmp_path) as (_, _, events):
            return step_ends(events)[-14]

    async def after(folder: Path, seq: int) -> bool:
        journal = await SqlJournal.open(url_of(folder))
        found = {one.episode_id for one in await journal.episodes(EpisodeFilter())} - {PARENT}
        async with supervising(journal=journal) as stage:
            recovered = await recover(journal, SystemClock(), stage.supervisor)
            assert recovered == (Recovered(playing=[*found]) if found else Recovered())
            for episode in stage.supervisor.running():
                await episode.wait()
        await journal.tidy()
        for child in found:
            events = await journal.read(child)
            assert len(events) > seq and await discrepancies(events) == []
        await journal.aclose()
        here = rows(folder)
        assert here["events"] == here["episodes"] == {PARENT, *found} and not here["removals"]
        return bool(found)

    seq = asyncio.run(parent())
    whole, commits = False, 0
    while not whole:
        folder = tmp_path / f"killed-before-{commits}"
        folder.mkdir()
        (folder / "journal.db").write_bytes((tmp_path / "journal.db").read_bytes())
        died = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DYING), str(folder), str(seq), str(commits)],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
        if 0 < commits:
            left = rows(folder)
            assert left["events"] > {PARENT} and (left["removals"] or left["episodes"] > {PARENT})
        whole = asyncio.run(after(folder, seq))
        commits += 1
    assert commits > 4
