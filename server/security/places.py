"""Places that may be held at once: so many in all, so many of one address; others wait for their turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

PATIENCE_S: Final = 10.0
"""How long somebody waits for a place."""

MAX_WAITING: Final = 64
"""How many may wait; of one address, as many as it may hold places, or a quarter of all."""

Whose = Literal["address", "all"]


class NoPlace(Exception):
    """Nothing became free in time.

    Args:
        whose: Whether the limit of the address was reached, or that of all together.
    """

    def __init__(self, whose: Whose) -> None:
        self.whose: Whose = whose
        super().__init__(whose)


class Places:
    """Lets so many hold a place at once, and others wait in the order in which they came.

    Whoever waits for a place of its own address keeps nobody else waiting.

    Args:
        total: Places in all, at least 1.
        by_address: Places of one address; 0 means no limit of its own.
        patience_s: Seconds that somebody waits.
    """

    def __init__(self, total: int, by_address: int = 0, patience_s: float = PATIENCE_S) -> None:
        self.total = total
        self.by_address = by_address
        self._patience_s = patience_s
        self._most_waiting = by_address or MAX_WAITING // 4
        self._held: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], str] = {}

    @property
    def held(self) -> Mapping[str, int]:
        """How many places each address holds now."""
        return dict(self._held)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, address: str) -> AsyncIterator[None]:
        """Hold a place for the time of the ``with``.

        Raises:
            NoPlace: There was none in time, or too many wait already.
        """
        if not self._is_free(address):
            await self._wait(address)
        else:
            self._held[address] += 1
        try:
            yield
        finally:
            self._release(address)

    def _is_free(self, address: str) -> bool:
        of_address = not self.by_address or self._held[address] < self.by_address
        return of_address and self._held.total() < self.total

    async def _wait(self, address: str) -> None:
        own = sum(one == address for one in self._waiting.values())
        if own >= self._most_waiting or len(self._waiting) >= MAX_WAITING:
            raise NoPlace(self._whose(address))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = address
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self._release(address)
            else:
                del self._waiting[turn]
            if isinstance(error, TimeoutError):
                raise NoPlace(self._whose(address)) from None
            raise

    def _whose(self, address: str) -> Whose:
        return "address" if self.by_address and self._held[address] >= self.by_address else "all"

    def _release(self, address: str) -> None:
        self._held[address] -= 1
        if not self._held[address]:
            del self._held[address]
        for turn, waiting in list(self._waiting.items()):
            if not turn.done() and self._is_free(waiting):
                del self._waiting[turn]
                self._held[waiting] += 1
                turn.set_result(None)
