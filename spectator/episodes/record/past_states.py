"""What viewers saw after any event of a long record, found from the nearest of states that are kept.

A record is folded once, as far as somebody asks, and every so many events the state is kept: in memory, and
of a record that has ended in a file, where the next server finds it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Protocol

from spectator.episodes.record.state_file import StateFile
from spectator.episodes.record.view import State, fold_into
from spectator.errors import EpisodeDamaged
from spectator.events import decode_json, encode_json
from spectator.journal.base import EpisodeSummary
from spectator.journal.packing import compressed, expanded

SPACING: Final = 2_000
"""Events between states that are kept."""

SPACING_CHARACTERS: Final = 4_000_000
"""Characters of record between them, where so few events take as much."""

READ_EVENTS: Final = 512
"""Events that are read and folded at once, on a thread."""

READ_CHARACTERS: Final = 1_000_000
"""Characters of them at most, as far as the events before tell."""

MOST_STATES: Final = 2_048
"""States of one record that are kept; every other one goes when there are more."""

MOST_BYTES: Final = 8_000_000
"""Bytes of them, compressed; likewise."""

MOST_RECORDS: Final = 8
"""Records of which states are in memory; the one that was asked for longest ago goes first."""

WRITTEN_TOGETHER: Final = 32
"""States that are written to the file together, and at the end of the work those that are left."""

FORMAT: Final = 1
"""Version of what is kept."""


Turn = Callable[[], AbstractAsyncContextManager[object]]
"""What one piece of a record is read and folded within; it may keep it waiting."""


class PastReader(Protocol):
    """Reads what viewers see, undecoded, and finds what was kept of it."""

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        """The newest state that the journal has up to event ``until``, with its number; 0 for none."""
        ...

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Events of an episode with ``seq > after_seq``, in order."""
        ...

    async def view_of(self, summary: EpisodeSummary) -> str:
        """What beside the record its view depends on; empty where that is nothing."""
        ...


