"""A server's part of a day's cap: drawn on here, reserved where all servers reserve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest

from server.security.shared_limits import ReservedCharacters
from spectator.errors import JournalError
from spectator.journal.coordination import Reserved
from spectator.journal.day_share import AGAIN_S, PARTS, DayShare
from spectator.policies.spending import Caps, EpisodeBudget, SharedCaps, SpendLedger, Spent
from tests.fakes import ManualClock

CAP = 64.0


@dataclass
class OneDatabase:
    """Reservations of all servers, kept here; its day ends when the test says so."""

    clock: ManualClock
    day: date = date(2026, 11, 21)
    over_at: float = 3600.0
    taken: dict[str, float] = field(default_factory=dict)
    asked: int = 0
    away: bool = False
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def open_day(self, used: Mapping[str, float]) -> None:
        for what, amount in used.items():
            self.taken.setdefault(what, amount)

    async def reserve(self, what: str, *, cap: float, amount: float, overdrawn: float = 0.0) -> Reserved:
        self.asked += 1
        await asyncio.sleep(0)
        if self.away:
            raise JournalError("the database is away")
        if self.clock.monotonic() >= self.over_at:
            self.day, self.over_at = self.day + timedelta(days=1), self.over_at + 86_400
            self.taken.clear()
        taken = self.taken.get(what, 0.0)
        part = min(amount, max(0.0, cap - taken - overdrawn))
        self.taken[what] = taken + overdrawn + part
        if overdrawn:
            self.told.set()
        return Reserved(self.day, part, self.over_at - self.clock.monotonic())

    async def settle(self, what: str, day: date, unused: float) -> None:
        if day == self.day:
            self.taken[what] -= unused


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(clock: ManualClock) -> OneDatabase:
    return OneDatabase(clock)


async def use(part: DayShare, amount: float, most: int) -> int:
    """Draw ``amount`` as often as it is had, at most so often; how often that was."""
    for times in range(most):
        if not (part.has() or await part.need()):
            return times
        part.draw(amount)
    return most


async def test_servers_use_a_cap_up_together_and_ask_seldom(
    clock: ManualClock, database: OneDatabase
) -> None:
    servers = [DayShare("money", CAP, database, clock) for _ in range(3)]

    used = await asyncio.gather(*(use(one, 0.01, 5000) for one in servers))
    assert sum(used) * 0.01 == pytest.approx(CAP, abs=0.05)
    assert PARTS <= database.asked <= PARTS + 9, "a part at a time"
    assert all(one.used_up for one in servers)


async def test_one_that_dies_leaves_its_part_counted_and_one_that_leaves_gives_it_back(
    clock: ManualClock, database: OneDatabase
) -> None:
    dies, leaves, stays = (DayShare("money", CAP, database, clock) for _ in range(3))
    assert await use(dies, 0.1, 3) == await use(leaves, 0.1, 3) == 3
    assert await use(stays, 1.0, 1000) == CAP - 2
    await leaves.give_back()
    assert database.taken["money"] == pytest.approx(CAP - 0.7)
    assert await use(stays, 0.1, 1000) == 0, "it was just told that there is no more"
    clock.advance(AGAIN_S)
    assert await use(stays, 0.1, 1000) in (7, 8)
    assert database.taken["money"] == pytest.approx(CAP, abs=0.1)


async def test_what_questions_under_way_take_beyond_is_told_to_the_others(
    clock: ManualClock, database: OneDatabase
) -> None:
    mine, other = DayShare("money", CAP, database, clock), DayShare("money", CAP, database, clock)
    assert await mine.need()
    mine.draw(40.0)
    assert await mine.need(), "what is overdrawn is reserved with the next part"
    assert await use(other, 1.0, 1000) == 23
    mine.draw(5.0)
    await mine.give_back()
    assert database.taken["money"] == CAP + 4.0


async def test_one_that_is_refused_asks_again_only_after_a_while(
    clock: ManualClock, database: OneDatabase
) -> None:
    part = DayShare("money", CAP, database, clock)
    await use(part, 1.0, 1000)
    before = database.asked
    for _ in range(50):
        assert not part.has() and not await part.need()
    assert database.asked == before
    clock.advance(AGAIN_S)
    assert not await part.need()
    assert database.asked == before + 1


async def test_a_day_is_over_when_the_database_says_so(clock: ManualClock, database: OneDatabase) -> None:
    """What is left of a part is not used in the next day, and a wall clock that is wrong changes nothing."""

    part = DayShare("money", CAP, database, clock)
    await use(part, 1.0, 1000)
    assert part.used_up and part.until_over_s() == 3600.0
    clock.advance(3600.0)
    assert not part.used_up and not part.has()
    assert await part.need()
    assert database.taken == {"money": 1.0}
    part.draw(0.1)
    clock.advance(86_400.0)
    assert await part.need()
    assert database.taken == {"money": 1.0}, "a new part, of a new day"
    await part.give_back()
    assert database.taken == {"money": 0.0}


def shared_ledger(day: Caps, episode: Caps, clock: ManualClock, database: OneDatabase) -> SpendLedger:
    shared = SharedCaps(database, "model ", by=", by all servers together")
    return SpendLedger(day, episode, clock, day_shared=shared)


async def test_a_ledger_names_the_cap_and_says_when_to_come_back(
    clock: ManualClock, database: OneDatabase
) -> None:
    ledger = shared_ledger(Caps(tokens=640, cost=5.0), Caps(tokens=600), clock, database)
    await ledger.begin_shared(Spent(tokens=5))
    assert (ledger.spent.tokens, database.taken["model tokens"]) == (5, 5)
    other = shared_ledger(Caps(tokens=640, cost=5.0), Caps(), clock, database)
    assert ledger.known_refusal() is None and ledger.refusal() is not None, "nothing is reserved yet"
    purse = EpisodeBudget(ledger).for_seat("home", 1)
    assert await purse.hold(Spent(), 0.0) is None and purse.refusal() is None
    purse.pay(Spent(tokens=600, cost=0.5))
    assert await purse.hold(Spent(), 0.0) == "the episode's cap of 600 tokens is reached"
    keeping_up = [asyncio.create_task(part.keep_up()) for part in ledger.parts]
    await asyncio.wait_for(database.told.wait(), 10)  # what was used beyond is told unasked
    assert database.taken["model tokens"] >= 600
    assert await other.reserve() is None
    other.pay(Spent(tokens=40, cost=0.01))
    told = "the day's cap of 640 tokens is reached, by all servers together"
    assert await other.reserve() == other.known_refusal() == told
    assert (other.until_tomorrow_s(), other.spent.tokens) == (3600.0, 40)
    for task in keeping_up:
        task.cancel()
    database.away = True
    clock.advance(AGAIN_S)
    fresh = EpisodeBudget(shared_ledger(Caps(tokens=9), Caps(), clock, database)).for_seat("home", 1)
    assert "cannot be checked now: the database is away" in (await fresh.hold(Spent(1), 0.0) or "")
    assert "cannot be checked now: the database is away" in (await other.reserve() or "")


async def test_characters_never_pass_their_cap(clock: ManualClock, database: OneDatabase) -> None:
    one, other = (ReservedCharacters(1000, 0, clock, database) for _ in range(2))
    said = 0
    for at in range(100):
        if await (one, other)[at % 2].take(37) is None:
            said += 37
    assert 1000 - 2 * 37 < said <= 1000
    assert (one.sent + other.sent) == said
    told = await one.take(100)
    assert told is not None and "today's 1,000 characters are used up by all servers" in told
    database.away = True
    clock.advance(AGAIN_S)
    assert "cannot reserve characters" in (await one.take(100) or "")
