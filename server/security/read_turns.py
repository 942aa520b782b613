"""Turns in which records are read: one piece at a time, with a rest after each while anything is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from spectator.clock import Clock

REST: Final = 3.0
"""How long nothing is read after a piece while something is played, as a multiple of what the piece took."""

LONGEST_REST_S: Final = 0.25


class ReadTurns:
    """Lets one piece of a record be read at a time, so that whoever plays has the processor first.

    Args:
        clock: Measures and waits.
        playing: Whether anything is played now.
    """

    def __init__(self, clock: Clock, playing: Callable[[], bool]) -> None:
        self._clock = clock
        self._playing = playing
        self._one = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Read one piece within the ``with``."""
        async with self._one:
            began = self._clock.monotonic()
            yield
            if self._playing():
                took = self._clock.monotonic() - began
                await self._clock.sleep(min(LONGEST_REST_S, REST * took))
