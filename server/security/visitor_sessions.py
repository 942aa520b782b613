"""Sessions of visitors who sign in: in this process's memory, by a cookie that names one and says no more."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from spectator.clock import Clock
from spectator.policies.lent_models import LentKey

SIGNING_IN_S: Final = 15 * 60.0
"""Seconds that a visitor may take to sign in."""

MOST: Final = 10_000
"""Sessions that are kept; beyond it the oldest one that is not signed in is forgotten, else the oldest."""


@dataclass(slots=True, eq=False)
class VisitorSession:
    """What is known of one visitor.

    Args:
        id: What the cookie carries.
        until: When it is forgotten, by the monotonic clock.
        flow: What the sign-in must remember between its two requests.
        after: Local address of the page that the sign-in leads back to.
        user: Name of the account; empty before the sign-in.
        lent: The account's token; ``None`` before the sign-in.
    """

    id: str
    until: float
    flow: dict[str, Any] = field(default_factory=dict, repr=False)
    after: str = "/"
    user: str = ""
    lent: LentKey | None = field(default=None, repr=False)

    @property
    def signed_in(self) -> bool:
        """Whether there is a token that can be used."""
        return self.lent is not None and self.lent.usable


class VisitorSessions:
    """Keeps the sessions; they end with the process.

    Args:
        clock: Time.
        secure: Whether browsers reach the server by https only; else each request says.
    """

    def __init__(self, clock: Clock, *, secure: bool) -> None:
        self._clock = clock
        self._secure = secure
        self._sessions: dict[str, VisitorSession] = {}

    def of(self, connection: HTTPConnection) -> VisitorSession | None:
        """The session that a request belongs to; ``None`` where it has none that lives."""
        session = self._sessions.get(self.cookie_of(connection))
        if session is None or session.until > self._clock.monotonic():
            return session
        self.end(session)
        return None

    def cookie_of(self, connection: HTTPConnection) -> str:
        """What the request's cookie names; empty without one."""
        return connection.cookies.get(self._cookie_name(connection), "")

    def begin(self) -> VisitorSession:
        """A new session of a visitor who is about to sign in."""
        now = self._clock.monotonic()
        for old in [one for one in self._sessions.values() if one.until <= now]:
            self.end(old)
        while len(self._sessions) >= MOST:
            self.end(min(self._sessions.values(), key=lambda one: (one.signed_in, one.until)))
        session = VisitorSession(secrets.token_urlsafe(32), now + SIGNING_IN_S)
        self._sessions[session.id] = session
        return session

    def sign_in(self, session: VisitorSession, user: str, lent: LentKey) -> VisitorSession:
        """Replace a session by that of a visitor who signed in; its name was not known before."""
        self.end(session)
        left_s = lent.left_s or 0.0
        signed_in = VisitorSession(secrets.token_urlsafe(32), self._clock.monotonic() + left_s)
        signed_in.user, signed_in.lent = user, lent
        self._sessions[signed_in.id] = signed_in
        return signed_in

    def end(self, session: VisitorSession) -> None:
        """Forget a session, and its token with it."""
        self._sessions.pop(session.id, None)
        if session.lent is not None:
            session.lent.end()

    def end_all(self) -> None:
        """Forget every session."""
        for session in tuple(self._sessions.values()):
            self.end(session)

    def give_cookie(self, response: Response, connection: HTTPConnection, session: VisitorSession) -> None:
        """Have the browser name the session in its next requests."""
        most_s = max(0, round(session.until - self._clock.monotonic()))
        self._set(response, connection, session.id, most_s)

    def take_cookie(self, response: Response, connection: HTTPConnection) -> None:
        """Have the browser forget its session."""
        self._set(response, connection, "", 0)

    def _set(self, response: Response, connection: HTTPConnection, value: str, most_s: int) -> None:
        # http.cookies knows Partitioned since Python 3.14 only
        where = "Secure; SameSite=None; Partitioned" if self._is_secure(connection) else "SameSite=Lax"
        name = self._cookie_name(connection)
        cookie = f"{name}={value}; Max-Age={most_s}; Path=/; HttpOnly; {where}"
        response.headers.append("Set-Cookie", cookie)

    def _cookie_name(self, connection: HTTPConnection) -> str:
        return "__Host-spectator-visitor" if self._is_secure(connection) else "spectator-visitor"

    def _is_secure(self, connection: HTTPConnection) -> bool:
        return self._secure or connection.url.scheme in ("https", "wss")
