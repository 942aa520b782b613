"""Limits of viewers' connections, and pings that end silent ones.

Pings are sent in 40 staggered groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from spectator.clock import Clock

from ..viewers.audience import Audience

UNREAD_BYTES: Final = 64 * 1024
"""What may wait for a peer that goes on sending pings."""

PINGS_PER_S: Final = 10.0
"""Pings that a peer may send in a second, over any length of time."""

PING_BURST: Final = 100.0
"""Pings that it may send at once."""

LINGER_S: Final = 5.0
"""How long a closed connection may take to read what was written, before it is cut."""

GOING_S: Final = 1.0
"""The same once the server goes."""

REQUEST_S: Final = 15.0
"""How long a connection may take to send the head of its first request; twice as long for a later one."""

HEAD_BYTES: Final = 64 * 1024
"""Longest head of a request, and longest of whatever else in one belongs to no body."""

MAX_FRAGMENTS: Final = 64
"""Most fragments of one message."""

LAST_MESSAGE_S: Final = 1.0
"""How long a peer may take to read its last message, where a task waits for that."""


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


@dataclass(frozen=True, slots=True)
class TransportPorts:
    """What viewers' transports need.

    Args:
        audience: Admits viewers.
        keepalive: Pings their connections.
        clock: Measures how often they send.
    """

    audience: Audience
    keepalive: Keepalive
    clock: Clock
