"""Nothing is started before it is known what was spent today, and what becomes of what ran before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from server.background.recovery import RETRY_S, Readiness
from spectator.episodes.recovery import Recovery
from spectator.errors import JournalError, Recovering
from spectator.journal.sql_journal import SqlJournal
from tests.fakes import ManualClock, until
from tests.journal.records import said, started, url_of


async def readiness(
    folder: Path, count: Callable[[], Awaitable[None]], clock: ManualClock
) -> tuple[SqlJournal, Readiness]:
    """With one episode that has no end."""
    journal = await SqlJournal.open(url_of(folder))
    await journal.append([started("ep-1"), said("ep-1", 2)])
    recovery = Recovery(journal, clock)
    await recovery.find()
    return journal, Readiness(recovery, count, clock)


def test_spending_that_cannot_be_counted_is_counted_again_and_holds_up_everything(tmp_path: Path) -> None:
    asked: list[float] = []

    def counted(times: int, clock: ManualClock) -> bool:
        return len(asked) == times and clock.sleepers == 1

    async def scenario() -> None:
        clock = ManualClock()

        async def count() -> None:
            asked.append(clock.monotonic())
            if len(asked) < 3:
                raise JournalError("not now")

        journal, ready = await readiness(tmp_path, count, clock)
        running = asyncio.get_running_loop().create_task(ready.run())
        for times in (1, 2):
            await until(partial(counted, times, clock))
            with pytest.raises(Recovering, match="0 of 1 done"):
                ready.need()
            with pytest.raises(Recovering):
                ready.need_of("ep-1")
            ready.need_of("ep-2")
            clock.advance(RETRY_S)
        await running
        assert (ready.ready, ready.recovery.recovered.interrupted) == (True, ["ep-1"])
        for episode_id in (None, "ep-1"):
            ready.need_of(episode_id)
        await ready.recovery.settled("ep-1")
        await ready.aclose()
        await journal.aclose()

    asyncio.run(scenario())
    assert asked == [0.0, RETRY_S, 2 * RETRY_S]


async def test_a_server_that_goes_away_while_it_counts_leaves_the_rest(tmp_path: Path) -> None:
    counting = asyncio.Event()

    async def count() -> None:
        counting.set()
        await asyncio.get_running_loop().create_future()

    journal, ready = await readiness(tmp_path, count, ManualClock())
    running = asyncio.get_running_loop().create_task(ready.run())
    await counting.wait()
    await ready.aclose()
    await running
    assert not ready.ready and len(await journal.read("ep-1")) == 2
    await journal.aclose()


async def test_what_is_no_failure_of_the_journal_is_not_tried_for_ever(tmp_path: Path) -> None:
    async def count() -> None:
        raise ZeroDivisionError

    journal, ready = await readiness(tmp_path, count, ManualClock())
    with pytest.raises(ZeroDivisionError):
        await ready.run()
    await journal.aclose()
