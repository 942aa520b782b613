"""How many connections the limit of open files allows, and which one is closed to make room.

A connection that is about to be the one too many closes the HTTP connection that has waited longest for its
peer: for a request, or the rest of one. Connections whose request is being answered are never closed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Protocol, Self

from ..settings import Settings, is_loopback

try:
    import resource
except ImportError:  # not available on Windows
    resource = None  # type: ignore[assignment]

SPARE_CONNECTIONS: Final = 1000
"""Connections in addition to those of viewers and of OpenEnv sessions, if enough files can be opened."""

RESERVED: Final = 16
"""Connections, of all, on which only health checks and operators are answered."""

OWN_FILES: Final = 96
"""Files that the server keeps for itself: journal, child processes, their pipes."""

EPISODE_FILES: Final = 4
"""Files that one running episode may need, as for calls of its models."""

EXAMINED: Final = 64
"""Connections examined at most to find one that can be closed."""


def open_files() -> int | None:
    """Return how many files this process may open; ``None`` if that is unlimited or unknown."""
    if resource is None:
        return None
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if allowed == resource.RLIM_INFINITY else allowed


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many connections may be open at once.

    Args:
        per_address: HTTP connections of one address, without those of viewers; 0 = no limit.
        viewers: Those that viewers may take.
    """

    total: int
    per_address: int
    viewers: int

    @classmethod
    def of(cls, settings: Settings, files: int | None) -> Self:
        """Return what the settings want, as far as ``files`` open files allow.

        >>> Capacity.of(Settings(), 1 << 20)
        Capacity(total=11064, per_address=0, viewers=10000)
        >>> Capacity.of(Settings(), 256)
        Capacity(total=156, per_address=0, viewers=117)
        """
        connections = settings.max_viewers + settings.openenv_max_sessions + SPARE_CONNECTIONS
        if files is not None:
            own = min(OWN_FILES + EPISODE_FILES * settings.max_episodes, files // 2)
            connections = min(connections, files - own)
        proxied = settings.trusted_hops or settings.trusted_proxies
        return cls(
            connections,
            0 if proxied else settings.max_connections_per_address,
            min(settings.max_viewers, connections - min(SPARE_CONNECTIONS, connections // 4)),
        )


class HttpConnection(Protocol):
    """An HTTP connection that may be closed to make room."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its peer, not for an answer of ours."""
        ...

    def abort(self) -> None:
        """Close it immediately."""
        ...


class HttpConnections:
    """The open HTTP connections of this process, oldest first."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._open: dict[HttpConnection, str] = {}
        self._addresses: Counter[str] = Counter()
        self._closing: set[HttpConnection] = set()

    def join(self, one: HttpConnection, address: str, total: int) -> bool:
        """Note a new connection; make room for it, or abort it if there is none.

        Args:
            address: The address of the peer; loopback counts as any number of clients.
            total: All connections of this process, including ``one`` and those of viewers.

        Returns:
            Whether only the reserved connections are left, so that ``one`` is for operators only.
        """
        limit = 0 if is_loopback(address) else self._capacity.per_address
        full = 0 < limit <= self._addresses[address] and not self._make_room(address)
        if not full and self.crowded(total):
            self._make_room()
        crowded = self.crowded(total)
        if full or total - len(self._closing) > self._capacity.total:
            one.abort()
            return True
        self._open[one] = address
        self._addresses[address] += 1
        return crowded

    def leave(self, one: HttpConnection) -> None:
        """Forget a connection that closed or became a WebSocket; safe to call twice."""
        self._closing.discard(one)
        if (address := self._open.pop(one, None)) is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def crowded(self, total: int) -> bool:
        """Whether only the reserved connections are left."""
        return total - len(self._closing) > self._capacity.total - RESERVED

    def _make_room(self, address: str | None = None) -> bool:
        """Close the oldest connection that waits for its peer, if any; of one address if given."""
        for one in list(self._open)[: None if address else EXAMINED]:
            held = self._open[one]
            if one.waits and address in (None, held):
                self.leave(one)
                self._closing.add(one)
                one.abort()
                return True
            if address is None:  # do not examine it first the next time
                del self._open[one]
                self._open[one] = held
        return False
