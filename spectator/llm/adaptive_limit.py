"""How many requests may be under way at once where the endpoint alone knows: grown by success, cut by 429."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from spectator.clock import Clock

CUT: Final = 0.5
"""Factor of the limit after a refusal (multiplicative decrease)."""

CUT_AGAIN_S: Final = 1.0
"""Refusals within this time of a cut belong to the same overload and cut no further."""


class AdaptiveLimit:
    """Places for requests under way: one more after each full round of successes, half after a refusal.

    Additive increase and multiplicative decrease, as TCP does it (Chiu and Jain 1989): it finds what an
    endpoint bears without being told. Waiters are served in the order in which they came. Used from one event
    loop.

    Args:
        clock: Measures how far apart two cuts are.
        start: Places at first.
        lowest: Fewest places, at least 1.
        highest: Most places.
        slow_start: Whether, until the first refusal, a full round of successes doubles the places, as TCP
            begins (Jacobson 1988): from 64, 512 are found within a few rounds instead of 448.

    Raises:
        ValueError: Not ``1 <= lowest <= start <= highest``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        start: int = 16,
        lowest: int = 1,
        highest: int = 1024,
        slow_start: bool = False,
    ) -> None:
        if not 1 <= lowest <= start <= highest:
            raise ValueError("an adaptive limit needs 1 <= lowest <= start <= highest")
        self._places = float(start)
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._lowest = lowest
        self._highest = highest
        self._doubling = slow_start
        self._cut_at: float | None = None

    @property
    def places(self) -> int:
        """How many there are now."""
        return int(self._places)

    @property
    def taken(self) -> int:
        """How many are taken."""
        return self._taken

    def locked(self) -> bool:
        """Whether whoever asks for a place now has to wait."""
        return self._taken >= self.places or bool(self._waiting)

    def take(self) -> bool:
        """Take a place where one is free and nobody waits; whether there was."""
        free = self._taken < int(self._places) and not self._waiting
        self._taken += free
        return free

    async def acquire(self) -> None:
        """Take a place; waits until one is free and all who came before have theirs."""
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the place was given just as its taker gave up
            elif turn in self._waiting:  # else it was passed over already
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a place back."""
        self._taken -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._taken < self.places:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def succeeded(self) -> None:
        """A request was answered: a whole round of them adds one place."""
        if self._taken >= int(self._places) // 2:  # an idle limit proves nothing about a larger one
            grown = self._places + (1.0 if self._doubling else 1.0 / self._places)
            self._places = min(float(self._highest), grown)
            if self._waiting:
                self._admit()

    def refused(self) -> None:
        """A request was refused for load (429, 503): halve the places, once for each overload."""
        now = self._clock.monotonic()
        self._doubling = False
        if self._cut_at is None or now - self._cut_at >= CUT_AGAIN_S:
            self._cut_at = now
            self._places = max(float(self._lowest), self._places * CUT)
