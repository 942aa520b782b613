"""Which matches may begin, so that a budget that is short finishes some of them rather than begins many."""

from __future__ import annotations

import asyncio

from spectator.policies.spending import SpendLedger, Spent


class MatchBudget:
    """Lets a match that costs money begin only while what is left would finish it and those being played.

    What a match takes is the mean of those that have ended; until one has, one is played alone. Only a cap of
    the whole is considered: without one, every match may begin.

    Args:
        ledger: What may be spent.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self._ledger = ledger
        self._changed = asyncio.Condition()
        self._playing = 0
        self._ended = 0
        self._spent = Spent()

    async def begin(self, *, begun: bool) -> str | None:
        """Wait until a match may begin, or be resumed; ``None``, or why none may any more.

        Args:
            begun: Whether it was begun before, so that money is in it already.
        """
        async with self._changed:
            while True:
                refusal = self._ledger.refusal() and await self._ledger.reserve()
                if refusal is not None:
                    return refusal
                if self._may_begin(begun):
                    self._playing += 1
                    return None
                if not self._playing:
                    return (
                        f"what is left would not finish an episode: {self._ended} took {self._shown()} each"
                    )
                await self._changed.wait()

    async def end(self, spent: Spent | None) -> None:
        """Note that a match is no longer played: what it spent, ``None`` if it has not ended."""
        async with self._changed:
            self._playing -= 1
            if spent is not None:
                self._ended += 1
                self._spent += spent
            self._changed.notify_all()

    def _may_begin(self, begun: bool) -> bool:
        if not self._ledger.limits_whole:
            return True
        if not self._ended or begun:
            return not self._playing
        return self._ledger.affords(self._mean.times(self._playing + 1))

    @property
    def _mean(self) -> Spent:
        return self._spent.times(1 / max(1, self._ended))

    def _shown(self) -> str:
        mean = self._mean
        money = f" and US${mean.cost:.4g}" if mean.cost else ""
        return f"{mean.tokens:,} tokens{money}"
