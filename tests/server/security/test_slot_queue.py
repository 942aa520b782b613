"""The queue for slots: fair by address, bounded, left by those who go, and nobody holds a slot for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from server.security.slot_queue import KEPT_S, OPERATOR, NoFreeSlot, QueueLimits, QueuePosition, SlotQueue
from spectator.episodes.controls import EndRequest
from spectator.errors import EpisodeBusy
from tests.fakes import ManualClock, until


@dataclass
class Episode:
    """An episode that holds a slot until it is told to end."""

    episode_id: str
    ended: bool = False
    asked: EndRequest | None = None

    def request_end(self, request: EndRequest) -> None:
        self.asked = request


@dataclass
class House:
    """Slots, with a queue for them."""

    slots: int = 1
    promised: int = 0
    limits: QueueLimits = field(default_factory=lambda: QueueLimits(64))
    starters: dict[str, str] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    order: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.episodes: list[Episode] = []
        self._ids: Iterator[int] = count(1)
        slots: Any = self
        self.queue = SlotQueue(slots, self.limits, self.starters, self.clock, lambda: f"t{next(self._ids)}")

    @property
    def free_slots(self) -> int:
        return self.slots - len(self.episodes) - self.promised

    def running(self) -> list[Episode]:
        return self.episodes

    def start(self, address: str) -> Episode:
        assert self.free_slots > 0
        episode = Episode(f"ep-{next(self._ids)}")
        self.episodes.append(episode)
        self.starters[episode.episode_id] = address
        self.order.append(address)
        return episode

    def end(self, episode: Episode | None = None) -> None:
        self.episodes.remove(episode or self.episodes[0])
        self.queue.look()

    async def want(
        self,
        address: str,
        wait_s: float = 1e6,
        ticket: str | None = None,
        gone: Awaitable[object] | None = None,
    ) -> Episode:
        """Wait for a slot and take it, as the route does."""
        never = asyncio.get_running_loop().create_future()
        await self.queue.take(address, wait_s, ticket, lambda: gone or never)
        return self.start(address)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def standing_of(wanting: Awaitable[object]) -> QueuePosition:
    with pytest.raises(NoFreeSlot) as refused:
        await wanting
    return refused.value.position


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_flooder_has_every_other_turn_at_most() -> None:
    """Ten starts of one address keep another one waiting for one match, and a third for two."""

    house = House()
    house.start("flood")
    waiting = [asyncio.create_task(house.want("flood")) for _ in range(10)]
    await settle()
    waiting += [asyncio.create_task(house.want(address)) for address in ("guest", "other", "guest")]
    await settle()
    assert house.queue.waiting == 13
    while house.episodes:
        house.end()
        await settle()
    assert house.order[1:6] == ["guest", "other", "flood", "guest", "flood"], house.order
    assert house.order[6:] == ["flood"] * 8
    assert house.promised == 0 and house.queue.waiting == 0
    await asyncio.gather(*waiting)


async def test_an_address_with_a_slot_waits_behind_those_with_none() -> None:
    house = House(slots=2)
    house.start("rich")
    ending = house.start("rich")
    waiting = [asyncio.create_task(house.want(address)) for address in ("rich", "poor", OPERATOR)]
    await settle()
    house.end(ending)
    await settle()
    assert house.order[2:] == [OPERATOR], "the operator comes first"
    house.end(house.episodes[-1])
    await settle()
    assert house.order[3:] == ["poor"]
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert house.queue.waiting == 0


async def test_a_free_slot_is_kept_for_whoever_is_next() -> None:
    """Nobody who comes in the same moment can take it first."""

    house = House()
    first = house.start("a")
    waiting = asyncio.create_task(house.want("b"))
    await settle()
    house.end(first)
    assert (house.free_slots, house.promised, house.queue.waiting) == (0, 1, 0)
    assert (await standing_of(house.want("c", 0))).place == 1
    await waiting
    assert house.order == ["a", "b"] and house.promised == 0


async def test_a_ticket_keeps_the_place_for_as_long_as_it_says() -> None:
    house = House(limits=QueueLimits(2))
    episode = house.start("a")
    asking = asyncio.create_task(house.want("b", 10.0))
    await settle()
    house.clock.advance(10.0)
    first = await standing_of(asking)
    assert (first.place, first.waiting) == (1, 1) and first.ticket
    later = asyncio.create_task(house.want("c", 1e5))
    await settle()
    assert (await standing_of(house.want("d", 5.0))).place is None, "two may wait"
    again = await standing_of(house.want("b", 0, first.ticket))
    assert again == QueuePosition(1, 2, first.ticket)
    house.end(episode)
    assert house.promised == 1 and not later.done(), "kept for whoever comes back"
    for thief in (house.want("x", 0, first.ticket), house.want("b", 0, "another")):
        assert (await standing_of(thief)).place is None
    house.clock.advance(KEPT_S + 0.1)
    house.queue.look()
    await later
    assert house.order == ["a", "c"] and house.promised == 0


async def test_whoever_comes_back_to_a_kept_slot_has_it_at_once() -> None:
    house = House()
    episode = house.start("a")
    asking = asyncio.create_task(house.want("b", 1.0))
    await settle()
    house.clock.advance(1.0)
    ticket = (await standing_of(asking)).ticket
    house.end(episode)
    await house.want("b", 0, ticket)
    assert house.order == ["a", "b"] and house.promised == 0


@pytest.mark.parametrize("granted", [False, True], ids=["while it waits", "in the moment of its turn"])
async def test_whoever_goes_away_leaves_the_queue(granted: bool) -> None:
    house, gone = House(), asyncio.get_running_loop().create_future()
    episode = house.start("a")
    leaving = asyncio.create_task(house.want("b", gone=gone))
    staying = asyncio.create_task(house.want("c"))
    await settle()
    gone.set_result({"type": "http.disconnect"})
    if granted:
        house.end(episode)
    with pytest.raises(ClientDisconnect):
        await leaving
    if not granted:
        assert house.queue.waiting == 1
        house.end(episode)
    await staying
    assert house.order == ["a", "c"] and house.promised == 0


async def test_a_request_that_is_cancelled_leaves_too() -> None:
    house = House()
    episode = house.start("a")
    waiting = [asyncio.create_task(house.want(address)) for address in "bc"]
    await settle()
    house.end(episode)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    await waiting[1]
    assert house.order == ["a", "c"] and house.promised == 0


async def test_only_so_many_of_one_address_wait_and_nobody_where_none_may() -> None:
    house = House(limits=QueueLimits(5, by_address=2))
    house.start("a")
    waiting = [asyncio.create_task(house.want(address)) for address in ("b", "b", OPERATOR, OPERATOR)]
    await settle()
    assert (await standing_of(house.want("b"))).place is None
    waiting.append(asyncio.create_task(house.want(OPERATOR)))
    await settle()
    assert (await standing_of(house.want("c"))) == QueuePosition(None, 5)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    closed = House(limits=QueueLimits(0))
    closed.start("a")
    assert (await standing_of(closed.want("b"))) == QueuePosition(None, 0)


async def test_an_episode_gives_way_after_its_time_only_if_somebody_with_fewer_slots_waits() -> None:
    house = House(slots=3, limits=QueueLimits(9, hold_s=600.0))
    old, own, kept = house.start("rich"), house.start("rich"), house.start(OPERATOR)
    looking = asyncio.create_task(house.queue.run())
    await settle()
    house.clock.advance(1.0)
    await settle()
    house.clock.advance(700.0)
    await settle()
    assert not old.asked and not own.asked, "nobody waits"
    waiting = [asyncio.create_task(house.want("rich"))]
    await settle()
    house.clock.advance(1.0)
    await settle()
    assert not old.asked and not own.asked, "it would only make room for itself"
    waiting += [asyncio.create_task(house.want("poor")) for _ in range(3)]
    await settle()
    for _ in range(3):
        house.clock.advance(1.0)
        await settle()
    assert old.asked == EndRequest(
        "timeout", "gave way after 600 s: others waited for a slot (SPECTATOR_SLOT_HOLD_S)"
    )
    assert not own.asked and not kept.asked, "one each, and the operator's is left alone"
    house.end(old)
    await settle()
    assert house.order[3:] == ["poor"]
    for one in (*waiting, looking):
        one.cancel()
    await asyncio.gather(*waiting, looking, return_exceptions=True)


async def test_a_place_says_when_it_has_a_slot_at_the_latest() -> None:
    house = House(slots=2, limits=QueueLimits(9, hold_s=600.0))
    house.start("a")
    house.queue.give_way()
    house.clock.advance(100.0)
    house.start("b")
    house.queue.give_way()
    waiting = []
    for within in (500.0, 600.0, 1100.0):
        assert (await standing_of(house.want("c", 0))).within_s == within
        waiting.append(asyncio.create_task(house.want("c")))
        await settle()
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_everybody_is_sent_away_when_the_server_goes() -> None:
    house = House()
    house.start("a")
    waiting = asyncio.create_task(house.want("b"))
    await until(lambda: house.queue.waiting == 1)
    house.queue.close()
    with pytest.raises(EpisodeBusy, match="shutting down"):
        await waiting
    with pytest.raises(EpisodeBusy, match="shutting down"):
        await house.want("c")
