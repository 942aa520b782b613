"""Read episodes as their viewers see them, with a recorded or a derived view.

The view of a long record is saved as a checkpoint in the journal, tied to its event by the chain's digest, so
that it need not be folded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from spectator import __version__
from spectator.catalog import LoadWorld, load_world
from spectator.episodes.derived_pages import DerivedPages, recorded_batches
from spectator.episodes.past_states import PastStates, StateFile, Turn
from spectator.episodes.view import DerivedView, State, folded_on, is_derived
from spectator.errors import EpisodeError, JournalError, SpectatorError, typed_as
from spectator.events import RecordedEvent, decode, decode_json, encode_json
from spectator.journal.contract import Checkpoint, EpisodeSummary, Journal
from spectator.journal.encoding import compressed, expanded

logger = logging.getLogger(__name__)

WORTH_KEEPING: Final = 4_000_000
"""Characters of record beyond which the folded view is saved."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """The viewers' state after an event.

    Args:
        seq: Number of the event in the view.
        recorded_seq: Number of the event in the record; differs from ``seq`` only for derived views.
    """

    epoch: str
    seq: int
    recorded_seq: int
    state: State

    def checkpoint(self, episode_id: str) -> Checkpoint:
        """Convert it to a checkpoint."""
        view = {"epoch": self.epoch, "seq": self.seq, "made_by": __version__}
        body = encode_json({"view": view, "state": self.state}).encode()
        return Checkpoint(episode_id, self.recorded_seq, compressed(body))


class _Unusable(EpisodeError):
    """A checkpoint without a usable view."""


async def newest_view(
    journal: Journal, episode_id: str, epoch: str, *, derived: bool, until: int | None = None
) -> SavedView | None:
    """Return the newest usable saved view of an episode; ``None`` if there is none.

    Args:
        derived: Whether the view is derived: then only one saved by this version is usable.
        until: The last recorded event that it may follow; no limit if omitted.
    """
    try:
        kept = await journal.checkpoints(episode_id)
    except JournalError as error:
        logger.warning("folding episode %s from its beginning: %s", episode_id, error)
        return None
    for checkpoint in kept:
        if until is not None and checkpoint.seq > until:
            continue
        try:
            with typed_as(_Unusable, passing=()):
                return _view_in(checkpoint, epoch, derived=derived)
        except _Unusable as error:
            logger.info(
                "episode %s: the view saved after event %d is unusable: %s", episode_id, checkpoint.seq, error
            )
    return None


async def save_view(journal: Journal, episode_id: str, view: SavedView) -> None:
    """Save a view; never raises, as it only saves work."""
    try:
        await journal.keep_checkpoint(view.checkpoint(episode_id))
    except JournalError as error:
        logger.info("the view of episode %s could not be saved: %s", episode_id, error)


def _view_in(checkpoint: Checkpoint, epoch: str, *, derived: bool) -> SavedView:
    body: Mapping[str, Any] = decode_json(expanded(checkpoint.body).decode())
    state = body["state"]
    if not isinstance(state, Mapping):
        raise ValueError("its state is not a JSON object")
    made = body.get("view")
    if made is None and not derived:
        return SavedView(epoch, checkpoint.seq, checkpoint.seq, state)
    if made is None or made["epoch"] != epoch or (derived and made["made_by"] != __version__):
        raise ValueError("it belongs to another numbering")
    return SavedView(epoch, int(made["seq"]), checkpoint.seq, state)


FOLDED_EVENTS: Final = 64
"""Size of the first batch folded in a thread."""

MOST_FOLDED: Final = 2_048
"""Maximum events of a batch."""

FOLDED_CHARACTERS: Final = 1_000_000
"""Maximum characters of a batch, unless a single event is larger."""

BEFORE_END: Final = 1_000
"""Events before the end of a record at which its view is saved, for viewers who go back from the end."""

WORTH_KEEPING_EVENTS: Final = 8_000
"""Events beyond which the folded view is saved, whatever their size; see :data:`WORTH_KEEPING`."""

LONG_EVENTS: Final = 20_000
"""Events beyond which a record is indexed in the background when opened; its page loads it in parts."""

KEPT_CHARACTERS: Final = 32 * 1024 * 1024
"""Characters of derived events kept by a reader, so that pages of one record are not derived again."""

KNOWN: Final = 4096
"""Maximum episodes in a reader's caches of what it knows about them."""


class EpisodeReader(Protocol):
    """Reads episodes in the viewers' numbering."""

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Read the events with ``seq > after_seq``, in order."""

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """Read the same events, not decoded."""

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the summary of one episode."""


