"""The journal, with the time of every commit measured."""

from __future__ import annotations

import time
from collections.abc import Sequence

from prometheus_client import Histogram

from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments
from spectator.journal.stores.sqlite import SqlJournal


class TimedJournal(SqlJournal):
    """A journal that observes how long each commit takes; those that fail are left out."""

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
