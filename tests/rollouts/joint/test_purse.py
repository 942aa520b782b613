"""The purse of a run that several processes play: each reserves a part before it spends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spectator.clock import SystemClock
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, Spent
from spectator.rollouts.joint.held_log import HeldLog
from spectator.rollouts.joint.purse import PARTS, FleetLedger
from tests.postgres import Cluster
from tests.rollouts.joint.joint_runs import NAME, begin
from tests.rollouts.test_fleet import request

WHOLE = Caps(tokens=10 * PARTS, cost=5.0)
PART = 10


async def joined(url: str, whole: Caps = WHOLE, patience_s: float = 5.0) -> tuple[FleetLedger, SqlJournal]:
    journal, clock = await SqlJournal.open(url), SystemClock()
    log = HeldLog(journal, clock, patience_s)
    ledger = FleetLedger((Caps(), Caps(), whole), clock, NAME, journal, log)
    await ledger.join()
    return ledger, journal


def reserved(postgres: Cluster, url: str) -> float:
    database = url.split("?")[0].rpartition("/")[2]
    return float(postgres.execute(database, "SELECT tokens FROM fleet_runs")[0][0])


def both(url: str, work: Callable[[FleetLedger, FleetLedger], Awaitable[None]]) -> None:
    """Do ``work`` with the ledgers of two who play a run."""

    async def scenario() -> None:
        (one, first), (two, second) = await joined(url), await joined(url)
        await work(one, two)
        await first.aclose()
        await second.aclose()

    begin(url, request("http://127.0.0.1:9/v1"))
    asyncio.run(scenario())


def test_nobody_spends_what_another_one_reserved(postgres: Cluster) -> None:
    url = postgres.url(postgres.make())

    async def work(one: FleetLedger, two: FleetLedger) -> None:
        assert one.refusal() is not None, "nothing is spent before a part is reserved"
        assert (await one.reserve(), one.refusal()) == (None, None)
        assert reserved(postgres, url) == PART
        two.pay(Spent(WHOLE.tokens))  # of which nothing was reserved: it is counted whatever is left
        told = "the cap of 10,240 tokens for all of it is reached"
        assert await two.reserve() == two.refusal() == two.known_refusal() == told
        assert one.refusal() is None, "what one reserved is for it to spend"
        one.pay(Spent(PART - 1))
        assert (one.known_refusal(), await one.reserve()) == (None, None), "to the last of it"
        one.pay(Spent(1))
        assert await one.reserve() == told

    both(url, work)


def test_who_leaves_gives_back_and_who_dies_does_not(postgres: Cluster) -> None:
    url = postgres.url(postgres.make())

    async def work(one: FleetLedger, two: FleetLedger) -> None:
        for ledger in (one, two):
            assert await ledger.reserve() is None
            ledger.pay(Spent(4))
        await one.finish()
        assert reserved(postgres, url) == PART + 4

    both(url, work)


def test_money_is_reserved_too_and_what_is_not_limited_is_not(postgres: Cluster) -> None:
    url = postgres.url(postgres.make())

    async def work(one: FleetLedger, two: FleetLedger) -> None:
        assert await one.reserve() is None
        one.pay(Spent(1, 5.0))
        assert await one.reserve() == "the cap of US$5 for all of it is reached"
        assert await two.reserve() == "the cap of US$5 for all of it is reached"
        free, journal = await joined(url, Caps())
        free.pay(Spent(10**9, 1e9))
        assert (free.refusal(), await free.reserve()) == (None, None)
        await journal.aclose()

    both(url, work)


def test_a_database_that_is_away_is_the_reason_and_no_cap(postgres: Cluster) -> None:
    url = postgres.url(postgres.make())
    begin(url, request("http://127.0.0.1:9/v1"))

    async def scenario() -> None:
        ledger, journal = await joined(url, patience_s=0.2)
        await journal.aclose()
        told = await ledger.reserve()
        assert told is not None
        assert told.startswith("what is left of the run's cap cannot be asked for: ")
        assert ledger.known_refusal() == told

    asyncio.run(scenario())
