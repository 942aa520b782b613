"""What viewers saw after any event of a long record, found from the nearest of states that are remembered.

A record is folded once, as far as somebody asks, and every so many events the state is remembered. States
share what did not change between them, so the memory that they take is small beside the record.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from spectator.episodes.record.view import State, folded_on
from spectator.errors import EpisodeDamaged
from spectator.journal.base import EpisodeSummary

SPACING: Final = 2_000
"""Events between states that are remembered."""

READ_EVENTS: Final = 512
"""Events that are read and folded at once, on a thread."""

MOST_STATES: Final = 2_048
"""States of one record that are remembered; every other one goes when there are more."""

MOST_RECORDS: Final = 8
"""Records whose states are remembered; the one that was asked for longest ago goes first."""


class PastReader(Protocol):
    """Reads what viewers see, undecoded, and finds what was kept of it."""

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        """The newest state that is kept up to event ``until``, with the number of its event; 0 for none."""
        ...

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Events of an episode with ``seq > after_seq``, in order."""
        ...


class PastStates:
    """States of records at any of their events.

    Args:
        records: Where the events are.
        spacing: Events between states that are remembered.
    """

    def __init__(self, records: PastReader, *, spacing: int = SPACING) -> None:
        self._records = records
        self._spacing = spacing
        self._marks: OrderedDict[tuple[str, str], _Marks] = OrderedDict()

    async def state(self, summary: EpisodeSummary, seq: int) -> State:
        """What viewers saw after event ``seq``.

        Args:
            summary: The episode, in the numbers of its viewers.
            seq: Number of the event, 0 to ``head_seq``; 0 is before the first.

        Raises:
            JournalError: The record cannot be read.
            EpisodeDamaged: It ends before ``seq``.
        """
        key = (summary.episode_id, summary.epoch)
        marks = self._marks.setdefault(key, _Marks(self._spacing))
        self._marks.move_to_end(key)
        while len(self._marks) > MOST_RECORDS:
            self._marks.popitem(last=False)
        if seq - marks.last > marks.spacing:
            kept, state = await self._records.kept_state(summary, seq)
            if seq - kept <= marks.spacing:
                return await self._fold(summary, kept, state, seq - kept)
        while seq - marks.last > marks.spacing:
            async with marks.order:  # for one state at a time: whoever needs no more goes on
                if seq - marks.last > marks.spacing:
                    known, state = marks.before(marks.last)
                    marks.remember(await self._fold(summary, known, state, marks.spacing))
        known, state = marks.before(seq)
        return await self._fold(summary, known, state, seq - known)

    async def _fold(self, summary: EpisodeSummary, after: int, state: State, count: int) -> State:
        """The state ``count`` events after event ``after``."""
        last = after + count
        while after < last:
            most = min(READ_EVENTS, last - after)
            texts = await self._records.texts(summary.episode_id, after_seq=after, limit=most)
            if not texts:
                raise EpisodeDamaged(f"the record of {summary.episode_id} ends before event {last}")
            state = await asyncio.to_thread(folded_on, texts, state, summary.episode_id)
            after += len(texts)
        return state


class _Marks:
    """The states of one record that are remembered: after every ``spacing`` events, from the beginning on."""

    def __init__(self, spacing: int) -> None:
        self.spacing = spacing
        self.order = asyncio.Lock()
        self._states: list[State] = [{}]

    @property
    def last(self) -> int:
        """Number of the event of the last of them."""
        return self.spacing * (len(self._states) - 1)

    def before(self, seq: int) -> tuple[int, State]:
        """The last one that is not after event ``seq``, with the number of its event."""
        place = min(seq // self.spacing, len(self._states) - 1)
        return place * self.spacing, self._states[place]

    def remember(self, state: State) -> None:
        """Take the next one."""
        self._states.append(state)
        if len(self._states) > MOST_STATES:
            self._states = self._states[::2]
            self.spacing *= 2
