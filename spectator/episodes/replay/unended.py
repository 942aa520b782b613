"""The record of an episode without an end: its first and last event, and the whole, a batch at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Self

from spectator.episodes.replay.recorded_calls import streamed_with_whole_replies
from spectator.errors import EpisodeDamaged
from spectator.events import Event, RecordedEvent
from spectator.journal.base import Checkpoint, EpisodeSummary, Journal

TAIL: Final = 16
"""Events that are read at once, backwards, to find the last decision."""

ReadEvents = Callable[[int], AsyncGenerator[RecordedEvent, None]]
"""Reads the events after a number, in order."""


@dataclass(frozen=True, slots=True)
class UnendedRecord:
    """What is known of a record at its two ends, and how the rest is read.

    However long the record is, this holds two events of it.

    Args:
        first: Its first event, ``episode.started``.
        last: Its last event.
        recoveries: How often it was played on since anything was decided in it.
        paused: Whether play stood still.
        events: Its events after a number, each reply of a model whole.
        checkpoints: Where it stood, newest first; nothing where nobody kept that.
    """

    first: Event
    last: Event
    recoveries: int
    paused: bool
    events: ReadEvents
    checkpoints: Sequence[Checkpoint] = ()

    @classmethod
    def of(cls, recorded: Sequence[RecordedEvent]) -> Self:
        """One that was read already.

        Args:
            recorded: All its events, in order.

        Raises:
            EpisodeDamaged: They do not begin with its start.
        """

        async def after(seq: int) -> AsyncGenerator[RecordedEvent, None]:
            for one in recorded:
                if one.seq > seq:
                    yield one

        since = _Since()
        since.take(reversed(recorded))
        first = recorded[0].event if recorded else None
        return cls(_started(first), recorded[-1].event, since.recoveries, since.paused, after)

    @classmethod
    async def read(cls, journal: Journal, summary: EpisodeSummary) -> Self:
        """One that lies in the journal, to which nobody adds anything meanwhile.

        Raises:
            EpisodeDamaged: It does not begin with its start, or an event at one of its ends is not as it was
                recorded.
            JournalError: It cannot be read.
        """
        episode_id, head = summary.episode_id, summary.head_seq or 0
        begun = await journal.read(episode_id, limit=1)
        first = _started(begun[0].event if begun else None)
        since, last = _Since(), first
        for until in range(head, 0, -TAIL):
            after = max(until - TAIL, 0)
            batch = await journal.read(episode_id, after_seq=after, limit=until - after)
            last = batch[-1].event if until == head and batch else last
            if since.take(reversed(batch)):
                break

        def events(seq: int) -> AsyncGenerator[RecordedEvent, None]:
            return streamed_with_whole_replies(journal, episode_id, journal.stream(episode_id, after_seq=seq))

        checkpoints = await journal.checkpoints(episode_id)
        return cls(first, last, since.recoveries, since.paused, events, checkpoints)

    async def check(self) -> None:
        """Read it once, and keep nothing of it.

        Raises:
            EpisodeDamaged: An event is missing, or not as it was recorded.
            JournalError: It cannot be read.
        """
        async with aclosing(self.events(0)) as events:
            async for _ in events:
                continue


@dataclass(slots=True)
class _Since:
    """What happened since the last decision."""

    recoveries: int = 0
    paused: bool = False
    resumed: bool = False

    def take(self, newest_first: Iterable[RecordedEvent]) -> bool:
        """Take earlier and earlier events; whether the decision was reached."""
        for one in newest_first:
            match one.type:
                case "decision.made" | "episode.suspended":
                    return True
                case "episode.recovered":
                    self.recoveries += 1
                case "episode.paused":
                    self.paused |= not self.resumed
                case "episode.resumed":
                    self.resumed = True
        return False


def _started(first: Event | None) -> Event:
    if first is None or first.type != "episode.started":
        whose = "it" if first is None else first.episode_id
        raise EpisodeDamaged(f"the record of {whose} does not begin with its start")
    return first
