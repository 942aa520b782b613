"""Snapshots of recorded episodes; the last few asked for are kept, since they never change."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from spectator.episodes.record.view import State
from spectator.journal.base import EpisodeSummary

from ..recently_used import RecentlyUsed
from . import wire
from .wire import Frame

KEPT: Final = 32
"""Snapshots that are kept."""

FOLDED_AT_ONCE: Final = 2
"""Episodes that are folded at once; whoever asks for the same one shares the work."""


class StateReader(Protocol):
    """Folds what is recorded of episodes."""

    async def state(self, summary: EpisodeSummary) -> State:
        """What viewers see after the last event that ``summary`` knows of."""
        ...


class FinalStates:
    """Folds recorded episodes.

    Args:
        records: Where their events are.
    """

    def __init__(self, records: StateReader) -> None:
        self._records = records
        self._kept: RecentlyUsed[tuple[str, int], Frame] = RecentlyUsed(KEPT)
        self._folding: dict[tuple[str, int], asyncio.Task[Frame]] = {}
        self._turns = asyncio.Semaphore(FOLDED_AT_ONCE)

    async def of(self, summary: EpisodeSummary) -> Frame:
        """The snapshot at the end of what is recorded of an episode."""
        key = (summary.episode_id, summary.head_seq)
        if (kept := self._kept.get(key)) is not None:
            return kept
        if key not in self._folding:
            self._folding[key] = folding = asyncio.create_task(self._fold(summary))
            folding.add_done_callback(partial(self._folded, key))
        return await asyncio.shield(self._folding[key])  # others may wait for it, too

    def _folded(self, key: tuple[str, int], folding: asyncio.Task[Frame]) -> None:
        del self._folding[key]
        if not folding.cancelled() and folding.exception() is None:
            self._kept.keep(key, folding.result())

    async def _fold(self, summary: EpisodeSummary) -> Frame:
        async with self._turns:
            state = await self._records.state(summary)
            return await asyncio.to_thread(wire.snapshot, summary.epoch, summary.head_seq, state)