class PastStates:
    """States of records at any of their events.

    Args:
        records: Where the events are.
        spacing: Events between states that are kept.
        file: Where they are kept beyond this process; nowhere if left out.
        turn: What each piece is folded within; at once if left out.
    """

    def __init__(
        self,
        records: PastReader,
        *,
        spacing: int = SPACING,
        file: StateFile | None = None,
        turn: Turn = nullcontext,
    ) -> None:
        self._records = records
        self._spacing = spacing
        self._turn = turn
        self._file = file
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
        marks = await self._marks_of(summary)
        if seq - marks.before(seq) > marks.spacing:
            kept, state = await self._records.kept_state(summary, seq)
            if kept > marks.before(seq):
                marks.keep(kept, await asyncio.to_thread(_packed, state))
        try:
            known = await self._bring_near(summary, marks, seq)
            return await self._fold(summary, marks, known, seq)
        finally:
            await self._write(marks)

    async def complete(self, summary: EpisodeSummary) -> None:
        """Keep states of all of a record that has ended, for whoever goes anywhere in it.

        Raises:
            JournalError: The record cannot be read.
        """
        marks, seq = await self._marks_of(summary), 0
        try:
            while (seq := seq + marks.spacing) < summary.head_seq:
                await self._bring_near(summary, marks, seq)
        finally:
            await self._write(marks)

    async def _marks_of(self, summary: EpisodeSummary) -> _Marks:
        key = (summary.episode_id, summary.epoch)
        marks = self._marks.get(key)
        if marks is None or marks.digest not in (None, summary.digest):  # another record under the same id
            marks = self._marks[key] = _Marks(summary.episode_id, self._spacing)
        self._marks.move_to_end(key)
        while len(self._marks) > MOST_RECORDS:
            self._marks.popitem(last=False)
        over = summary.ended_at is not None and summary.digest is not None
        if over and marks.digest is None and self._file is not None:
            view = await self._records.view_of(summary)
            version = f"{FORMAT} {summary.epoch} {summary.digest} {view}"
            sizes = await asyncio.to_thread(self._file.sizes, summary.episode_id, version)
            if marks.digest is None:
                marks.find(version, sizes)
        if over:
            marks.digest = summary.digest
        return marks

    async def _bring_near(self, summary: EpisodeSummary, marks: _Marks, seq: int) -> tuple[int, bytes]:
        """A state near before event ``seq``, with its number; on the way to it others are kept."""
        while seq - (known := await self._known(marks, seq))[0] > marks.spacing:
            async with marks.order:  # for one state at a time: whoever needs no more goes on
                after, body = await self._known(marks, seq)
                if seq - after > marks.spacing:
                    last = min(seq, marks.spacing * (after // marks.spacing + 1))
                    state = await self._fold(summary, marks, (after, body), last)
                    marks.keep(last, await asyncio.to_thread(_packed, state))
            if len(marks.unwritten) >= WRITTEN_TOGETHER:
                await self._write(marks)
        return known

    async def _known(self, marks: _Marks, seq: int) -> tuple[int, bytes]:
        """The nearest state that is kept up to event ``seq``, with its number."""
        while True:
            known = marks.before(seq)
            body = marks.bodies.get(known)
            if body is None and self._file is not None and marks.version is not None:
                body = await asyncio.to_thread(self._file.read, marks.episode_id, marks.version, known)
            if body is not None:
                return known, body
            marks.lose(known)

    async def _fold(
        self, summary: EpisodeSummary, marks: _Marks, known: tuple[int, bytes], last: int
    ) -> State:
        """The state after event ``last``, from one before it."""
        (after, body), size, most = known, 0, READ_EVENTS
        state = await asyncio.to_thread(_unpacked, body)
        while after < last:
            limit = min(most, last - after)
            async with self._turn():
                texts = await self._records.texts(summary.episode_id, after_seq=after, limit=limit)
                if not texts:
                    raise EpisodeDamaged(f"the record of {summary.episode_id} ends before event {last}")
                await asyncio.to_thread(fold_into, state, texts, summary.episode_id)
            after += len(texts)
            characters = sum(map(len, texts))
            most = max(1, min(READ_EVENTS, 2 * most, READ_CHARACTERS * len(texts) // max(1, characters)))
            size += characters
            if size > SPACING_CHARACTERS and after < last:
                marks.keep(after, await asyncio.to_thread(_packed, state))
                size = 0
        return state

    async def _write(self, marks: _Marks) -> None:
        """Write to the file what is not there yet, once the record has ended."""
        if self._file is None or marks.version is None or not (marks.unwritten or marks.dropped):
            return
        bodies, dropped = marks.written()
        await asyncio.to_thread(self._file.keep, marks.episode_id, marks.version, bodies, dropped)


class _Marks:
    """The states of one record that are kept, by the number of the event that they follow."""

    def __init__(self, episode_id: str, spacing: int) -> None:
        self.episode_id = episode_id
        self.spacing = spacing
        self.order = asyncio.Lock()
        self.digest: str | None = None
        """That of the record, once it has ended."""
        self.version: str | None = None
        """What the file knows the record by, once it has ended and there is one."""
        self.bodies: dict[int, bytes] = {0: b"{}"}
        """The states that were folded here; the others are in the file."""
        self.unwritten: set[int] = set()
        """Those that are not in the file."""
        self.dropped: set[int] = set()
        """Those that are in the file and not kept any more."""
        self._sizes = {0: 0}
        self._places = [0]

    def before(self, seq: int) -> int:
        """The last place that is not after event ``seq``."""
        return self._places[bisect_right(self._places, seq) - 1]

    def keep(self, seq: int, body: bytes) -> None:
        """Keep the state after event ``seq``."""
        if seq not in self._sizes:
            insort(self._places, seq)
            self._sizes[seq] = len(body)
            self.bodies[seq] = body
            self.unwritten.add(seq)
            self._thin_out()

    def find(self, version: str, sizes: dict[int, int]) -> None:
        """Take in what the file has."""
        self.version = version
        self.unwritten.difference_update(sizes)
        self._sizes = {**sizes, **self._sizes}
        self._places = sorted(self._sizes)
        self._thin_out()

    def written(self) -> tuple[dict[int, bytes], set[int]]:
        """What is to be written now, and what is to be removed; it counts as done."""
        bodies, dropped = {seq: self.bodies[seq] for seq in self.unwritten}, self.dropped
        self.unwritten, self.dropped = set(), set()
        return bodies, dropped

    def lose(self, seq: int) -> None:
        """Do without the state after event ``seq``, which the file has not."""
        if seq in self._sizes and seq != 0:
            del self._sizes[seq]
            self._places.remove(seq)
            self.bodies.pop(seq, None)
            self.unwritten.discard(seq)

    def _thin_out(self) -> None:
        while len(self._places) > MOST_STATES or (
            len(self._places) > 2 and sum(self._sizes.values()) > MOST_BYTES
        ):
            for seq in self._places[1::2]:
                if seq not in self.unwritten:
                    self.dropped.add(seq)
                self.lose(seq)
            self.spacing *= 2


def _packed(state: State) -> bytes:
    return compressed(encode_json(dict(state)).encode())


def _unpacked(body: bytes) -> dict[str, Any]:
    state: dict[str, Any] = decode_json(expanded(body).decode())
    return state
