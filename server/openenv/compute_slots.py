"""Slots to compute in: few environments at once, since they share one interpreter with the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager


class ComputeSlots:
    """Lets few environments compute at once.

    When every thread wants to run, each request of anybody else waits for its turn behind them all: with 32
    environments at full speed `/health` took 11 ms where it takes 2 ms with four. One that takes long, or
    waits for something, gives its place up.

    Args:
        count: How many compute at once.
        patience_s: Seconds after which one no longer counts.
    """

    def __init__(self, count: int = 4, patience_s: float = 0.5) -> None:
        self._free = asyncio.Semaphore(count)
        self._patience_s = patience_s

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a place for the time of the ``with``, or until patience ends."""
        await self._free.acquire()
        with ExitStack() as place:
            place.callback(self._free.release)
            out_of_patience = asyncio.get_running_loop().call_later(self._patience_s, place.close)
            try:
                yield
            finally:
                out_of_patience.cancel()
