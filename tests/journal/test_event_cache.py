"""The cache of newest events: what it answers, what it leaves out, and how it comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from spectator.events import RecordedEvent
from spectator.journal.stores import event_cache
from spectator.journal.stores.event_cache import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S, EventCache
from spectator.journal.stores.redis_streams import key_of
from tests.fakes import ManualClock, until
from tests.journal.cached import StreamsInMemory
from tests.journal.records import run, said, seqs


class Cached:
    """A cache over streams in memory, at a clock that a test moves."""

    def __init__(self) -> None:
        self.streams = StreamsInMemory()
        self.clock = ManualClock()
        self.cache = EventCache(self.streams, "redis://cache:6379/0", self.clock, lambda: 1.0)

    async def works(self) -> None:
        await until(lambda: self.cache.works)

    async def fails(self, why: str = "gone") -> None:
        """Fail at the next question."""
        self.streams.why = why
        assert await self.after(1) == []
        assert not self.cache.works

    async def after(self, seq: int, limit: int = 200) -> list[int]:
        return seqs(await self.cache.after("ep-1", "e1", seq, limit))

    async def put(self, *numbers: int) -> None:
        self.cache.note(events(*numbers))
        await self.cache.written()


def events(*numbers: int) -> list[RecordedEvent]:
    return [said("ep-1", number) for number in numbers]


@asynccontextmanager
async def running() -> AsyncIterator[Cached]:
    cached = Cached()
    task = asyncio.create_task(cached.cache.run())
    try:
        await cached.works()
        yield cached
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not cached.cache.works
        assert await cached.after(1) == [], "who asks a cache that has ended is answered"
        await cached.cache.written()


def test_it_answers_with_the_very_next_events_or_none() -> None:
    async def scenario() -> None:
        async with running() as cached:
            await cached.put(5, 6, 7)
            await cached.put(9)
            assert await cached.after(4, limit=3) == [5, 6, 7]
            assert await cached.after(5, limit=1) == [6]
            assert await cached.after(8) == [9]
            assert await cached.after(3) == [], "event 4 is not there"
            assert await cached.after(4) == [], "neither is 8, which was committed"
            assert await cached.after(9) == []
            assert seqs(await cached.cache.after("ep-1", "e2", 4, 200)) == []
            assert cached.cache.reads == {"hit": 3, "gap": 2, "behind": 2}
            cached.streams.entries[key_of("ep-1", "e1")].append((10, ""))
            assert await cached.after(8) == [], "event 10 is too large to be there"
            assert cached.cache.read_events == 5
            assert cached.cache.unwritten == 0

    run(scenario())


@pytest.mark.parametrize(
    "text",
    [said("ep-2", 5).text, said("ep-1", 6).text, said("ep-1", 5).text.replace('"e1"', '"e2"'), "{"],
)
def test_what_is_not_the_event_of_that_number_is_a_failure(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running() as cached:
            cached.streams.entries[key_of("ep-1", "e1")] = [(5, text)]
            assert await cached.after(4) == []
            assert not cached.cache.works

    run(scenario())
    assert "holds what is not event 5 of ep-1" in caplog.text


def test_questions_of_one_moment_are_sent_at_once_and_the_same_one_once() -> None:
    async def scenario() -> None:
        async with running() as cached:
            await cached.put(1, 2, 3)
            found = await asyncio.gather(*(cached.after(seq) for seq in (0, 1, 1, 2, 0)))
            assert found == [[1, 2, 3], [2, 3], [2, 3], [3], [1, 2, 3]]
            assert cached.streams.questions == [3]

    run(scenario())


def test_who_stops_waiting_stops_no_other() -> None:
    async def scenario() -> None:
        async with running() as cached:
            await cached.put(1)
            gone, stays = (asyncio.ensure_future(cached.after(0)) for _ in range(2))
            await asyncio.sleep(0)
            gone.cancel()
            assert await stays == [1]
            assert gone.cancelled()

    run(scenario())


def test_a_failure_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with running() as cached:
            await cached.fails("Connection refused")
            cached.cache.note(events(2))
            for _ in range(5):
                await until(lambda: cached.clock.sleepers == 1)
                cached.clock.advance(LONGEST_PAUSE_S)
            assert await cached.after(0) == []
            assert cached.cache.reads == {"away": 2}
            assert cached.cache.unwritten == 1
            await until(lambda: cached.clock.sleepers == 1)
            cached.streams.why = None
            cached.clock.advance(LONGEST_PAUSE_S)
            await cached.works()
            await cached.put(3)
            assert await cached.after(2) == [3]

    run(scenario())
    warning, again = [one for one in caplog.records if one.name == event_cache.__name__]
    assert warning.levelno == logging.WARNING
    assert "redis://cache:6379/0 is not used: Connection refused" in warning.getMessage()
    assert "SPECTATOR_CACHE_URL" in warning.getMessage()
    assert again.levelno == logging.INFO and "again" in again.getMessage()


def test_pauses_grow_and_begin_anew_after_it_worked_for_long() -> None:
    async def paused(cached: Cached) -> float:
        """How long it is left alone now."""
        before = cached.streams.proofs
        await until(lambda: cached.clock.sleepers == 1)
        began = cached.clock.monotonic()
        while cached.streams.proofs == before:
            cached.clock.advance(FIRST_PAUSE_S / 4)
            for _ in range(5):
                await asyncio.sleep(0)
        return cached.clock.monotonic() - began

    async def scenario() -> None:
        async with running() as cached:
            await cached.fails()
            pauses = [await paused(cached) for _ in range(8)]
            assert pauses == [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(8)]
            cached.streams.why = None
            await paused(cached)
            await cached.works()
            await cached.fails()
            assert await paused(cached) == LONGEST_PAUSE_S, "it worked for a moment only"
            cached.streams.why = None
            await paused(cached)
            await cached.works()
            cached.clock.advance(STEADY_S)
            await cached.fails()
            assert await paused(cached) == FIRST_PAUSE_S

    run(scenario())


def test_pauses_are_drawn_by_chance() -> None:
    async def scenario() -> None:
        clock, streams = ManualClock(), StreamsInMemory()
        streams.why = "gone"
        task = asyncio.create_task(EventCache(streams, "", clock, lambda: 0.0).run())
        await until(lambda: clock.sleepers == 1)
        assert streams.proofs == 1
        clock.advance(FIRST_PAUSE_S / 2)
        await until(lambda: streams.proofs == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(scenario())


class Stuck(StreamsInMemory):
    """Streams whose writing does not end."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def put(self, events: Sequence[RecordedEvent]) -> None:
        await self.goes_on.wait()
        await super().put(events)


def test_whoever_plays_waits_for_nothing_and_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(said("ep-1", 10).text)
    monkeypatch.setattr(event_cache, "MOST_NOTED", 10 * size)

    async def scenario() -> None:
        cached = Cached()
        cached.cache._streams = cached.streams = stuck = Stuck()
        task = asyncio.create_task(cached.cache.run())
        await cached.works()
        cached.cache.note(events(10))
        await until(lambda: not cached.cache._noted.events)
        for number in range(11, 99):
            cached.cache.note(events(number))
            assert cached.cache._noted.characters <= 10 * size
        assert cached.cache.unwritten + len(cached.cache._noted.events) == 88
        assert cached.cache.unwritten >= 77
        told = asyncio.create_task(cached.cache.written())
        await asyncio.sleep(0)
        assert not told.done()
        stuck.goes_on.set()
        await told
        assert stuck.entries[key_of("ep-1", "e1")][0][0] == 10
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(scenario())


def test_what_was_noted_is_there_once_that_was_waited_for() -> None:
    async def scenario() -> None:
        async with running() as cached:
            for number in range(1, 50):
                cached.cache.note(events(number))
                if number % 7 == 0:
                    await cached.cache.written()
                    assert await cached.after(number - 1) == [number]

    run(scenario())
