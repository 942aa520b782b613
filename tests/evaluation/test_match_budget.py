"""Money that is short finishes some episodes rather than begins many."""

from __future__ import annotations

import asyncio

import pytest

from spectator.evaluation.match_player import MatchBudget
from spectator.policies.spending import Caps, SpendLedger, Spent
from tests.fakes import ManualClock

EACH = Spent(tokens=100, cost=1.0)


class Counter:
    """Plays episodes that take :data:`EACH`, and counts them."""

    def __init__(self, caps: Caps) -> None:
        self.ledger = SpendLedger(Caps(), Caps(), ManualClock(), whole=caps)
        self.budget = MatchBudget(self.ledger)
        self.at_once = self.most = self.over = self.broken = 0
        self.refusals: list[str] = []

    async def lane(self, episodes: int) -> None:
        for _ in range(episodes):
            refusal = await self.budget.begin(begun=False)
            if refusal is not None:
                self.refusals.append(refusal)
                return
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            for _ in range(10):
                await asyncio.sleep(0)
                self.ledger.pay(Spent(10, 0.1))
                if self.ledger.refusal() is not None:
                    self.broken += self.ledger.whole.cost > self.cost + 1e-9
            self.over += 1
            self.at_once -= 1
            await self.budget.end(EACH)

    @property
    def cost(self) -> float:
        return self.ledger.caps[2].cost


@pytest.mark.parametrize(("cost", "finished"), [(3.4, 3), (5.0, 5), (1.9, 1)])
async def test_no_more_episodes_begin_than_the_money_finishes(cost: float, finished: int) -> None:
    """With eight lanes of five episodes, and money for a few: those are finished, and none is broken off."""

    counter = Counter(Caps(cost=cost))
    await asyncio.gather(*(counter.lane(5) for _ in range(8)))
    assert counter.over == finished and counter.broken == 0 and counter.at_once == 0
    assert counter.refusals and all("would not finish" in one or "cap of" in one for one in counter.refusals)


async def test_without_a_cap_of_the_whole_all_lanes_play_at_once() -> None:
    counter = Counter(Caps())
    await asyncio.gather(*(counter.lane(2) for _ in range(8)))
    assert (counter.most, counter.over, counter.refusals) == (8, 16, [])


async def test_with_money_enough_lanes_play_at_once_after_the_first() -> None:
    counter = Counter(Caps(cost=1_000))
    await asyncio.gather(*(counter.lane(3) for _ in range(8)))
    assert counter.over == 24 and counter.most == 8


async def test_what_was_begun_is_played_on_alone_and_what_stood_still_counts_for_nothing() -> None:
    counter = Counter(Caps(cost=1.5))
    budget = counter.budget
    assert await budget.begin(begun=True) is None
    waiting = asyncio.create_task(budget.begin(begun=False))
    await asyncio.sleep(0)
    assert not waiting.done()
    await budget.end(None)
    assert await waiting is None
    await budget.end(EACH)
    counter.ledger.pay(EACH)
    assert await budget.begin(begun=True) is None, "what is left may finish what was begun"
    await budget.end(EACH)
    assert "1 took" not in str(await budget.begin(begun=False))
    counter.ledger.pay(EACH)
    assert "cap of US$1.5" in str(await budget.begin(begun=True))


def test_matches_that_finished_before_say_what_one_costs() -> None:
    """A run that goes on need not play its first match alone again."""

    async def at_once(finished: int) -> int:
        ledger = SpendLedger(Caps(), Caps(), ManualClock(), whole=Caps(cost=10.0))
        ledger.pay(Spent(400, 4.0))
        budget = MatchBudget(ledger, finished)
        asking = [asyncio.create_task(budget.begin(begun=False)) for _ in range(10)]
        for _ in range(20):
            await asyncio.sleep(0)
        begun = sum(one.done() for one in asking)
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return begun

    assert asyncio.run(at_once(finished=0)) == 1
    assert asyncio.run(at_once(finished=4)) == 6
