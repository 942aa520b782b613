"""Reads episodes as their viewers see them, whether their view was recorded or has to be derived."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.derived import DerivedView, is_derived
from spectator.events import RecordedEvent, decode
from spectator.journal.base import EpisodeSummary, Journal

READ_EVENTS: Final = 200
"""Recorded events that are derived at once, on a thread."""

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

    Live records are read as they are. A derived one is derived from its beginning; the newest are kept.

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
        self._derived: OrderedDict[str, _Derived] = OrderedDict()
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
        return [decode(text) for text in derived.after(after_seq, limit)]

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """The same, not decoded; raises as :meth:`read` does."""
        derived = await self._open(episode_id)
        if derived is None:
            return await self._journal.texts(episode_id, after_seq=after_seq, limit=limit)
        return derived.after(after_seq, limit)

    async def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """The same, a batch at a time; nothing is kept."""
        view = await self._view(episode_id)
        if view is None:
            async for recorded in self._journal.stream(episode_id, after_seq=after_seq):
                yield recorded
            return
        async for batch in _batches(self._journal, episode_id, view):
            for recorded in batch:
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
        return (
            summary
            if derived is None
            else replace(summary, epoch=derived.view.epoch, head_seq=derived.view.seq)
        )

    async def _open(self, episode_id: str) -> _Derived | None:
        """The derived view up to what is recorded; ``None`` where the view was recorded itself."""
        derived = self._derived.get(episode_id)
        if derived is None:
            view = await self._view(episode_id)
            if view is None:
                return None
            derived = self._derived.setdefault(episode_id, _Derived(self._journal, episode_id, view))
        await derived.catch_up()
        self._keep(episode_id, derived)
        return derived

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

    def _keep(self, episode_id: str, derived: _Derived) -> None:
        """Keep what was used last, as much as may be."""
        self._derived[episode_id] = derived
        self._derived.move_to_end(episode_id)
        size = sum(one.size for one in self._derived.values())
        while size > self._limit and len(self._derived) > 1:
            size -= self._derived.popitem(last=False)[1].size


class _Derived:
    """The view of one record, as far as it was derived."""

    def __init__(self, journal: Journal, episode_id: str, view: DerivedView) -> None:
        self.view = view
        self.texts: list[str] = []
        self.size = 0
        self._journal = journal
        self._episode_id = episode_id
        self._order = asyncio.Lock()

    def after(self, seq: int, limit: int | None) -> list[str]:
        """The events after ``seq``, as far as they were derived."""
        first = max(0, seq)
        return self.texts[first : None if limit is None else first + limit]

    async def catch_up(self) -> None:
        """Derive what was recorded meanwhile."""
        async with self._order:
            async for batch in _batches(self._journal, self._episode_id, self.view):
                self.texts += [recorded.text for recorded in batch]
                self.size += sum(len(recorded.text) for recorded in batch)


async def _batches(
    journal: Journal, episode_id: str, view: DerivedView
) -> AsyncIterator[Sequence[RecordedEvent]]:
    """The view's events from where ``view`` stands, a batch at a time."""
    while recorded := await journal.read(episode_id, after_seq=view.recorded_seq, limit=READ_EVENTS):
        yield await asyncio.to_thread(view.take, recorded)
