"""A number of places for what may be under way at once, served in the order in which they are asked for."""

from __future__ import annotations

import asyncio
from collections import deque


class FairPlaces:
    """So many places, taken and given back; used from one event loop.

    Where a place is free, taking it is one call that waits for nothing, which a semaphore has not.

    Args:
        places: How many there are at first.

    >>> places = FairPlaces(1)
    >>> places.take(), places.take(), places.taken, places.locked()
    (True, False, 1, True)
    """

    def __init__(self, places: float) -> None:
        self._places = places
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

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
