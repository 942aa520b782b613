"""Followers with a cache of newest events and without one see the same, whatever the cache loses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spectator.bus.base import Overflow
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.events import Event, RecordedEvent, record
from spectator.following.followed_view import FollowedView
from spectator.following.newest_reader import NewestReader
from spectator.journal.base import EpisodeSummary
from spectator.journal.stores.event_cache import EventCache
from spectator.journal.stores.redis_streams import key_of
from spectator.journal.stores.sqlite import SqlJournal
from tests.fakes import ManualClock, until
from tests.journal.cached import StreamsInMemory
from tests.journal.records import ended, run, started

EPISODE = "ep-1"


class Counting(ViewReader):
    """Counts what is read of the record after its beginning."""

    reads = 0

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        self.reads += after_seq > 0
        return await super().read(episode_id, after_seq=after_seq, limit=limit)


class Withholding(PublicReader):
    """Shows nothing beyond the last ball, as where a rival may watch."""

    def _until(self, started: Event) -> Sequence[str]:
        return ["ball"]


def patched(seq: int) -> RecordedEvent:
    patch = {"n": seq, "last": {str(seq % 5): seq, str((seq + 2) % 5): None}}
    kind = "ball" if seq % 3 == 0 else "decision.made"
    return record(Event(EPISODE, "e1", seq, "now", seq, kind, {"text": "x"}, patch))


@asynccontextmanager
async def recorded(folder: Path) -> AsyncIterator[tuple[SqlJournal, EpisodeSummary]]:
    """A journal in which an episode has begun, of a world that is not here."""
    journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
    await journal.append([started(EPISODE, environment="elsewhere")])
    summary = await journal.episode(EPISODE)
    assert summary is not None
    yield journal, summary
    await journal.aclose()


@asynccontextmanager
async def cached() -> AsyncIterator[tuple[EventCache, StreamsInMemory]]:
    """A cache that works, over streams in memory."""
    streams = StreamsInMemory()
    cache = EventCache(streams, "", ManualClock(), lambda: 0.0)
    working = asyncio.create_task(cache.run())
    await until(lambda: cache.works)
    yield cache, streams
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


class Follower:
    """A follower of an episode, and all that it hands on."""

    def __init__(self, records: Any, views: ViewReader, summary: Any) -> None:
        self.view = FollowedView(summary, views, records, ManualClock())
        self.heard: list[str] = []
        self.first = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.view.open()
        self.first = self.view.head_seq
        subscription = self.view.subscribe(Overflow.CLOSE)

        async def listen() -> None:
            async for batch in subscription:
                self.heard.extend(one.text for one in batch)

        self._task = asyncio.create_task(listen())

    async def close(self) -> None:
        self.view.close()
        assert self._task is not None
        await self._task


KNOWN_WHOLE = ("cached", "large", "emptied", "away")
"""What may become of a step in the cache so that a follower knows at once that it is there."""

STEPS = st.lists(
    st.tuples(
        st.integers(1, 4),  # events of the step
        st.sampled_from(
            ["cached", "cached", "cached", "large", "unwritten", "lost", "emptied", "trimmed", "away"]
        ),
        st.booleans(),  # whether a notice of it comes
    ),
    min_size=1,
    max_size=25,
)


@given(STEPS, st.sampled_from([PublicReader, Withholding]))
@settings(max_examples=40)
def test_followers_with_a_cache_and_without_see_the_same(
    tmp_path_factory: Any, steps: Any, public: type[PublicReader]
) -> None:
    async def scenario(folder: Path) -> None:
        async with recorded(folder) as (journal, summary), cached() as (cache, streams):
            plain, beside = ViewReader(journal), ViewReader(journal)
            newest = NewestReader(beside, cache, lambda _: "e1")
            without, with_it = (
                Follower(public(plain), plain, summary),
                Follower(public(newest), beside, summary),
            )
            for one in (without, with_it):
                await one.open()
            seq = 1
            for count, what, told in steps:
                await _step(journal, cache, streams, [patched(seq + n + 1) for n in range(count)], what)
                seq += count
                if told:
                    await without.view.advance()
                    await with_it.view.advance()
                    if what not in KNOWN_WHOLE:  # the cache may not know of its end: a look or two later
                        await with_it.view.advance()
                        await with_it.view.advance()
                    assert with_it.view.head_seq == without.view.head_seq
            await _step(journal, cache, streams, [ended(EPISODE, seq + 1)], "cached")
            for one in (without, with_it):
                while one.view.head_seq <= seq:  # as looks at how far it is would have it
                    await one.view.advance()
                await one.close()
            assert with_it.heard == without.heard == await journal.texts(EPISODE, after_seq=without.first)
            assert with_it.view.state == without.view.state

    run(scenario(tmp_path_factory.mktemp("follow")))


async def _step(
    journal: SqlJournal, cache: EventCache, streams: StreamsInMemory, events: list[RecordedEvent], what: str
) -> None:
    """Record a step, and let the cache have it, or not."""
    await journal.append(events)
    key = key_of(EPISODE, "e1")
    cache.works = what != "away"
    if what != "unwritten":
        cache.note(events)
        await cache.written()
    if what == "large":
        streams.entries[key][-1] = (events[-1].seq, "")
    elif what == "lost":
        del streams.entries[key][-1:]
    elif what == "emptied":
        streams.entries.clear()
    elif what == "trimmed" and key in streams.entries:
        del streams.entries[key][:-1]


def test_what_comes_through_the_cache_costs_the_record_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with recorded(tmp_path) as (journal, summary), cached() as (cache, streams):
            views = Counting(journal)
            records = PublicReader(NewestReader(views, cache, lambda _: "e1"))
            view = FollowedView(summary, views, records, ManualClock())
            await view.open()
            views.reads = 0
            for seq in range(2, 40):
                await _step(journal, cache, streams, [patched(seq)], "cached")
                await view.advance()
            assert (view.head_seq, views.reads) == (39, 0)
            await view.advance()
            assert views.reads == 1, "who is told that there is more asks the record where the cache has none"

    run(scenario())


def test_what_a_viewer_has_seen_is_reached_though_the_cache_has_only_the_beginning_of_it(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with recorded(tmp_path) as (journal, summary), cached() as (cache, streams):
            views = ViewReader(journal)
            records = PublicReader(NewestReader(views, cache, lambda _: "e1"))
            view = FollowedView(summary, views, records, ManualClock())
            await view.open()
            await _step(journal, cache, streams, [patched(2), patched(3)], "cached")
            await _step(journal, cache, streams, [patched(4)], "unwritten")
            await view.advance(4)
            assert view.head_seq == 4

    run(scenario())
