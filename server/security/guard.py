"""Who may do what: the operator's token, and the origins of browsers."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from spectator.clock import Clock

from ..setting_types import ORIGIN
from ..settings import Settings, is_loopback
from .client_address import address_of
from .faults import NOT_HERE, NOT_YOURS, UNAUTHENTICATED, Refused, too_many
from .rates import RateLimit


class Guard:
    """Decides who may do what.

    Args:
        settings: Token, origins, limits.
        clock: Measures.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        token = settings.operator_token
        self._token = None if token is None else token.get_secret_value().encode()
        self._on_loopback = settings.on_loopback
        self._public = settings.profile == "public"
        self._failures = RateLimit(10, 60.0, clock)

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the operator's token.

        Raises:
            Refused: It carries another one.
        """
        if self._token is None or _bearer(connection) is None:
            return False
        if self.holds_token(connection):
            return True
        if (wait_s := self._failures.take(address_of(connection))) > 0:
            raise too_many(wait_s, "wrong tokens")
        raise _unauthenticated("This is not the operator's token.", 'Bearer error="invalid_token"')

    def holds_token(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the operator's token; another one is no matter here."""
        sent = _bearer(connection)
        return self._token is not None and sent is not None and hmac.compare_digest(sent, self._token)

    def require_operator(self, connection: HTTPConnection) -> str:
        """Let whoever may stop or slow an episode through.

        Returns:
            Who it is, in a word.

        Raises:
            Refused: A token is set and the request does not carry it.
        """
        if self.is_operator(connection):
            return "operator"
        if self._token is not None:
            raise _unauthenticated("Send the operator's token: Authorization: Bearer ...", "Bearer")
        return "visitor"

    def require_control(self, connection: HTTPConnection, starter: str | None) -> str:
        """Let whoever may stop or slow one episode through.

        In the public profile that is the operator and the address that started it. Elsewhere it is the
        operator, or everybody where no token is set.

        Args:
            connection: Who asks.
            starter: The address that started the episode, see :func:`address_of`; ``None`` where that is
                not known any more.

        Returns:
            Who it is, in a word.

        Raises:
            Refused: It is somebody else.
        """
        if not self._public or self.is_operator(connection):
            return self.require_operator(connection)
        if starter == address_of(connection) or self._owns_machine(connection):
            return "visitor"
        raise Refused(
            NOT_YOURS,
            "Only whoever started this episode, and the operator, may stop or slow it: it was started from "
            "another address, or by whom is not known any more.",
        )

    def require_spender(self, connection: HTTPConnection) -> None:
        """Let whoever may spend money through.

        Raises:
            Refused: A token is set and missing, or none is set and this is not the server's own machine.
        """
        self._require_owner(
            connection,
            "What costs money runs only with SPECTATOR_OPERATOR_TOKEN set, or when the server listens on "
            "loopback and is asked from its own machine.",
        )

    def may_spend(self, connection: HTTPConnection) -> bool:
        """Whether :meth:`require_spender` would let this one through."""
        try:
            self.require_spender(connection)
        except Refused:
            return False
        return True

    def require_owner(self, connection: HTTPConnection) -> None:
        """Let whoever may read what seats were shown through; refuses as :meth:`require_spender` does."""
        self._require_owner(
            connection,
            "Prompts are read only with SPECTATOR_OPERATOR_TOKEN set, or when the server listens on loopback "
            "and is asked from its own machine; spectator export has them too.",
        )

    def require_deleter(self, connection: HTTPConnection) -> None:
        """Let whoever may delete records and pause starts through; see :meth:`require_spender`."""
        self._require_owner(
            connection,
            "This needs SPECTATOR_OPERATOR_TOKEN set, or a server that listens on loopback and is asked from "
            "its own machine.",
        )

    def _require_owner(self, connection: HTTPConnection, otherwise: str) -> None:
        if self._token is not None:
            self.require_operator(connection)
        elif not self._owns_machine(connection):
            raise Refused(NOT_HERE, otherwise)

    def _owns_machine(self, connection: HTTPConnection) -> bool:
        """Whether no token is set and the server is asked from its own machine, which alone reaches it."""
        return self._token is None and self._on_loopback and _is_local(connection)


class Origins:
    """Knows which pages are ours.

    Args:
        settings: Where the server listens and which further origins are allowed.
    """

    def __init__(self, settings: Settings) -> None:
        self._allowed = frozenset(settings.allowed_origins)
        self._on_loopback = settings.on_loopback

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers comes from one of our pages, or from no page at all.

        A page is ours when its origin is listed, or equals the host that was asked for. On loopback that
        host must be loopback's own name, or a stranger's name could be pointed here.
        """
        origin = headers.get("origin")
        if origin is None or origin.lower() in self._allowed:
            return True
        if not ORIGIN.fullmatch(origin):
            return False
        parts = urlsplit(origin.lower())
        if self._on_loopback and not is_loopback(parts.hostname or ""):
            return False
        return parts.netloc == headers.get("host", "").lower()


def _bearer(connection: HTTPConnection) -> bytes | None:
    """The token that a request carries."""
    scheme, _, sent = connection.headers.get("authorization", "").partition(" ")
    return sent.strip().encode() if scheme.lower() == "bearer" else None


def _unauthenticated(detail: str, challenge: str) -> Refused:
    return Refused(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _is_local(connection: HTTPConnection) -> bool:
    server = connection.scope.get("server")
    if server is None or not is_loopback(server[0]):
        return False
    return not any(name in connection.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))
