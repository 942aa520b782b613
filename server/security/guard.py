"""Who may do what: the operator's token, the origins of browsers, and how often one may ask."""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from spectator.clock import Clock

from ..setting_types import ORIGIN
from ..settings import Settings, is_loopback
from .faults import NOT_HERE, TOO_MANY, UNAUTHENTICATED, Refused

MAX_TRACKED: Final = 10_000
"""Addresses whose recent requests are remembered; beyond it the longest silent is forgotten."""


class RateLimit:
    """At most ``count`` in any ``period_s`` seconds, for each key.

    Args:
        count: How many; 0 means no limit.
        period_s: Length of the window.
        clock: Measures.
    """

    def __init__(self, count: int, period_s: float, clock: Clock) -> None:
        self._count = count
        self._period_s = period_s
        self._clock = clock
        self._taken: dict[str, deque[float]] = {}

    def take(self, key: str) -> float:
        """Take one for ``key``.

        Returns:
            0.0 when it was granted; else the seconds until one will be.
        """
        if self._count == 0:
            return 0.0
        now = self._clock.monotonic()
        taken = self._taken.pop(key, None) or deque()
        self._taken[key] = taken
        if len(self._taken) > MAX_TRACKED:
            del self._taken[next(iter(self._taken))]
        while taken and taken[0] <= now - self._period_s:
            taken.popleft()
        if len(taken) >= self._count:
            return taken[0] + self._period_s - now
        taken.append(now)
        return 0.0

    def give_back(self, key: str) -> None:
        """Undo the newest :meth:`take` of ``key``: what it was for did not come about."""
        if taken := self._taken.get(key):
            taken.pop()


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
        self._starts_by_address = RateLimit(settings.starts_per_minute, 60.0, clock)
        self._starts_by_all = RateLimit(settings.starts_per_hour, 3600.0, clock)
        self._publishing_by_address = RateLimit(settings.publishes_per_minute, 60.0, clock)
        self._publishing_by_all = RateLimit(settings.publishes_per_hour, 3600.0, clock)
        self._failures = RateLimit(10, 60.0, clock)

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the operator's token.

        Raises:
            Refused: It carries another one.
        """
        scheme, _, sent = connection.headers.get("authorization", "").partition(" ")
        if self._token is None or scheme.lower() != "bearer":
            return False
        if hmac.compare_digest(sent.strip().encode(), self._token):
            return True
        if (wait_s := self._failures.take(address_of(connection))) > 0:
            raise _too_many(wait_s, "wrong tokens")
        raise _unauthenticated("This is not the operator's token.", 'Bearer error="invalid_token"')

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

    def _require_owner(self, connection: HTTPConnection, otherwise: str) -> None:
        if self._token is not None:
            self.require_operator(connection)
        elif not (self._on_loopback and _is_local(connection)):
            raise Refused(NOT_HERE, otherwise)

    @contextmanager
    def start(self, connection: HTTPConnection) -> Iterator[None]:
        """Count a start of an episode, given back if it fails; the operator's are not counted.

        Raises:
            Refused: There were too many lately.
        """
        if self.is_operator(connection):
            yield
            return
        address = address_of(connection)
        self._take(self._starts_by_address, self._starts_by_all, address, "starts")
        try:
            yield
        except BaseException:
            self._starts_by_address.give_back(address)
            self._starts_by_all.give_back("")
            raise

    def admit_publishing(self, connection: HTTPConnection) -> None:
        """Count an episode that is played elsewhere and shown here; the operator's are not counted.

        Raises:
            Refused: There were too many lately.
        """
        if not self.is_operator(connection):
            address = address_of(connection)
            self._take(self._publishing_by_address, self._publishing_by_all, address, "published episodes")

    def _take(self, by_address: RateLimit, by_all: RateLimit, address: str, what: str) -> None:
        if (wait_s := by_address.take(address)) > 0:
            raise _too_many(wait_s, f"{what} from this address")
        if (wait_s := by_all.take("")) > 0:
            by_address.give_back(address)
            raise _too_many(wait_s, what)


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


def address_of(connection: HTTPConnection) -> str:
    """The client's address, an IPv6 one cut to its /64, which one household has whole; for counting."""
    host = connection.client.host if connection.client else "unknown"
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or IPv6Network((int(address), 64), strict=False))


def _too_many(wait_s: float, what: str) -> Refused:
    seconds = max(1, round(wait_s + 0.5))
    return Refused(
        TOO_MANY, f"Too many {what}; try again in {seconds} s.", headers={"Retry-After": str(seconds)}
    )


def _unauthenticated(detail: str, challenge: str) -> Refused:
    return Refused(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _is_local(connection: HTTPConnection) -> bool:
    server = connection.scope.get("server")
    if server is None or not is_loopback(server[0]):
        return False
    return not any(name in connection.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))
