"""The journal, with the time of every commit measured, and what has not ended counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from prometheus_client import Histogram

from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments
from spectator.journal.stores.database import Database
from spectator.journal.stores.sqlite import SqlJournal


class TimedJournal(SqlJournal):
    """A journal that observes how long each commit takes; those that fail are left out."""

    def __init__(self, database: Database, *, writable: bool) -> None:
        super().__init__(database, writable=writable)
        self.unended: Counter[str] = Counter()
        """Characters that this process recorded of each episode without an end."""

    commit: Histogram | None = None
    """Takes the seconds; set once it is open."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`SqlJournal.append`."""
        began = time.perf_counter()
        await super().append(events, attachments=attachments)
        if self.commit is not None:
            self.commit.observe(time.perf_counter() - began)
        if events and events[-1].type == "episode.ended":
            self.unended.pop(events[-1].episode_id, None)
        elif events:
            self.unended[events[-1].episode_id] += sum(len(one.text) for one in events)
