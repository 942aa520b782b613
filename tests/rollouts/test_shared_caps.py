"""The caps of a run that several processes play: each reserves a part before it spends it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from ulid import ULID

from spectator.clock import SystemClock
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.runs.leased_log import LeasedLog
from spectator.runs.scheduler import CAP_PARTS, shared_ledger
from tests.rollouts.shared_runs import NAME, begin
from tests.rollouts.test_fleet import request

WHOLE = Caps(tokens=10 * CAP_PARTS, cost=5.0)
PART = 10
NONE = Caps()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/journal.db"


async def joined(
    url: str, whole: Caps = WHOLE, patience_s: float = 5.0, day: Caps = NONE
) -> tuple[SpendLedger, SqlJournal]:
    journal, clock = await SqlJournal.open(url, shared_as=str(ULID())), SystemClock()
    log = LeasedLog(journal, clock, patience_s)
    return await shared_ledger(NAME, (day, NONE, whole), journal, log, clock), journal


def reserved(url: str) -> float:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        ((tokens,),) = database.execute("SELECT tokens FROM fleet_runs").fetchall()
    return float(tokens)


def both(url: str, work: Callable[[SpendLedger, SpendLedger], Awaitable[None]]) -> None:
    """Do ``work`` with the ledgers of two who play a run."""

    async def scenario() -> None:
        (one, first), (two, second) = await joined(url), await joined(url)
        await work(one, two)
        await first.aclose()
        await second.aclose()

    begin(url, request("http://127.0.0.1:9/v1"))
    asyncio.run(scenario())


def test_nobody_spends_what_another_one_reserved(url: str) -> None:
    async def work(one: SpendLedger, two: SpendLedger) -> None:
        assert one.refusal() is not None, "nothing is spent before a part is reserved"
        assert (await one.reserve(), one.refusal()) == (None, None)
        assert reserved(url) == PART
        two.pay(Spent(WHOLE.tokens))  # of which nothing was reserved: it is counted whatever is left
        told = "the cap of 10,240 tokens for all of it is reached"
        assert await two.reserve() == two.refusal() == two.known_refusal() == told
        assert one.refusal() is None, "what one reserved is for it to spend"
        one.pay(Spent(PART - 1))
        assert (one.known_refusal(), await one.reserve()) == (None, None), "to the last of it"
        one.pay(Spent(1))
        assert await one.reserve() == told

    both(url, work)


def test_who_leaves_gives_back_and_who_dies_does_not(url: str) -> None:
    async def work(one: SpendLedger, two: SpendLedger) -> None:
        for ledger in (one, two):
            assert await ledger.reserve() is None
            ledger.pay(Spent(4))
        await one.give_back()
        assert reserved(url) == PART + 4

    both(url, work)


def test_money_is_reserved_too_and_what_is_not_limited_is_not(url: str) -> None:
    async def work(one: SpendLedger, two: SpendLedger) -> None:
        assert await one.reserve() is None
        one.pay(Spent(1, 5.0))
        assert await one.reserve() == "the cap of US$5 for all of it is reached"
        assert await two.reserve() == "the cap of US$5 for all of it is reached"
        free, journal = await joined(url, Caps())
        free.pay(Spent(10**9, 1e9))
        assert (free.refusal(), await free.reserve()) == (None, None)
        await journal.aclose()

    both(url, work)


def test_a_database_that_is_away_is_the_reason_and_no_cap(url: str) -> None:
    begin(url, request("http://127.0.0.1:9/v1"))

    async def scenario() -> None:
        ledger, journal = await joined(url, patience_s=0.2)
        await journal.aclose()
        told = await ledger.reserve()
        assert told is not None
        assert told.startswith("the shared cap cannot be checked now: ")
        assert ledger.known_refusal() == told

    asyncio.run(scenario())


def test_the_cap_of_a_day_is_that_of_all_workers_of_the_run(url: str) -> None:
    begin(url, request("http://127.0.0.1:9/v1"))

    async def scenario() -> None:
        (one, first), (two, second) = [await joined(url, NONE, day=Caps(tokens=640)) for _ in range(2)]
        assert await one.reserve() is None
        one.pay(Spent(700))
        told = "the day's cap of 640 tokens is reached, by all workers together"
        assert await one.reserve() == told
        assert await two.reserve() == two.known_refusal() == told
        await first.aclose()
        await second.aclose()

    asyncio.run(scenario())
