"""Read episodes as their viewers see them, with a recorded or a derived view.

The memory of a derived view does not grow with the record: its newest events are kept while they are few,
and for the others only marks, from which they are derived again. For a long record the view is also kept
beside it, as a checkpoint of the journal tied to its event by the chain's digest, so that it need not be
folded again.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from spectator import __version__
from spectator.catalog import LoadWorld, load_world
from spectator.episodes.past_states import PastStates, StateFile, Turn
from spectator.episodes.view import DerivedView, State, folded_on, is_derived
from spectator.errors import EpisodeError, JournalError, SpectatorError, typed_as
from spectator.events import RecordedEvent, decode, decode_json, encode_json
from spectator.journal.contract import Checkpoint, EpisodeSummary, Journal
from spectator.journal.encoding import compressed, expanded

logger = logging.getLogger(__name__)

WORTH_KEEPING: Final = 4_000_000
"""Characters of record that are folded again without complaint; beyond that, what they come to is kept."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """What viewers see after an event.

    Args:
        epoch: Identity of the view's numbering.
        seq: Number of the event in the view.
        recorded_seq: Number of the event in the record: the same, unless the view is derived.
        state: What they see.
    """

    epoch: str
    seq: int
    recorded_seq: int
    state: State

    def checkpoint(self, episode_id: str) -> Checkpoint:
        """As it is kept."""
        view = {"epoch": self.epoch, "seq": self.seq, "made_by": __version__}
        body = encode_json({"view": view, "state": self.state}).encode()
        return Checkpoint(episode_id, self.recorded_seq, compressed(body))


class _Unusable(EpisodeError):
    """A checkpoint that holds no view that can be gone on from."""


async def newest_view(
    journal: Journal, episode_id: str, epoch: str, *, derived: bool, until: int | None = None
) -> SavedView | None:
    """The newest view that is kept of an episode; ``None`` where there is none that can be gone on from.

    Args:
        journal: Where it is.
        episode_id: Of which.
        epoch: Identity of the numbering in which it is wanted.
        derived: Whether the view is derived from the record, so that only one made alike will do.
        until: The last event of the record that it may follow; any when left out.
    """
    try:
        kept = await journal.checkpoints(episode_id)
    except JournalError as error:
        logger.warning("episode %s is folded from its beginning: %s", episode_id, error)
        return None
    for checkpoint in kept:
        if until is not None and checkpoint.seq > until:
            continue
        try:
            with typed_as(lambda error: _Unusable(f"{type(error).__name__}: {error}"), passing=()):
                return _view_in(checkpoint, epoch, derived=derived)
        except _Unusable as error:
            logger.info(
                "episode %s: the view after event %d is not used: %s", episode_id, checkpoint.seq, error
            )
    return None


async def save_view(journal: Journal, episode_id: str, view: SavedView) -> None:
    """Keep it; never fails, for it only saves work."""
    try:
        await journal.keep_checkpoint(view.checkpoint(episode_id))
    except JournalError as error:
        logger.info("the view of episode %s is not kept: %s", episode_id, error)


def _view_in(checkpoint: Checkpoint, epoch: str, *, derived: bool) -> SavedView:
    body: Mapping[str, Any] = decode_json(expanded(checkpoint.body).decode())
    state = body["state"]
    if not isinstance(state, Mapping):
        raise ValueError("its state is no object")
    made = body.get("view")
    if made is None and not derived:
        return SavedView(epoch, checkpoint.seq, checkpoint.seq, state)
    if made is None or made["epoch"] != epoch or (derived and made["made_by"] != __version__):
        raise ValueError("it is of another numbering")
    return SavedView(epoch, int(made["seq"]), checkpoint.seq, state)


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


FOLDED_EVENTS: Final = 64
"""Events that are read and folded at once, on a thread, at first."""

MOST_FOLDED: Final = 2_048
"""The same at most, as long as they are small."""

FOLDED_CHARACTERS: Final = 1_000_000
"""Characters of them at most, but for a single event that is larger."""

BEFORE_END: Final = 1_000
"""Events before the end of a record at which its view is kept: whoever goes back from the end needs it."""

WORTH_KEEPING_EVENTS: Final = 8_000
"""Events that are folded again without complaint, whatever they take; see :data:`WORTH_KEEPING`."""

LONG_EVENTS: Final = 20_000
"""Events beyond which a record is looked through once somebody opens it; its page reads it in parts, too."""

KEPT_CHARACTERS: Final = 32 * 1024 * 1024
"""Characters of derived events that a reader keeps, so that pages of one record are not derived again."""

KNOWN: Final = 4096
"""Episodes of which a reader knows whether their view is derived."""


class EpisodeReader(Protocol):
    """Reads episodes in the numbers of their viewers."""

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order."""
        ...

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """The same, not decoded."""
        ...

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode."""
        ...


class ViewReader:
    """Reads episodes in the numbers, with the patches and with the commentary that viewers see.

    Live records are read as they are. A derived one is derived from its beginning, or from where its view was
    kept; the newest are kept in memory, of a long one only its end (:class:`DerivedPages`).

    Args:
        journal: Where they are recorded.
        load: Finds worlds; the catalogue's own function when left out.
        kept: Characters of derived events that may be kept.
        states: Where states of long records are kept beyond this process; nowhere if left out.
        turn: What each piece of a record is folded within, for states of its past; at once if left out.
    """

    def __init__(
        self,
        journal: Journal,
        load: LoadWorld | None = None,
        *,
        kept: int = KEPT_CHARACTERS,
        states: StateFile | None = None,
        turn: Turn = nullcontext,
    ) -> None:
        self._journal = journal
        self._load = load or load_world
        self._limit = kept
        self._derived: OrderedDict[str, DerivedPages] = OrderedDict()
        self._plain: OrderedDict[str, None] = OrderedDict()
        self._past = PastStates(self, file=states, turn=turn)
        self._looks_through = states is not None
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._looked: OrderedDict[str, str | None] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """Events of an episode with ``seq > after_seq`` as viewers see them, in order.

        Raises:
            JournalError: The record cannot be read.
        """
        derived = await self._open(episode_id)
        if derived is None:
            return await self._journal.read(episode_id, after_seq=after_seq, limit=limit)
        return [decode(text) for text in await derived.after(after_seq, limit)]

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """The same, not decoded; raises as :meth:`read` does."""
        derived = await self._open(episode_id)
        if derived is None:
            return await self._journal.texts(episode_id, after_seq=after_seq, limit=limit)
        return await derived.after(after_seq, limit)

    async def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """The same, a batch at a time; nothing is kept."""
        view = await self._view(episode_id)
        if view is None:
            async for recorded in self._journal.stream(episode_id, after_seq=after_seq):
                yield recorded
            return
        async for batch in recorded_batches(self._journal, episode_id, view.recorded_seq):
            for recorded in await asyncio.to_thread(view.take, batch):
                if recorded.event.seq > after_seq:
                    yield recorded

    async def derives(self, episode_id: str) -> bool:
        """Whether what :meth:`read` gives is more than what is recorded of this episode."""
        return episode_id in self._derived or await self._view(episode_id) is not None

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode; its epoch and ``head_seq`` are those of the view."""
        summary = await self._journal.episode(episode_id)
        if summary is None:
            self._derived.pop(episode_id, None)
            return None
        derived = await self._open(episode_id)
        if derived is None:
            return summary
        view = derived.view
        if summary.ended_at is not None and derived.derived > WORTH_KEEPING:
            derived.derived = 0
            kept = SavedView(view.epoch, view.seq, view.recorded_seq, view.state)
            await save_view(self._journal, episode_id, kept)
        return replace(summary, epoch=view.epoch, head_seq=view.seq)

    async def state(self, summary: EpisodeSummary) -> State:
        """What viewers see after the last event that ``summary`` knows of.

        It is folded from the newest view that is kept beside the record; of an ended episode, what took long
        is kept itself.

        Raises:
            JournalError: The record cannot be read.
        """
        episode_id, head = summary.episode_id, summary.head_seq
        derived = await self._open(episode_id)
        if derived is not None and derived.view.seq == head:
            return derived.view.state
        kept = None
        if derived is None:
            kept = await newest_view(self._journal, episode_id, summary.epoch, derived=False, until=head)
        state, seq = ({}, 0) if kept is None else (kept.state, kept.seq)
        before_end = head - BEFORE_END if derived is None and seq < head - BEFORE_END else head
        folded, most = 0, FOLDED_EVENTS
        if derived is None and before_end - seq > WORTH_KEEPING_EVENTS:
            state, seq = await self._past.state(summary, before_end), before_end
            if summary.ended_at is not None:
                await save_view(self._journal, episode_id, SavedView(summary.epoch, seq, seq, state))
        self.look_through(summary)
        while seq < head and (
            texts := await self.texts(
                episode_id, after_seq=seq, limit=min(most, (before_end if seq < before_end else head) - seq)
            )
        ):
            size = sum(map(len, texts))
            folded += size
            most = max(1, min(MOST_FOLDED, 2 * most, FOLDED_CHARACTERS * len(texts) // max(1, size)))
            state = await asyncio.to_thread(folded_on, texts, state, episode_id)
            seq += len(texts)
            if seq == before_end and summary.ended_at is not None and folded > WORTH_KEEPING:
                await save_view(self._journal, episode_id, SavedView(summary.epoch, seq, seq, state))
        return state

    async def state_after(self, summary: EpisodeSummary, seq: int) -> State:
        """What viewers saw after event ``seq``, 0 to ``head_seq`` of the summary; see :class:`PastStates`.

        Raises:
            JournalError: The record cannot be read.
        """
        self.look_through(summary)
        return await self._past.state(summary, seq)

    async def aclose(self) -> None:
        """Look through no record any further."""
        looking = tuple(self._looking.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def view_of(self, summary: EpisodeSummary) -> str:
        """What beside the record its view depends on: for a derived one this software; empty otherwise."""
        return f"derived by {__version__}" if await self.derives(summary.episode_id) else ""

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        """The newest state that is kept up to event ``until``, with the number of its event; 0 for none."""
        if await self._open(summary.episode_id) is not None:
            return 0, {}
        kept = await newest_view(self._journal, summary.episode_id, summary.epoch, derived=False, until=until)
        return (0, {}) if kept is None else (kept.seq, kept.state)

    def look_through(self, summary: EpisodeSummary) -> None:
        """Have states of all of a long record kept, in the background: whoever opens it may go anywhere.

        Nothing is done where it is not long, has not ended, or was looked through already.
        """
        episode_id = summary.episode_id
        long = summary.head_seq > LONG_EVENTS and summary.ended_at is not None
        if not long or not self._looks_through or self._looked.get(episode_id) == summary.digest:
            return
        self._looked[episode_id] = summary.digest
        while len(self._looked) > KNOWN:
            self._looked.popitem(last=False)
        if episode_id not in self._looking:
            task = asyncio.create_task(self._looked_through(summary), name=f"states of {episode_id}")
            self._looking[episode_id] = task
            task.add_done_callback(lambda _: self._looking.pop(episode_id, None))

    async def _looked_through(self, summary: EpisodeSummary) -> None:
        async with self._one_at_a_time:
            try:
                if not await self.derives(summary.episode_id):
                    await self._past.complete(summary)
                    logger.info("episode %s is gone through: it opens anywhere at once", summary.episode_id)
            except SpectatorError as error:
                self._looked.pop(summary.episode_id, None)
                logger.info("episode %s is looked through no further: %s", summary.episode_id, error)

    async def _open(self, episode_id: str) -> DerivedPages | None:
        """The derived view up to what is recorded; ``None`` where the view was recorded itself."""
        derived = self._derived.get(episode_id)
        if derived is None:
            view = await self._view(episode_id)
            if view is None:
                return None
            made = DerivedPages(self._journal, episode_id, view, await self._stood(episode_id, view))
            derived = self._derived.setdefault(episode_id, made)
        await derived.catch_up()
        self._keep(episode_id, derived)
        return derived

    async def _stood(self, episode_id: str, begun: DerivedView) -> DerivedView | None:
        """The view further on, where that was kept."""
        kept = await newest_view(self._journal, episode_id, begun.epoch, derived=True)
        return None if kept is None else begun.further_on(kept.state, kept.seq, kept.recorded_seq)

    async def _view(self, episode_id: str) -> DerivedView | None:
        """The view of a derived record, nothing taken yet."""
        if episode_id in self._plain:
            return None
        started = await self._journal.read(episode_id, limit=1)
        if started and is_derived(started[0].event):
            return await asyncio.to_thread(DerivedView.of, started[0].event, self._load)  # may import a world
        if started:
            self._plain[episode_id] = None
            while len(self._plain) > KNOWN:
                self._plain.popitem(last=False)
        return None

    def _keep(self, episode_id: str, derived: DerivedPages) -> None:
        """Keep what was used last, as much as may be."""
        self._derived[episode_id] = derived
        self._derived.move_to_end(episode_id)
        size = sum(one.size for one in self._derived.values())
        while size > self._limit and len(self._derived) > 1:
            size -= self._derived.popitem(last=False)[1].size
