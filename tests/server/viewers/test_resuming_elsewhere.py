"""A viewer who comes from a server that was further is not taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from server.viewers.followed_episodes import FollowedEpisodes
from spectator.events import RecordedEvent
from spectator.journal.base import EpisodeSummary
from tests.fakes import ManualClock
from tests.journal.records import said, started

EPISODE = "ep-1"


class Record:
    """An episode that another server records."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = [started(EPISODE)]
        self.reads = 0

    def go_on(self, count: int) -> None:
        """Record so many events more."""
        first = len(self.events) + 1
        self.events += [said(EPISODE, seq) for seq in range(first, first + count)]

    async def heads(self, episode_ids: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(episode_ids, len(self.events))

    async def episode(self, episode_id: str) -> EpisodeSummary:
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


def test_what_is_followed_already_is_brought_up_to_what_a_viewer_has_seen() -> None:
    record: Any = Record()

    async def resume() -> list[tuple[int, int]]:
        async with asyncio.TaskGroup() as tasks:
            followed = FollowedEpisodes(record, record, record, ManualClock(), tasks)
            await followed.follow(EPISODE)
            view = followed.live(EPISODE)
            assert view is not None
            await view.open()
            found = []
            for seen_seq in (0, 1, 250, 250):
                record.go_on(300 if seen_seq == 250 else 0)
                await followed.follow(EPISODE, seen_seq)
                found.append((view.head_seq, record.reads))
            assert followed._looking is not None
            followed._looking.cancel()
        return found

    (by_nobody, none), (as_far, no_more), (further, read), (again, reads) = asyncio.run(resume())
    assert (by_nobody, none, as_far, no_more) == (1, 0, 1, 0), "who is no further needs no reading"
    assert further >= 250 and read > 0
    assert (again, reads) == (further, read)
