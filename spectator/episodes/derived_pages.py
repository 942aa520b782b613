"""The derived part of a record's view, in pages.

Its memory does not grow with the record: only the newest events are kept, and for earlier ones marks from
which they are derived again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Final

from spectator.episodes.past_states import Turn
from spectator.episodes.view import DerivedView, State, replay_state
from spectator.errors import EpisodeDamaged
from spectator.events import RecordedEvent
from spectator.journal.contract import Journal

READ_EVENTS: Final = 200
"""Maximum recorded events derived at once, in a thread."""

FIRST_EVENTS: Final = 8
"""Size of the first batch; its characters determine the size of the next."""

READ_CHARACTERS: Final = 1_000_000
"""Maximum characters of a batch, unless a single event is larger."""

KEPT_TEXTS: Final = 8_000_000
"""Maximum characters of newest events kept per view."""

MARKS: Final = 64
"""Maximum marks per view; beyond it, every other one is dropped."""

CURSORS: Final = 32
"""Maximum kept positions where readers stopped, at which the next page usually begins."""

MARK_CHARACTERS: Final = 32 * 1024
"""Estimated memory of a mark, in characters; marks share most of their states."""


class DerivedPages:
    """The derived part of one record's view.

    Args:
        view: The view before the first event.
        saved: The same view at a later event, if known; earlier events are derived only on demand.
        turn: Context in which each piece of the past is derived; none if omitted.
    """

    def __init__(
        self,
        journal: Journal,
        episode_id: str,
        view: DerivedView,
        saved: DerivedView | None = None,
        turn: Turn = nullcontext,
    ) -> None:
        self.view = view if saved is None else copy(saved)
        """The view after the last derived event."""
        self.derived = 0
        """Characters derived since the beginning or the saved view."""
        self._journal = journal
        self._episode_id = episode_id
        self._turn = turn
        self._order = asyncio.Lock()
        self._marks = [copy(view)] if saved is None else [copy(view), copy(saved)]
        self._spacing = READ_CHARACTERS
        self._since_mark = 0
        self._cursors: OrderedDict[int, DerivedView] = OrderedDict()
        self._texts: list[str] = []
        self._texts_after = self.view.seq
        self._texts_size = 0

    @property
    def size(self) -> int:
        """Approximate memory, in characters."""
        return self._texts_size + MARK_CHARACTERS * (len(self._marks) + len(self._cursors))

    async def catch_up(self) -> None:
        """Derive the events recorded since the last call."""
        async with self._order:
            async for recorded in recorded_batches(self._journal, self._episode_id, self.view.recorded_seq):
                view = copy(self.view)  # the caller may be cancelled while the thread still works on it
                made = await asyncio.to_thread(view.take, recorded)
                self.view = view
                self._keep([one.text for one in made])

    async def after(self, seq: int, limit: int | None) -> list[str]:
        """Return up to ``limit`` derived events after ``seq``."""
        seq = max(0, seq)
        if seq >= self._texts_after:
            first = seq - self._texts_after
            return self._texts[first : None if limit is None else first + limit]
        wanted = self.view.seq - seq if limit is None else min(limit, self.view.seq - seq)
        view = copy(self._mark_before(seq))
        found: list[str] = []
        async for recorded in self._batches(view, wanted + 1):
            cursor = await asyncio.to_thread(_show, view, recorded, seq, wanted, found)
            if cursor is not None:
                self._cursors[cursor.seq] = cursor
                break
        while len(self._cursors) > CURSORS:
            self._cursors.popitem(last=False)
        return found

    async def at(self, seq: int) -> tuple[DerivedView, State]:
        """Return the state after derived event ``seq``, and the last view that is not beyond it.

        Raises:
            EpisodeDamaged: The record ends before it.
        """
        mark = self.view if seq == self.view.seq else self._mark_before(seq)
        if mark.seq == seq:
            return mark, mark.state
        view = copy(mark)
        async for recorded in self._batches(view, READ_EVENTS):
            async with self._turn():
                reached = await asyncio.to_thread(_reach, view, recorded, seq)
            if reached is not None:
                return reached
        raise EpisodeDamaged(f"the record of {self._episode_id} ends before event {seq}")

    async def _batches(self, view: DerivedView, most: int) -> AsyncIterator[list[RecordedEvent]]:
        """Yield the recorded events after ``view``, which the caller derives with it; keeps marks of it."""
        size = 0
        async for recorded in recorded_batches(self._journal, self._episode_id, view.recorded_seq, most):
            yield recorded
            size += sum(len(one.text) for one in recorded)
            if size >= self._spacing:
                size = 0
                self._keep_mark(view)

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
            self._keep_mark(self.view)

    def _keep_mark(self, view: DerivedView) -> None:
        place = bisect_right(self._marks, view.seq, key=lambda mark: mark.seq)
        if self._marks[place - 1].seq < view.seq:
            self._marks.insert(place, copy(view))
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
    """Derive ``wanted`` events into ``found``; then return the view where the next page begins."""
    for one in recorded:
        before = copy(view)
        found += [shown.text for shown in view.show(one.event) if shown.event.seq > seq]
        if len(found) >= wanted:
            whole = len(found) == wanted
            del found[wanted:]
            return copy(view) if whole else before
    return None


def _reach(
    view: DerivedView, recorded: Sequence[RecordedEvent], seq: int
) -> tuple[DerivedView, State] | None:
    """Derive events until ``seq``; then return what :meth:`DerivedPages.at` does."""
    for one in recorded:
        before = copy(view)
        shown = view.show(one.event)
        if view.seq == seq:
            return view, view.state
        if view.seq > seq:
            return before, replay_state((line for line in shown if line.event.seq <= seq), before.state)
    return None


async def recorded_batches(
    journal: Journal, episode_id: str, after_seq: int, most: int = READ_EVENTS
) -> AsyncIterator[list[RecordedEvent]]:
    """Yield the recorded events after ``after_seq`` in batches of at most ``most`` events."""
    limit = min(FIRST_EVENTS, most)
    while batch := await journal.read(episode_id, after_seq=after_seq, limit=limit):
        after_seq = batch[-1].seq
        characters = sum(len(one.text) for one in batch)
        limit = max(1, min(most, READ_EVENTS, READ_CHARACTERS * len(batch) // characters))
        yield batch
