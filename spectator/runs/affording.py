"""Which episodes of a run may begin, so that money that is short finishes some rather than begins many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from spectator.episodes.recorded_calls import spent_in
from spectator.events import RecordedEvent
from spectator.policies.spending import SpendLedger, Spent


class Purchases:
    """Lets an episode that costs money begin only while what is left would finish it and those under way.

    What one takes is known from those that are over: the mean of them. Until then one is played alone. Only
    the caps of the whole are looked at so; a run without them is held by nothing here.

    Args:
        ledger: What may be spent.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self._ledger = ledger
        self._changed = asyncio.Condition()
        self._under_way = 0
        self._over = 0
        self._taken = Spent()

    async def begin(self, *, begun: bool) -> str | None:
        """Wait until an episode may begin, or be played on; why none may any more, ``None`` when it may.

        Args:
            begun: Whether it was begun before, so that money is in it already.
        """
        async with self._changed:
            while True:
                refusal = self._ledger.refusal()
                if refusal is not None:
                    return refusal
                if self._may_begin(begun):
                    self._under_way += 1
                    return None
                if not self._under_way:
                    return f"what is left would not finish an episode: {self._over} took {self._shown()} each"
                await self._changed.wait()

    def _may_begin(self, begun: bool) -> bool:
        if not self._ledger.limits_whole:
            return True
        if not self._over or begun:
            return not self._under_way
        return self._ledger.affords(self._mean.times(self._under_way + 1))

    async def end(self, recorded: Sequence[RecordedEvent]) -> None:
        """Take note that one is over, or stands still."""
        async with self._changed:
            self._under_way -= 1
            if recorded and recorded[-1].event.type == "episode.ended":
                self._over += 1
                self._taken += spent_in(recorded)
            self._changed.notify_all()

    @property
    def _mean(self) -> Spent:
        return self._taken.times(1 / max(1, self._over))

    def _shown(self) -> str:
        mean = self._mean
        money = f" and US${mean.cost:.4g}" if mean.cost else ""
        return f"{mean.tokens:,} tokens{money}"
