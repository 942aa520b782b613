"""Sign-in with Hugging Face (OpenID Connect) and the sessions of visitors.

authlib implements the protocol, with state, nonce and PKCE. Sessions are kept in this process's memory; the
cookie holds only a session's id.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.llm.endpoints import ApiKey
from spectator.policies.visitor_models import HUB_WORDS, VisitorKey
from spectator.text import clean_text

from ..settings import OpenIdProvider
from .faults import Kind, Refused
from .rate_limits import RateLimit

SIGNING_IN_S: Final = 15 * 60.0
"""Seconds within which a visitor must complete a sign-in."""

MOST_SESSIONS: Final = 10_000
"""Sessions kept; beyond that the oldest one without a sign-in is dropped, or else the oldest."""


@dataclass(slots=True, eq=False)
class VisitorSession:
    """One visitor's session.

    Args:
        until: When it expires, by the monotonic clock.
        after: Local path of the page to return to after the sign-in.
    """

    id: str
    until: float
    flow: dict[str, Any] = field(default_factory=dict, repr=False)
    after: str = "/"
    user: str = ""
    lent: VisitorKey | None = field(default=None, repr=False)

    @property
    def signed_in(self) -> bool:
        """Whether it has a usable token."""
        return self.lent is not None and self.lent.usable


class VisitorSessions:
    """Keeps visitors' sessions until the process ends.

    Args:
        secure: Whether browsers reach the server only by https; otherwise each request decides.
    """

    def __init__(self, clock: Clock, *, secure: bool) -> None:
        self._clock = clock
        self._secure = secure
        self._sessions: dict[str, VisitorSession] = {}

    def of(self, connection: HTTPConnection) -> VisitorSession | None:
        """Return the live session of a request; ``None`` if there is none."""
        session = self._sessions.get(self.cookie_of(connection))
        if session is None or session.until > self._clock.monotonic():
            return session
        self.end(session)
        return None

    def cookie_of(self, connection: HTTPConnection) -> str:
        """Return the session id in the request's cookie; empty without one."""
        return connection.cookies.get(self._cookie_name(connection), "")

    def begin(self) -> VisitorSession:
        """Create a session for a visitor who is about to sign in."""
        now = self._clock.monotonic()
        for old in [one for one in self._sessions.values() if one.until <= now]:
            self.end(old)
        while len(self._sessions) >= MOST_SESSIONS:
            self.end(min(self._sessions.values(), key=lambda one: (one.signed_in, one.until)))
        session = VisitorSession(secrets.token_urlsafe(32), now + SIGNING_IN_S)
        self._sessions[session.id] = session
        return session

    def sign_in(self, session: VisitorSession, user: str, lent: VisitorKey) -> VisitorSession:
        """Replace a session with one under a new id for a visitor who signed in."""
        self.end(session)
        left_s = lent.left_s or 0.0
        signed_in = VisitorSession(secrets.token_urlsafe(32), self._clock.monotonic() + left_s)
        signed_in.user, signed_in.lent = user, lent
        self._sessions[signed_in.id] = signed_in
        return signed_in

    def end(self, session: VisitorSession) -> None:
        """Delete a session and its token."""
        self._sessions.pop(session.id, None)
        if session.lent is not None:
            session.lent.end()

    def end_all(self) -> None:
        """Delete every session."""
        for session in tuple(self._sessions.values()):
            self.end(session)

    def give_cookie(self, response: Response, connection: HTTPConnection, session: VisitorSession) -> None:
        """Set the session's cookie."""
        most_s = max(0, round(session.until - self._clock.monotonic()))
        self._set(response, connection, session.id, most_s)

    def take_cookie(self, response: Response, connection: HTTPConnection) -> None:
        """Delete the session's cookie."""
        self._set(response, connection, "", 0)

    def _set(self, response: Response, connection: HTTPConnection, value: str, most_s: int) -> None:
        # http.cookies supports Partitioned only since Python 3.14
        where = "Secure; SameSite=None; Partitioned" if self._is_secure(connection) else "SameSite=Lax"
        name = self._cookie_name(connection)
        cookie = f"{name}={value}; Max-Age={most_s}; Path=/; HttpOnly; {where}"
        response.headers.append("Set-Cookie", cookie)

    def _cookie_name(self, connection: HTTPConnection) -> str:
        return "__Host-spectator-visitor" if self._is_secure(connection) else "spectator-visitor"

    def _is_secure(self, connection: HTTPConnection) -> bool:
        return self._secure or connection.url.scheme in ("https", "wss")


logger = logging.getLogger(__name__)

INFERENCE: Final = "inference-api"
"""The scope that lets a token call models."""

SCOPES: Final = f"openid profile {INFERENCE}"

CALLBACK: Final = "/sign-in/callback"

TIMEOUT_S: Final = 10.0
"""Longest wait for the provider, in seconds."""

USUAL_S: Final = 8 * 3600.0
"""Lifetime of a token in seconds if the provider does not say; the Hub's default."""

SPARE_S: Final = 30.0
"""Seconds before its expiry at which a token is no longer used."""

MOST_NAME: Final = 60

