"""Pings viewers' connections in 40 staggered groups, and ends those that do not answer."""

from __future__ import annotations

from typing import Final, Protocol

from spectator.clock import Clock

INTERVAL_S: Final = 20.0
"""Time between two pings to one connection, and how long it may take to answer."""

GROUPS: Final = 40
"""Connections are pinged in so many groups, one after the other, so that never all answer at once."""


class Pingable(Protocol):
    """A connection that can be pinged."""

    def ping(self) -> None:
        """Send a ping; or, when the last one was not answered, end the connection."""
        ...


class Keepalive:
    """Pings every connection once in :data:`INTERVAL_S`.

    Args:
        clock: Waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: list[dict[Pingable, None]] = [{} for _ in range(GROUPS)]
        self._joined = 0

    def join(self, connection: Pingable) -> int:
        """Ping ``connection`` from now on; returns the number of its group."""
        self._joined += 1
        group = self._joined % GROUPS
        self._groups[group][connection] = None
        return group

    def leave(self, connection: Pingable, group: int) -> None:
        """Ping it no more."""
        self._groups[group].pop(connection, None)

    async def run(self) -> None:
        """Ping for ever."""
        while True:
            for group in self._groups:
                await self._clock.sleep(INTERVAL_S / GROUPS)
                for connection in tuple(group):
                    connection.ping()
