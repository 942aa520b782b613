"""The purse of a run that several processes play: the others hear of what one spends at the next exchange."""

from __future__ import annotations

import asyncio

import pytest

from spectator.clock import SystemClock
from spectator.errors import JournalError
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, Spent
from spectator.rollouts.joint.purse import FleetLedger
from tests.postgres import Cluster
from tests.rollouts.joint.joint_runs import NAME, begin
from tests.rollouts.test_fleet import request

WHOLE = Caps(tokens=1000)


async def joined(url: str) -> tuple[FleetLedger, SqlJournal]:
    journal = await SqlJournal.open(url)
    ledger = FleetLedger((Caps(), Caps(), WHOLE), SystemClock(), NAME, journal)
    await ledger.join()
    return ledger, journal


def test_what_one_spends_counts_for_all_once(postgres: Cluster) -> None:
    url = postgres.url(postgres.make())
    begin(url, request("http://127.0.0.1:9/v1"))

    async def scenario() -> None:
        (one, first), (two, second) = await joined(url), await joined(url)
        one.pay(Spent(400, 0.5, 1.0))
        two.pay(Spent(100))
        for ledger in (one, two, one, two, one):
            await ledger.exchange()
        assert one.whole == two.whole == Spent(500, 0.5, 1.0)
        two.pay(Spent(600))
        assert two.refusal() is not None
        assert one.refusal() is None, "it has not heard of it yet"
        await two.exchange()
        await one.exchange()
        assert one.refusal() == "the cap of 1,000 tokens for all of it is reached"
        await first.aclose()
        one.pay(Spent(7))
        with pytest.raises(JournalError):
            await one.exchange()
        assert one.whole.tokens == 1107, "what could not be told is counted here, once"
        await second.aclose()

    asyncio.run(scenario())
