"""The journal, with the time of every commit measured, and what has not ended counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client import Histogram

from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments
from spectator.journal.stores.database import Database
from spectator.journal.stores.sqlite import SqlJournal


class NoteRecorded(Protocol):
    """Takes note of what was recorded."""

    def __call__(self, episode_id: str, size: int, *, ended: bool) -> None:
        """So many characters of an episode; whether it has ended."""
        ...


class TimedJournal(SqlJournal):
    """A journal that observes how long each commit takes; those that fail are left out."""

    def __init__(self, database: Database, *, writable: bool) -> None:
        super().__init__(database, writable=writable)
        self.unended: Counter[str] = Counter()
        """Characters that this process recorded of each episode without an end."""

    commit: Histogram | None = None
    """Takes the seconds; set once it is open."""

    recorded: NoteRecorded | None = None
    """Is told what is recorded of which episode, where anybody counts it."""

    traced: Callable[[Sequence[RecordedEvent], Attachments | None], None] | None = None
    """Is told what was recorded, where it is traced."""

    appended: Callable[[Sequence[RecordedEvent]], None] | None = None
    """Is given what was committed of an episode that can be found, where other servers are to hear of it."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`SqlJournal.append`."""
        began = time.perf_counter()
        await super().append(events, attachments=attachments)
        if self.commit is not None:
            self.commit.observe(time.perf_counter() - began)
        if not events:
            return
        if self.appended is not None and events[0].episode_id not in self._staged.episodes:
            self.appended(events)
        if self.traced is not None:
            self.traced(events, attachments)
        episode_id, ended = events[-1].episode_id, events[-1].type == "episode.ended"
        size = sum(len(one.text) for one in events)
        if ended:
            self.unended.pop(episode_id, None)
        else:
            self.unended[episode_id] += size
        if self.recorded is not None:
            self.recorded(episode_id, size, ended=ended)

    async def unstage(self, episode_id: str) -> None:
        """See :meth:`SqlJournal.unstage`."""
        if episode_id in self._staged.episodes:
            self.unended.pop(episode_id, None)
        await super().unstage(episode_id)
