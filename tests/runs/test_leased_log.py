"""A run waits for its database, and for all of its work together no longer than its patience."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spectator.errors import JournalError, JournalUnavailable, LeaseLost
from spectator.runs.leased_log import LeasedLog
from tests.fakes import ManualClock, until


async def test_work_is_repeated_until_the_database_answers_or_patience_ends() -> None:
    clock, failure = ManualClock(), JournalError("the server closed the connection")
    log: Any = LeasedLog(None, clock, patience_s=10.0)  # type: ignore[arg-type]
    attempts, well = 0, False

    async def work() -> str:
        nonlocal attempts
        attempts += 1
        if not well:
            raise failure
        return "done"

    waiting = asyncio.ensure_future(log.patiently(work))
    await until(lambda: attempts == 1)
    well = True
    await until(lambda: clock.sleepers > 0)
    clock.advance(0.25)
    assert await waiting == "done"

    well = False
    waiting = asyncio.ensure_future(log.patiently(work))
    while not waiting.done():
        clock.advance(1.0)
        await asyncio.sleep(0)
    with pytest.raises(JournalUnavailable, match=r"closed the connection; given up after 1\d s"):
        await waiting
    before = attempts
    with pytest.raises(JournalUnavailable, match="given up after"):
        await log.patiently(work)
    assert attempts == before + 1, "the others need not find out again"


@pytest.mark.parametrize(("error", "patience_s"), [(LeaseLost("lost"), 10.0), (JournalError("gone"), 0.0)])
async def test_work_is_not_repeated_in_vain(error: JournalError, patience_s: float) -> None:
    log: Any = LeasedLog(None, ManualClock(), patience_s)  # type: ignore[arg-type]
    attempts = 0

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        raise error

    with pytest.raises(type(error)):
        await log.patiently(work)
    assert attempts == 1