class ViewReader:
    """Reads episodes with the numbers, patches and commentary that viewers see.

    Live records are read unchanged. A derived view is derived from its beginning, or from where it was saved;
    recent views are kept in memory, of a long one only its end (:class:`DerivedPages`).

    Args:
        load: Finds worlds; the catalogue if omitted.
        kept: Maximum characters of derived events to keep.
        states: Keeps states of long records beyond this process; not kept if omitted.
        turn: Context in which each piece of a record is folded for past states; none if omitted.
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
        self._turn = turn
        self._past = PastStates(self, file=states, turn=turn)
        self._indexes = states is not None
        self._indexing: dict[str, asyncio.Task[None]] = {}
        self._indexed: OrderedDict[str, str | None] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """Read the events with ``seq > after_seq`` as viewers see them, in order.

        Raises:
            JournalError: The record cannot be read.
        """
        derived = await self._open(episode_id)
        if derived is None:
            return await self._journal.read(episode_id, after_seq=after_seq, limit=limit)
        return [decode(text) for text in await derived.after(after_seq, limit)]

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """Read the same events, not decoded; raises like :meth:`read`."""
        derived = await self._open(episode_id)
        if derived is None:
            return await self._journal.texts(episode_id, after_seq=after_seq, limit=limit)
        return await derived.after(after_seq, limit)

    async def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield the same events, read in batches; keeps nothing."""
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
        """Return whether the episode's view is derived rather than recorded."""
        return episode_id in self._derived or await self._view(episode_id) is not None

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the summary of one episode, with the view's epoch and ``head_seq``."""
        summary = await self._journal.episode(episode_id)
        if summary is None:
            self._derived.pop(episode_id, None)
            return None
        known = self._derived.get(episode_id)
        if known is not None and known.view.recorded_seq > summary.head_seq:  # the database went back in time
            del self._derived[episode_id]
        derived = await self._open(episode_id)
        if derived is None:
            return summary
        view = derived.view
        if summary.ended_at is not None and derived.derived > WORTH_KEEPING:
            derived.derived = 0
            seq = view.seq - BEFORE_END if view.seq > 2 * BEFORE_END else view.seq
            at, _ = await derived.at(seq)
            await save_view(self._journal, episode_id, SavedView(at.epoch, at.seq, at.recorded_seq, at.state))
        return replace(summary, epoch=view.epoch, head_seq=view.seq)

    async def state(self, summary: EpisodeSummary) -> State:
        """Return the viewers' state after the last event of ``summary``.

        It is folded from the newest saved view; for an ended episode, a state that took long is saved.

        Raises:
            JournalError: The record cannot be read.
        """
        episode_id, head = summary.episode_id, summary.head_seq
        derived = await self._open(episode_id)
        if derived is not None:
            return (await derived.at(head))[1]
        kept = await newest_view(self._journal, episode_id, summary.epoch, derived=False, until=head)
        state, seq = ({}, 0) if kept is None else (kept.state, kept.seq)
        before_end = head - BEFORE_END if seq < head - BEFORE_END else head
        folded, most = 0, FOLDED_EVENTS
        if before_end - seq > WORTH_KEEPING_EVENTS:
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
        """Return the viewers' state after event ``seq``, 0 to ``head_seq``; see :class:`PastStates`.

        Raises:
            JournalError: The record cannot be read.
        """
        derived = await self._open(summary.episode_id)
        if derived is not None:
            return (await derived.at(seq))[1]
        self.look_through(summary)
        return await self._past.state(summary, seq)

    async def aclose(self) -> None:
        """Stop indexing records."""
        looking = tuple(self._indexing.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def kept_state(self, summary: EpisodeSummary, until: int) -> tuple[int, State]:
        """Return the newest saved state up to event ``until``, with its number; 0 for none."""
        kept = await newest_view(self._journal, summary.episode_id, summary.epoch, derived=False, until=until)
        return (0, {}) if kept is None else (kept.seq, kept.state)

    def look_through(self, summary: EpisodeSummary) -> None:
        """Index a long record in the background, so that viewers can jump anywhere in it.

        Does nothing if it is not long, has not ended, or is indexed already.
        """
        episode_id = summary.episode_id
        long = summary.head_seq > LONG_EVENTS and summary.ended_at is not None
        if not long or not self._indexes or self._indexed.get(episode_id) == summary.digest:
            return
        self._indexed[episode_id] = summary.digest
        while len(self._indexed) > KNOWN:
            self._indexed.popitem(last=False)
        if episode_id not in self._indexing:
            task = asyncio.create_task(self._index(summary), name=f"states of {episode_id}")
            self._indexing[episode_id] = task
            task.add_done_callback(lambda _: self._indexing.pop(episode_id, None))

    async def _index(self, summary: EpisodeSummary) -> None:
        async with self._one_at_a_time:
            try:
                if not await self.derives(summary.episode_id):
                    await self._past.complete(summary)
                    logger.info("episode %s is indexed: every moment of it opens quickly", summary.episode_id)
            except SpectatorError as error:
                self._indexed.pop(summary.episode_id, None)
                logger.info("episode %s could not be indexed: %s", summary.episode_id, error)

    async def _open(self, episode_id: str) -> DerivedPages | None:
        """Return the derived view up to the last recorded event; ``None`` if the view is recorded."""
        derived = self._derived.get(episode_id)
        if derived is None:
            view = await self._view(episode_id)
            if view is None:
                return None
            kept = await newest_view(self._journal, episode_id, view.epoch, derived=True)
            saved = None if kept is None else view.further_on(kept.state, kept.seq, kept.recorded_seq)
            made = DerivedPages(self._journal, episode_id, view, saved, self._turn)
            derived = self._derived.setdefault(episode_id, made)
        await derived.catch_up()
        self._keep(episode_id, derived)
        return derived

    async def _view(self, episode_id: str) -> DerivedView | None:
        """Return the view of a derived record before its first event; ``None`` if it is recorded."""
        if episode_id in self._plain:
            return None
        started = await self._journal.read(episode_id, limit=1)
        if started and is_derived(started[0].event):
            summary = await self._journal.episode(episode_id)
            first = started[0].event if summary is None else replace(started[0].event, epoch=summary.epoch)
            return await asyncio.to_thread(DerivedView.of, first, self._load)  # may import a world
        if started:
            self._plain[episode_id] = None
            while len(self._plain) > KNOWN:
                self._plain.popitem(last=False)
        return None

    def _keep(self, episode_id: str, derived: DerivedPages) -> None:
        """Keep the most recently used views, up to the limit."""
        self._derived[episode_id] = derived
        self._derived.move_to_end(episode_id)
        size = sum(one.size for one in self._derived.values())
        while size > self._limit and len(self._derived) > 1:
            size -= self._derived.popitem(last=False)[1].size
