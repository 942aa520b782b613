"""Reads episodes as their viewers see them, whether their view was recorded or has to be derived."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.derived import DerivedView, is_derived
from spectator.episodes.record.derived_pages import DerivedPages, recorded_batches
from spectator.episodes.record.kept_view import WORTH_KEEPING, KeptView, keep_view, newest_view
from spectator.episodes.record.view import State, replay_state
from spectator.errors import EpisodeDamaged
from spectator.events import RecordedEvent, decode
from spectator.journal.base import EpisodeSummary, Journal

FOLDED_EVENTS: Final = 64
"""Events that are read and folded at once, on a thread."""

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
    kept; the newest are kept in memory, of a long one only its end (:class:`.derived_pages.DerivedPages`).

    Args:
        journal: Where they are recorded.
        load: Finds worlds; the catalogue's own function when left out.
        kept: Characters of derived events that may be kept.
    """

    def __init__(
        self, journal: Journal, load: LoadWorld | None = None, *, kept: int = KEPT_CHARACTERS
    ) -> None:
        self._journal = journal
        self._load = load or load_world
        self._limit = kept
        self._derived: OrderedDict[str, DerivedPages] = OrderedDict()
        self._plain: OrderedDict[str, None] = OrderedDict()

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
            kept = KeptView(view.epoch, view.seq, view.recorded_seq, view.state)
            await keep_view(self._journal, episode_id, kept)
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
        folded = 0
        while seq < head and (
            texts := await self.texts(episode_id, after_seq=seq, limit=min(FOLDED_EVENTS, head - seq))
        ):
            folded += sum(map(len, texts))
            state, seq = await asyncio.to_thread(_folded, texts, state, episode_id)
        if derived is None and summary.ended_at is not None and folded > WORTH_KEEPING and seq == head:
            await keep_view(self._journal, episode_id, KeptView(summary.epoch, seq, seq, state))
        return state

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


def _folded(texts: Sequence[str], state: State, episode_id: str) -> tuple[State, int]:
    """The state after the events in ``texts``, and the number of the last of them.

    Raises:
        EpisodeDamaged: One cannot be read.
    """
    try:
        events = [decode(text) for text in texts]
    except ValueError as error:
        raise EpisodeDamaged(f"an event of {episode_id} cannot be read: {error}") from error
    return replay_state(events, state), events[-1].event.seq
