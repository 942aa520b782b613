"""Pages of a derived view, in memory that does not grow with the record.

The newest events are kept as they were derived, as long as they are few. Of the others only marks are kept:
the view where it stood at some of them, from which what is asked for is derived again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from copy import copy
from typing import Final

from spectator.episodes.record.derived import DerivedView
from spectator.events import RecordedEvent
from spectator.journal.base import Journal

READ_EVENTS: Final = 200
"""Recorded events that are derived at once, on a thread."""

FIRST_EVENTS: Final = 8
"""Of these, the first; how large they are says how many may follow."""

READ_CHARACTERS: Final = 1_000_000
"""Characters of them at most, but for one that is larger."""

KEPT_TEXTS: Final = 8_000_000
"""Characters of newest events that are kept of one view."""

MARKS: Final = 64
"""Marks of one view at most; every other one goes when there are more."""

CURSORS: Final = 32
"""Places where readers stopped, at which the next piece usually begins."""

MARK_CHARACTERS: Final = 32 * 1024
"""What a mark counts as: they share most of their states."""


class DerivedPages:
    """The view of one record, as far as it was derived.

    Args:
        journal: Where the record is.
        episode_id: Which.
        view: Where the view begins: at nothing.
        stood: The same view further on, if it is known; what comes before is derived only if it is asked for.
    """

    def __init__(
        self, journal: Journal, episode_id: str, view: DerivedView, stood: DerivedView | None = None
    ) -> None:
        self.view = view if stood is None else copy(stood)
        """The view at the end of what was derived."""
        self.derived = 0
        """Characters that were derived since its beginning, or since what was known."""
        self._journal = journal
        self._episode_id = episode_id
        self._order = asyncio.Lock()
        self._marks = [copy(view)] if stood is None else [copy(view), copy(stood)]
        self._spacing = READ_CHARACTERS
        self._since_mark = 0
        self._cursors: OrderedDict[int, DerivedView] = OrderedDict()
        self._texts: list[str] = []
        self._texts_after = self.view.seq
        self._texts_size = 0

    @property
    def size(self) -> int:
        """About how many characters are kept."""
        return self._texts_size + MARK_CHARACTERS * (len(self._marks) + len(self._cursors))

    async def catch_up(self) -> None:
        """Derive what was recorded meanwhile."""
        async with self._order:
            async for recorded in recorded_batches(self._journal, self._episode_id, self.view.recorded_seq):
                view = copy(self.view)  # whoever waits may leave while the thread still works on it
                made = await asyncio.to_thread(view.take, recorded)
                self.view = view
                self._keep([one.text for one in made])

    async def after(self, seq: int, limit: int | None) -> list[str]:
        """The events after ``seq``, as far as they were derived."""
        seq = max(0, seq)
        if seq >= self._texts_after:
            first = seq - self._texts_after
            return self._texts[first : None if limit is None else first + limit]
        wanted = self.view.seq - seq if limit is None else min(limit, self.view.seq - seq)
        view = copy(self._mark_before(seq))
        found: list[str] = []
        async for recorded in recorded_batches(
            self._journal, self._episode_id, view.recorded_seq, wanted + 1
        ):
            cursor = await asyncio.to_thread(_show, view, recorded, seq, wanted, found)
            if cursor is not None:
                self._cursors[cursor.seq] = cursor
                break
        while len(self._cursors) > CURSORS:
            self._cursors.popitem(last=False)
        return found

    def _keep(self, texts: Sequence[str]) -> None:
        size = sum(map(len, texts))
        self.derived += size
        self._texts += texts
        self._texts_size += size
        if self._texts_size > KEPT_TEXTS:
            self._texts, self._texts_size, self._texts_after = [], 0, self.view.seq
        self._since_mark += size
        if self._since_mark >= self._spacing:
            self._since_mark = 0
            self._marks.append(copy(self.view))
        if len(self._marks) > MARKS:
            del self._marks[1::2]
            self._spacing *= 2

    def _mark_before(self, seq: int) -> DerivedView:
        mark = self._marks[bisect_right(self._marks, seq, key=lambda view: view.seq) - 1]
        nearest = max((one for one in self._cursors if one <= seq), default=-1)
        if nearest <= mark.seq:
            return mark
        self._cursors.move_to_end(nearest)
        return self._cursors[nearest]


def _show(
    view: DerivedView, recorded: Sequence[RecordedEvent], seq: int, wanted: int, found: list[str]
) -> DerivedView | None:
    """Derive up to what is wanted, into ``found``; gives the view where the next reader begins then."""
    for one in recorded:
        before = copy(view)
        found += [shown.text for shown in view.show(one.event) if shown.event.seq > seq]
        if len(found) >= wanted:
            whole = len(found) == wanted
            del found[wanted:]
            return copy(view) if whole else before
    return None


async def recorded_batches(
    journal: Journal, episode_id: str, after_seq: int, most: int = READ_EVENTS
) -> AsyncIterator[list[RecordedEvent]]:
    """Recorded events after ``after_seq``, at most so many at once."""
    limit = min(FIRST_EVENTS, most)
    while batch := await journal.read(episode_id, after_seq=after_seq, limit=limit):
        after_seq = batch[-1].seq
        characters = sum(len(one.text) for one in batch)
        limit = max(1, min(most, READ_EVENTS, READ_CHARACTERS * len(batch) // characters))
        yield batch
