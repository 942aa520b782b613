"""The bus hands events to whoever listens, bounded, in order, and never waits for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.bus import MemoryBus, Overflow, Subscription
from spectator.events import Event, RecordedEvent, record
from tests.fakes import until


def events(first: int, last: int, episode_id: str = "ep-1") -> list[RecordedEvent]:
    return [record(Event(episode_id, "e", seq, "now", 0, "warning", {})) for seq in range(first, last + 1)]


async def drain(subscription: Subscription) -> list[int]:
    return [recorded.event.seq async for batch in subscription for recorded in batch]


async def test_listeners_get_their_episode_from_the_next_publication_on_until_it_is_finished() -> None:
    bus = MemoryBus()
    bus.publish(events(1, 2))
    early = bus.subscribe("ep-1", Overflow.CLOSE)
    bus.publish(events(3, 4))
    late = bus.subscribe("ep-1", Overflow.CLOSE)
    other = bus.subscribe("ep-2", Overflow.CLOSE)
    assert (bus.listeners("ep-1"), bus.listeners("ep-2"), bus.listeners("ep-3")) == (2, 1, 0)
    bus.publish(events(5, 5))
    bus.publish(events(1, 1, "ep-2"))
    bus.finish("ep-1")
    assert await drain(early) == [3, 4, 5]
    assert await drain(late) == [5]
    assert bus.listeners("ep-1") == 0
    bus.finish("ep-2")
    assert await drain(other) == [1]
    assert not (early.overflowed or late.overflowed or early.dropped)


async def test_events_published_together_are_received_together() -> None:
    bus, sizes = MemoryBus(), []
    subscription = bus.subscribe("ep-1", Overflow.CLOSE)

    async def read() -> None:
        async for batch in subscription:
            sizes.append(len(batch))
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(read())
    for last in (3, 6, 9):
        bus.publish(events(last - 2, last))
        await until(lambda last=last: sum(sizes) == last)  # type: ignore[misc]
    bus.finish("ep-1")
    await task
    assert sizes == [3, 3, 3]


async def test_a_listener_that_is_too_slow_is_closed_and_told_why() -> None:
    bus = MemoryBus()
    slow = bus.subscribe("ep-1", Overflow.CLOSE, capacity=3)
    quick = bus.subscribe("ep-1", Overflow.CLOSE, capacity=4)
    bus.publish(events(1, 3))
    assert not slow.overflowed
    bus.publish(events(4, 4))
    assert slow.overflowed
    assert bus.listeners("ep-1") == 1
    assert await drain(slow) == [], "a gap must not look like the whole"
    bus.finish("ep-1")
    assert await drain(quick) == [1, 2, 3, 4]


async def test_a_slow_listener_that_was_reading_learns_of_its_end() -> None:
    bus, seen = MemoryBus(), []
    subscription = bus.subscribe("ep-1", Overflow.CLOSE, capacity=2)
    bus.publish(events(1, 2))
    async for batch in subscription:
        seen += [recorded.event.seq for recorded in batch]
        bus.publish(events(3, 5))
    assert seen == [1, 2]
    assert subscription.overflowed


async def test_the_oldest_give_way_and_are_counted() -> None:
    bus = MemoryBus()
    subscription = bus.subscribe("ep-1", Overflow.DROP_OLDEST, capacity=3)
    bus.publish(events(1, 2))
    bus.publish(events(3, 4))
    bus.publish(events(5, 20))
    bus.finish("ep-1")
    assert await drain(subscription) == [18, 19, 20]
    assert subscription.dropped == 17
    assert not subscription.overflowed


@given(st.lists(st.integers(1, 5), max_size=20), st.integers(1, 6), st.sampled_from(Overflow), st.data())
def test_no_listener_ever_holds_more_than_it_said_nor_sees_disorder(
    sizes: list[int], capacity: int, overflow: Overflow, data: st.DataObject
) -> None:
    async def scenario() -> None:
        bus, seen, seq = MemoryBus(), list[int](), 0
        subscription = bus.subscribe("ep-1", overflow, capacity=capacity)
        reader: AsyncIterator[Sequence[RecordedEvent]] = aiter(subscription)
        waiting = 0
        for size in sizes:
            bus.publish(events(seq + 1, seq + size))
            seq += size
            if subscription.overflowed:
                break
            waiting = min(capacity, waiting + size)
            if data.draw(st.booleans()):
                batch = await anext(reader)
                assert len(batch) == waiting <= capacity
                seen += [recorded.event.seq for recorded in batch]
                waiting = 0
        bus.finish("ep-1")
        seen += [recorded.event.seq async for batch in reader for recorded in batch]
        assert seen == sorted(set(seen))
        assert len(seen) + subscription.dropped == seq or subscription.overflowed
        assert subscription.dropped == 0 or overflow is Overflow.DROP_OLDEST
        if not subscription.overflowed and not subscription.dropped:
            assert seen == list(range(1, seq + 1))

    asyncio.run(scenario())


async def test_publishing_waits_for_nobody() -> None:
    """A thousand listeners that never read cost a publication nothing but the hand-over."""

    bus = MemoryBus()
    stuck = [bus.subscribe("ep-1", overflow, capacity=4) for overflow in Overflow for _ in range(500)]
    batches = [events(first, first + 1) for first in range(1, 201, 2)]
    for batch in batches:
        bus.publish(batch)  # not awaited: there is nothing that could wait
    assert bus.listeners("ep-1") == 500, "those that drop stay, those that must not miss any are closed"
    assert sum(one.overflowed for one in stuck) == 500
    bus.finish("ep-1")


async def test_a_listener_may_leave_at_any_time_and_leaves_nothing_behind() -> None:
    bus = MemoryBus()
    one, two = (bus.subscribe("ep-1", Overflow.CLOSE) for _ in range(2))
    bus.publish(events(1, 1))
    one.close()
    one.close()
    assert bus.listeners("ep-1") == 1
    bus.publish(events(2, 2))
    assert await drain(one) == [1], "what waited may still be read"
    assert await drain(one) == [], "and reading on ends at once"
    two.close()
    assert bus._subscriptions == {}
    bus.finish("ep-1")
    bus.finish("never heard of")


async def test_leaving_because_of_a_publication_does_not_disturb_the_others() -> None:
    bus = MemoryBus()
    listeners = [bus.subscribe("ep-1", Overflow.CLOSE, capacity=size) for size in (1, 9, 1, 9)]
    bus.publish(events(1, 2))
    assert [one.overflowed for one in listeners] == [True, False, True, False]
    bus.finish("ep-1")
    assert await drain(listeners[3]) == [1, 2]


def test_publishing_nothing_or_to_nobody_is_harmless() -> None:
    bus = MemoryBus()
    bus.publish([])
    bus.publish(events(1, 1))


async def test_a_queue_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MemoryBus().subscribe("ep-1", Overflow.CLOSE, capacity=0)
