"""Reads what is new of followed episodes in a cache, and in the record whatever is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from spectator.episodes.record.reader import EpisodeReader
from spectator.events import RecordedEvent
from spectator.journal.base import EpisodeSummary


class CachedEvents(Protocol):
    """The newest events, as far as they are cached."""

    async def after(self, episode_id: str, epoch: str, seq: int, limit: int) -> Sequence[RecordedEvent]:
        """The events that were committed next after number ``seq``; maybe none."""
        ...


class NewestReader:
    """A reader whose pages may end before the record does: for whoever asks again when there is more.

    Where the cache has nothing of a page, it is the record's own; so who asks on misses nothing.

    Args:
        records: The record.
        cache: Has the newest events.
        epoch_of: The epoch of an episode that is followed now, of which a cache may be asked.
    """

    def __init__(
        self, records: EpisodeReader, cache: CachedEvents, epoch_of: Callable[[str], str | None]
    ) -> None:
        self._records = records
        self._cache = cache
        self._epoch_of = epoch_of

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order.

        Raises:
            JournalError: The record cannot be read.
        """
        epoch = self._epoch_of(episode_id)
        if epoch is not None and after_seq > 0 and limit is not None:
            found = await self._cache.after(episode_id, epoch, after_seq, limit)
            if found:
                return found
        return await self._records.read(episode_id, after_seq=after_seq, limit=limit)

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> Sequence[str]:
        """The same of the record alone, not decoded."""
        return await self._records.texts(episode_id, after_seq=after_seq, limit=limit)

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode."""
        return await self._records.episode(episode_id)
