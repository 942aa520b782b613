"""Viewers who come to an episode of another server: none is taken back, and many cost what one costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from server.viewers.feed import WatchableEpisodes
from server.viewers.other_servers import INTERVAL_S, LOST_S, FollowedEpisodes
from server.viewers.wire import Position
from spectator.errors import JournalError
from spectator.events import RecordedEvent
from spectator.journal.contract import EpisodeSummary
from tests.fakes import ManualClock
from tests.journal.records import said, started

EPISODE = "ep-1"


class Record:
    """An episode that another server records."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = [started(EPISODE)]
        self.reads = 0
        self.questions = 0

    def go_on(self, count: int) -> None:
        """Record so many events more."""
        first = len(self.events) + 1
        self.events += [said(EPISODE, seq) for seq in range(first, first + count)]

    async def heads(self, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        return dict.fromkeys(episode_ids, (len(self.events), "e1"))

    async def run_of(self, episode_id: str) -> str | None:
        self.questions += 1
        await asyncio.sleep(0)
        return None

    async def episode(self, episode_id: str) -> EpisodeSummary:
        self.questions += 1
        await asyncio.sleep(0)
        return EpisodeSummary(
            episode_id, "e1", "counting", "Counting", "heuristic", "Heuristic", "random", "default", 1,
            "2026-11-21T05:00:00.000Z", None, None, None, None, None, len(self.events),
        )  # fmt: skip

    async def state(self, summary: EpisodeSummary) -> dict[str, Any]:
        return {"seq": len(self.events)}

    async def last_seen(self, episode_id: str) -> int | None:
        return None

    async def suspended(self, episode_id: str) -> bool:
        return False

    async def read(self, episode_id: str, *, after_seq: int, limit: int) -> Sequence[RecordedEvent]:
        self.reads += 1
        return self.events[after_seq : after_seq + limit]


@asynccontextmanager
async def following(record: Any) -> AsyncIterator[FollowedEpisodes]:
    """Follows what another server records, as far as a viewer asks."""
    async with asyncio.TaskGroup() as tasks:
        followed = FollowedEpisodes(record, record, record, ManualClock(), tasks)
        yield followed
        followed.stop()


async def test_what_is_followed_already_is_brought_up_to_what_a_viewer_has_seen() -> None:
    record: Any = Record()

    async with following(record) as followed:
        await followed.follow(EPISODE)
        view = followed.live(EPISODE)
        assert view is not None
        await view.open()
        record.reads = 0
        found = []
        for seen_seq in (0, 1, 250, 250):
            record.go_on(300 if seen_seq == 250 else 0)
            await asyncio.gather(*(followed.reach(EPISODE, Position("e1", seen_seq)) for _ in range(20)))
            found.append((view.head_seq, record.reads))
    (by_nobody, none), (as_far, no_more), (further, read), (again, reads) = found
    assert (by_nobody, none, as_far, no_more) == (1, 0, 1, 0), "who is no further needs no reading"
    assert (further, read) == (301, 2), "all who wait for the same event read it once"
    assert (again, reads) == (further, read)


async def test_a_look_reads_only_what_no_notice_told_of() -> None:
    record: Any = Record()

    async with following(record) as followed:
        await followed.follow(EPISODE)
        view = followed.live(EPISODE)
        assert view is not None
        await view.open()
        await followed.look()
        found = []
        for told in (True, False):
            record.go_on(3)
            if told:
                await followed._advance_woken({EPISODE})
            record.reads = 0
            await followed.look()
            found.append((view.head_seq, record.reads))
    assert found == [(4, 0), (7, 1)]


def test_an_episode_that_somebody_comes_to_during_a_look_is_followed_on() -> None:
    """A look that began before knows nothing of it; its viewers were told that nobody plays it."""

    class Slow(Record):
        followed: FollowedEpisodes

        async def heads(self, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
            await self.followed.follow("ep-2")
            return await super().heads(episode_ids)

    async def look() -> list[bool]:
        slow: Any = Slow()
        async with following(slow) as followed:
            slow.followed = followed
            await followed.follow(EPISODE)
            await followed.look()
        return [followed.live(one) is not None for one in (EPISODE, "ep-2")]

    assert asyncio.run(look()) == [True, True]


async def test_an_episode_whose_epoch_changes_before_the_first_look_is_followed_again() -> None:
    class Renumbered(Record):
        async def heads(self, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
            return dict.fromkeys(episode_ids, (len(self.events), "e2"))

    async with following(Renumbered()) as followed:
        await followed.follow(EPISODE)
        await followed.look()
    assert followed.live(EPISODE) is None, "its viewers are closed, and connect again"


def test_a_viewer_that_has_seen_what_the_record_lost_waits_for_another_epoch() -> None:
    class Lost(Record):
        epoch = "e1"

        async def heads(self, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
            return dict.fromkeys(episode_ids, (len(self.events), self.epoch))

    async def come(seen: Position, *, continues: bool) -> bool:
        record, clock = Lost(), ManualClock()
        fake: Any = record
        async with asyncio.TaskGroup() as tasks:
            followed = FollowedEpisodes(fake, fake, fake, clock, tasks)
            await followed.follow(EPISODE)
            waiting = asyncio.create_task(followed.reach(EPISODE, seen))
            for _ in range(20):
                await asyncio.sleep(0)
            waited = not waiting.done()
            if continues:
                record.epoch = "e2"
                await followed.look()
            clock.advance(INTERVAL_S if continues else LOST_S)
            await asyncio.wait_for(waiting, 5)
            followed.stop()
        return waited

    seen = [(Position("e1", 29), True), (Position("e1", 29), False), (Position("e0", 29), False)]
    seen += [(Position("e1", 1), False)]
    assert [asyncio.run(come(one, continues=goes_on)) for one, goes_on in seen] == [True, True, False, False]


def test_a_viewer_ahead_of_a_former_owner_waits_until_that_lets_the_episode_go() -> None:
    """Another server took the episode over and showed more of it."""

    async def come(seen: Position, *, leaves: bool) -> bool:
        record, clock = Record(), ManualClock()
        record.go_on(30)
        views = {EPISODE: SimpleNamespace(epoch="e1", head_seq=20, ended=False)}
        fake: Any = record
        async with asyncio.TaskGroup() as tasks:
            followed = FollowedEpisodes(fake, fake, fake, clock, tasks)
            left: Any = SimpleNamespace(settled=lambda episode_id: asyncio.sleep(0))
            boards: Any = SimpleNamespace(live=lambda episode_id: None)
            played: Any = SimpleNamespace(live=views.get)
            shown = WatchableEpisodes(played, left, fake, boards, followed)
            waiting = asyncio.create_task(shown.settled(EPISODE, seen))
            for _ in range(20):
                await asyncio.sleep(0)
            waited = not waiting.done()
            if leaves:
                views.clear()
            clock.advance(INTERVAL_S if leaves else LOST_S)
            await asyncio.wait_for(waiting, 5)
            assert (followed.live(EPISODE) is not None) is leaves
            followed.stop()
        return waited

    cases = [(Position("e1", 21), True), (Position("e1", 21), False), (Position("e1", 20), False)]
    cases += [(Position("e0", 21), False)]
    assert [asyncio.run(come(seen, leaves=leaves)) for seen, leaves in cases] == [True, True, False, False]


def test_what_is_missing_after_a_look_is_read_at_the_next_and_not_for_ever() -> None:
    """As where a cache has only a part of it, or where it is withheld."""

    class Partly(Record):
        pages: ClassVar = [1, 0, 0, 3]

        async def read(self, episode_id: str, *, after_seq: int, limit: int) -> Sequence[RecordedEvent]:
            found = await super().read(episode_id, after_seq=after_seq, limit=limit)
            return found[: self.pages.pop(0) if self.pages else 0]

    partly: Any = Partly()

    async def look() -> list[tuple[int, int]]:
        async with following(partly) as followed:
            await followed.follow(EPISODE)
            view = followed.live(EPISODE)
            assert view is not None
            view.head_seq = 1
            partly.go_on(4)
            found = []
            for _ in range(8):
                partly.reads = 0
                await followed.look()
                found.append((view.head_seq, partly.reads))
                if len(found) == 4:
                    partly.go_on(2)
        return found

    assert asyncio.run(look()) == [(2, 2), (2, 1), (5, 1), (5, 0), (5, 1), (5, 1), (5, 1), (5, 0)]


async def test_a_server_that_leaves_does_not_wait_until_nobody_has_watched_for_long() -> None:
    """Until it has left it keeps its leases, and nobody plays its episodes on."""
    record: Any = Record()

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        followed = FollowedEpisodes(record, record, record, ManualClock(), tasks)
        await followed.follow(EPISODE)
        await asyncio.sleep(0)
        followed.stop()
        await followed.follow("ep-2")


def test_one_of_several_that_cannot_be_read_holds_up_no_other() -> None:
    class PartlyUnreadable(Record):
        async def read(self, episode_id: str, *, after_seq: int, limit: int) -> Sequence[RecordedEvent]:
            if episode_id == "ep-0":
                raise JournalError("gone")
            return await super().read(episode_id, after_seq=after_seq, limit=limit)

    async def follow() -> int:
        partly: Any = PartlyUnreadable()
        async with following(partly) as followed:
            views = []
            for episode_id in ("ep-0", EPISODE):
                await followed.follow(episode_id)
                view = followed.live(episode_id)
                assert view is not None
                view.head_seq = 1
                views.append(view)
            partly.go_on(2)
            with pytest.raises(JournalError):
                await followed._advance_woken(["ep-0", EPISODE])
        return views[-1].head_seq

    assert asyncio.run(follow()) == 3


class NothingHere:
    """A server that plays nothing, had nothing before, and watches no runs."""

    def live(self, episode_id: str) -> None:
        return None

    async def settled(self, episode_id: str) -> None:
        return None


async def test_viewers_who_come_at_once_ask_for_an_episode_once_and_those_after_them_never() -> None:
    record: Any = Record()
    here: Any = NothingHere()

    async with following(record) as followed:
        shown = WatchableEpisodes(here, here, record, here, followed)
        asked: list[int] = []
        for viewers in (1, 50, 50):
            if viewers == 50 and len(asked) == 1:
                followed._followed.clear()
            await asyncio.gather(*(shown.settled(EPISODE) for _ in range(viewers)))
            assert shown.live(EPISODE) is not None
            asked.append(record.questions)
    alone, together, later = asked
    assert alone > 0
    assert together == 2 * alone, "fifty who come together ask as often as one"
    assert later == together, "who comes to what is followed asks nothing"


async def test_who_stops_waiting_for_an_episode_does_not_stop_it_for_the_others() -> None:
    record: Any = Record()
    here: Any = NothingHere()

    async with following(record) as followed:
        shown = WatchableEpisodes(here, here, record, here, followed)
        gone, stays = (asyncio.ensure_future(shown.settled(EPISODE)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await stays
    assert gone.cancelled() and shown.live(EPISODE) is not None
