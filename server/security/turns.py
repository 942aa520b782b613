"""Turns for requests and for reading records while episodes are played, so that neither delays a step."""

from __future__ import annotations

import asyncio
from collections import deque
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


LEAST_REST_S: Final = 0.001
"""How long no further request is begun after one, at least."""

LONGEST_PAUSE_S: Final = 0.05


class RequestTurns:
    """Begins one request at a time, of one address after the other, with a rest after each.

    Requests that arrive together would otherwise all be begun before the event loop comes to anything else:
    200 of them hold it for 200 ms. Between two of them it now does all else that is ready, and for as long as
    that and the beginning of the request took nothing more is begun. So they take half of the loop at most,
    and less where it is busy.

    Args:
        playing: Whether anything is played now; nobody waits where nothing is.
    """

    def __init__(self, playing: Callable[[], bool]) -> None:
        self._playing = playing
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(not turn.done() for turns in self._waiting.values() for turn in turns)

    async def take(self, address: str) -> None:
        """Return when it is the turn of this request of ``address``."""
        if self._taken:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # its turn came in the same moment
                    self._rest()
                raise
        elif not self._playing():
            return
        self._taken = True
        self._rest()

    def _rest(self) -> None:
        """Let the next one begin once the loop did all else, and after as long again."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def rest() -> None:
            took = loop.time() - began
            loop.call_later(min(LONGEST_PAUSE_S, max(LEAST_REST_S, took)), self._next)

        loop.call_soon(rest)

    def _next(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            if turns:  # the next one of this address comes after the others'
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
