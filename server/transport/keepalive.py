"""Limits of viewers' connections, and pings that end silent ones.

Pings are sent in 40 staggered groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from spectator.clock import Clock

from ..viewers.audience import Audience

UNREAD_BYTES: Final = 64 * 1024
"""Unread bytes beyond which a peer that keeps sending pings is aborted."""

PINGS_PER_S: Final = 10.0
"""Pings that a peer may send per second, over any length of time."""

PING_BURST: Final = 100.0
"""Pings that a peer may send at once."""

LINGER_S: Final = 5.0
"""Seconds that a peer has to read the last bytes before its connection is aborted."""

GOING_S: Final = 1.0
"""The same while the server shuts down."""

REQUEST_S: Final = 15.0
"""Seconds that a connection has to send the head of its first request; twice that for later ones."""

HEAD_BYTES: Final = 64 * 1024
"""Longest head of a request, and longest data in a request outside of its body, in bytes."""

MAX_FRAGMENTS: Final = 64
"""Most fragments of one message."""

LAST_MESSAGE_S: Final = 1.0
"""Seconds that a task waits for a peer to read its last message."""

INTERVAL_S: Final = 20.0
"""Seconds between two pings to one connection, within which it must answer."""

GROUPS: Final = 40
"""Number of groups that are pinged one after the other, so that not all connections answer at once."""


class Pingable(Protocol):
    """A connection that can be pinged."""

    def ping(self) -> None:
        """Send a ping, or close the connection if the last one was not answered."""
        ...


class Keepalive:
    """Pings every connection once per :data:`INTERVAL_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: list[dict[Pingable, None]] = [{} for _ in range(GROUPS)]
        self._joined = 0

    def join(self, connection: Pingable) -> int:
        """Ping ``connection`` from now on; return the number of its group."""
        self._joined += 1
        group = self._joined % GROUPS
        self._groups[group][connection] = None
        return group

    def leave(self, connection: Pingable, group: int) -> None:
        """Stop pinging a connection."""
        self._groups[group].pop(connection, None)

    async def run(self) -> None:
        """Ping until cancelled."""
        while True:
            for group in self._groups:
                await self._clock.sleep(INTERVAL_S / GROUPS)
                for connection in tuple(group):
                    connection.ping()


@dataclass(frozen=True, slots=True)
class TransportPorts:
    """What viewers' connections need."""

    audience: Audience
    keepalive: Keepalive
    clock: Clock
