"""Snapshots of recorded episodes; the last few asked for are kept, since they never change."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from spectator.episodes.record.reader import EpisodeReader
from spectator.episodes.record.view import State, replay_state
from spectator.journal.base import EpisodeSummary

from . import wire
from .wire import Frame

KEPT: Final = 32
"""Snapshots that are kept."""

BATCH: Final = 64
"""Events that are read and folded before others of the process get a turn."""


class FinalStates:
    """Folds recorded episodes.

    Args:
        records: Where their events are.
    """

    def __init__(self, records: EpisodeReader) -> None:
        self._records = records
        self._kept: OrderedDict[tuple[str, int], Frame] = OrderedDict()

    async def of(self, summary: EpisodeSummary) -> Frame:
        """The snapshot at the end of what is recorded of an episode."""
        key = (summary.episode_id, summary.head_seq)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        frame = await self._fold(summary)
        self._kept[key] = frame
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return frame

    async def _fold(self, summary: EpisodeSummary) -> Frame:
        state: State = {}
        seq = 0
        while batch := await self._records.read(
            summary.episode_id, after_seq=seq, limit=min(BATCH, summary.head_seq - seq)
        ):
            state, seq = replay_state(batch, state), batch[-1].event.seq
            if seq >= summary.head_seq:
                break
        return wire.snapshot(summary.epoch, summary.head_seq, state)
