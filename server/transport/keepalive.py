"""Owns the question whether viewers' connections still live: one round of pings for all of them."""

from __future__ import annotations

from typing import Final, Protocol

from spectator.clock import Clock

INTERVAL_S: Final = 20.0
"""Time between two pings to one connection, and how long it may take to answer."""

GROUPS: Final = 40
"""Connections are asked in so many groups, one after the other, so that never all answer at once."""


class Asked(Protocol):
    """A connection that can be asked."""

    def ping(self) -> None:
        """Ask; or, when there was no answer to the last question, end the connection."""
        ...


class Keepalive:
    """Asks every connection in turn, each once in :data:`INTERVAL_S`.

    Args:
        clock: Waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: list[dict[Asked, None]] = [{} for _ in range(GROUPS)]
        self._joined = 0

    def join(self, connection: Asked) -> int:
        """Ask ``connection`` from now on; returns the number of its group."""
        self._joined += 1
        group = self._joined % GROUPS
        self._groups[group][connection] = None
        return group

    def leave(self, connection: Asked, group: int) -> None:
        """Ask it no more."""
        self._groups[group].pop(connection, None)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            for group in self._groups:
                await self._clock.sleep(INTERVAL_S / GROUPS)
                for connection in tuple(group):
                    connection.ping()