MOST_BEGUN: Final = 30
"""Sign-ins that one address may begin per minute."""

NO_SIGN_IN: Final = Kind("no-sign-in", 404, "This server offers no sign-in")
DENIED: Final = Kind("sign-in-denied", 403, "You did not sign in")
FAILED: Final = Kind("sign-in-failed", 400, "The sign-in did not succeed")
PROVIDER_DOWN: Final = Kind("provider-unavailable", 502, "Hugging Face cannot be reached")

UNREACHABLE: Final = (
    "Hugging Face did not answer as expected, so you are not signed in. Try again in a moment. You can start "
    "matches that need no sign-in meanwhile."
)
FORGOTTEN: Final = (
    "This sign-in was not begun in this browser, or too long ago. Allow cookies for this site, and sign in "
    "again from the start page."
)


class SignIn:
    """Signs visitors in."""

    def __init__(self, provider: OpenIdProvider, clock: Clock) -> None:
        self.provider = provider
        self.begun = RateLimit(MOST_BEGUN, 60.0, clock)
        """Limits how often one address may begin to sign in."""
        self._clock = clock
        self._client: Any = None

    async def begin(self, request: Request, session: VisitorSession) -> Response:
        """Redirect a visitor to the provider."""
        client = await self._opened()
        request.scope["session"] = session.flow
        try:
            answer: Response = await client.authorize_redirect(
                request, f"{self.provider.public_url}{CALLBACK}"
            )
        except _unusable() as error:
            raise _unreachable("its metadata", error) from None
        return answer

    async def finish(self, request: Request, session: VisitorSession) -> tuple[str, VisitorKey]:
        """Complete a sign-in from the provider's redirect; return the account's name and its key.

        Raises:
            Refused: The visitor denied it, it belongs to another sign-in, or the provider's answer is
                invalid.
        """
        if (said := request.query_params.get("error")) is not None:
            raise _refused_by_provider(said)
        client = await self._opened()
        request.scope["session"] = session.flow
        errors = import_module("authlib.integrations.base_client.errors")
        try:
            token = await client.authorize_access_token(request)
            if "id_token" not in token:
                raise ValueError("no id_token")
            user = token["userinfo"].get("preferred_username")
            if not user:
                user = (await client.userinfo(token=token)).get("preferred_username")
            return clean_text(str(user or "you"), MOST_NAME), self._lent(token)
        except errors.MismatchingStateError:
            raise Refused(FAILED, FORGOTTEN) from None
        except _unusable() as error:
            raise _unreachable("the sign-in", error) from None

    def _lent(self, token: Any) -> VisitorKey:
        scopes = token.get("scope")
        if isinstance(scopes, str) and INFERENCE not in scopes.split():
            detail = "The sign-in does not allow requests to models, its only purpose. Sign in again and "
            raise Refused(DENIED, f"{detail}allow the use of inference.")
        lasts_s = token.get("expires_in")
        left_s = float(lasts_s) if isinstance(lasts_s, int | float) and lasts_s > 0 else USUAL_S
        key = ApiKey(str(token["access_token"]))
        return VisitorKey(key, HUB_WORDS, clock=self._clock, left_s=max(1.0, left_s - SPARE_S))

    async def _opened(self) -> Any:
        """Return authlib's client; a thread imports it and reads the certificates, once, in 0.2 s."""
        if self._client is None:
            starlette_client = await asyncio.to_thread(import_module, "authlib.integrations.starlette_client")
            trusted = await asyncio.to_thread(import_module("httpx2").create_ssl_context)
            self._client = starlette_client.OAuth().register(
                "hub",
                client_id=self.provider.client_id,
                client_secret=self.provider.client_secret.get_secret_value(),
                server_metadata_url=f"{self.provider.url}/.well-known/openid-configuration",
                client_kwargs={
                    "scope": SCOPES,
                    "code_challenge_method": "S256",
                    "timeout": TIMEOUT_S,
                    "trust_env": False,
                    "verify": trusted,
                },
            )
        return self._client


def _unusable() -> tuple[type[Exception], ...]:
    """Return the errors of an unreachable provider or an invalid answer."""
    http, errors = import_module("httpx2"), import_module("authlib.common.errors")
    jose = import_module("joserfc.errors")
    return (
        http.HTTPError, http.InvalidURL, errors.AuthlibBaseError, jose.JoseError, ConfigurationError,
        LookupError, RuntimeError, TypeError, ValueError,
    )  # fmt: skip


def _refused_by_provider(said: str) -> Refused:
    if said == "access_denied":
        detail = "You did not allow the sign-in, so nothing changed. The other captains need no sign-in."
        return Refused(DENIED, detail)
    logger.warning("the provider rejected a sign-in: %s", clean_text(said, 40))
    return Refused(FAILED, "Hugging Face rejected the sign-in. Try again from the start page.")


def _unreachable(what: str, error: Exception) -> Refused:
    """Return the rejection, and log only the kind of error.

    The error's text may repeat what was sent.
    """
    logger.warning("the provider's answer to %s is invalid: %s", what, type(error).__name__)
    return Refused(PROVIDER_DOWN, UNREACHABLE)
