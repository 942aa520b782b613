"""The open private environments, up to a limit."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from spectator.clock import Clock
from spectator.errors import EpisodeError
from spectator.steppers.shared_thread import SharedThread

from ..security.budget import Budget
from ..security.requests import address_of
from ..setting_types import PREFIX
from .publisher import ClientPublisher
from .session import COMPUTE_AT_ONCE, Session, SessionLimits
from .worlds import WireWorld

REMEMBERED: Final = 1000
"""Expired environments that are remembered."""


class SessionsFull(EpisodeError):
    """The limit of open environments is reached.

    Args:
        whose: Suffix for the message, if the limit is per address.
    """

    def __init__(self, active: int, limit: int, whose: str = "") -> None:
        self.active = active
        self.limit = limit
        self.of_address = bool(whose)
        self.setting = "openenv_sessions_per_address" if whose else "openenv_max_sessions"
        named = f"{PREFIX}{self.setting.upper()}"
        super().__init__(
            f"{active} of {limit} environments{whose} are open ({named}); close one or try again later"
        )


class SessionRegistry:
    """All private environments."""

    def __init__(self, limits: SessionLimits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._slots = asyncio.Semaphore(COMPUTE_AT_ONCE)
        self._shared = SharedThread(name="openenv")
        self._open: dict[str, Session] = {}
        self._closing = False
        self._expired: OrderedDict[str, None] = OrderedDict()
        self.publisher_for: Callable[[HTTPConnection], ClientPublisher | None] = lambda connection: None
        """Returns the publisher of a client's episodes, if it may publish; set like :attr:`budget`."""
        self.budget: Budget | None = None
        """The limits of clients; set once the server has them."""

    @property
    def active(self) -> int:
        """Number of open environments, after closing expired ones."""
        self._reap()
        return len(self._open)

    async def open(
        self, wire: WireWorld, connection: HTTPConnection | None = None, *, kept: bool = False
    ) -> Session:
        """Open an environment; the caller must close it.

        Args:
            connection: The client's; sockets and kept environments are limited per address, except for the
                operator.
            kept: Whether it lives between requests; at most half of all may, since clients may never close
                them, while sockets end with their client.

        Raises:
            SessionsFull: The limit is reached.
            EnvironmentFault: It cannot be constructed.
        """
        active, limit = self.active, self.limits.sessions
        half = max(1, limit // 2)
        if (
            self._closing
            or active >= limit
            or (kept and sum(one.kept for one in self._open.values()) >= half)
        ):
            raise self._full(active, limit)
        account = None if self.budget is None or connection is None else self.budget.account(connection)
        lasts = kept or isinstance(connection, WebSocket)
        address = "" if connection is None or not lasts else address_of(connection)
        if address and (account is None or account.address is not None):
            self._need_room_of(address)
        session = Session(
            secrets.token_urlsafe(18), wire, self.limits, self._clock, self._slots, self._shared, kept=kept
        )
        session.address = address
        if self.budget is not None and account is not None:
            session.account = account
            self.budget.environments[account.name] += 1
        self._open[session.session_id] = session
        try:
            await session.build()
        except BaseException:
            self.close(session)
            raise
        return session

    @asynccontextmanager
    async def private(self, wire: WireWorld, connection: HTTPConnection) -> AsyncIterator[Session]:
        """Open an environment while the ``with`` block runs; see :meth:`open`."""
        session = await self.open(wire, connection)
        try:
            yield session
        finally:
            self.close(session)

    def find(self, session_id: str, wire: WireWorld) -> Session | None:
        """Return the kept environment of this id and world, if it is still open."""
        self._reap()
        session = self._open.get(session_id)
        if session is None or not session.kept or session.wire.world.name != wire.world.name:
            return None
        return session

    def note_silence(self, name: str) -> None:
        """Remember that the environment of an id or an address expired."""
        self._expired[name] = None
        self._expired.move_to_end(name)
        while len(self._expired) > REMEMBERED:
            self._expired.popitem(last=False)

    def expired(self, name: str) -> str | None:
        """Return the message about an expired environment; ``None`` if none expired."""
        if name not in self._expired:
            return None
        return f"the environment expired after {self.limits.idle_s:g} s without a message"

    def close(self, session: Session) -> None:
        """Close an environment; safe to call twice."""
        if self._open.pop(session.session_id, None) is not None and self.budget and session.account:
            self.budget.environments[session.account.name] -= 1
            self.budget.environments += Counter()  # drops zero counts
        session.close()

    async def aclose(self) -> None:
        """Close all environments, and open no more."""
        self._closing = True
        for session in list(self._open.values()):
            self.close(session)

    def _need_room_of(self, address: str) -> None:
        own, most = sum(one.address == address for one in self._open.values()), self.limits.by_address
        if 0 < most <= own:
            raise self._full(own, most, " from this address")

    def _full(self, active: int, limit: int, whose: str = "") -> SessionsFull:
        full = SessionsFull(active, limit, whose)
        if self.budget is not None:
            self.budget.refused[full.setting] += 1
        return full

    def _reap(self) -> None:
        for session in [one for one in self._open.values() if one.expired or (one.kept and one.given_up)]:
            if session.expired:
                self.note_silence(session.session_id)
            self.close(session)
