"""Endpoint addresses: the base URL, and the session name that some endpoints want in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

from spectator.errors import ConfigurationError

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")

_NAT64: Final = IPv6Network("64:ff9b::/96")


class Address(Protocol):
    """Where chat completions are asked for."""

    @property
    def base_url(self) -> str:
        """What all requests' URLs begin with."""
        ...

    @property
    def by_session(self) -> bool:
        """Whether every request must name its session."""
        ...

    def url(self, session: str | None) -> str:
        """The full URL for a request of ``session``.

        Raises:
            ConfigurationError: A session is needed and missing, or is not a plain name.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticAddress:
    """One URL for every request.

    Args:
        base_url: Up to and without ``/chat/completions``, such as ``https://router.huggingface.co/v1``.
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """No request needs a session."""
        return False

    def url(self, session: str | None) -> str:
        """The URL; a session makes no difference."""
        return f"{self.base_url.rstrip('/')}/chat/completions"


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """A URL for each session, for endpoints that keep the tokens of a conversation together.

    Args:
        base_url: The session's name and ``/chat/completions`` are appended to it.

    >>> SessionAddress("http://localhost:8000/v1").url("match-7")
    'http://localhost:8000/v1/match-7/chat/completions'
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """Every request must name its session."""
        return True

    def url(self, session: str | None) -> str:
        """The URL of ``session``; see :meth:`Address.url`."""
        if session is None:
            raise ConfigurationError("this endpoint routes by session; the request names none")
        if not _SESSION.fullmatch(session):
            raise ConfigurationError(
                f"{session[:80]!r} cannot be part of a URL: use letters, digits and ._~-"
            )
        return f"{self.base_url.rstrip('/')}/{session}/chat/completions"


def check_base_url(base_url: str) -> str:
    """The base URL, if requests can be sent to it.

    Raises:
        ConfigurationError: It is not an http or https URL with a host, or it carries a password, a query, or
            the path of completions. The message does not repeat it, because it may hold a secret.
    """
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f]", base_url):
        raise ConfigurationError("base_url must look like https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("base_url must not carry a password; name the key's variable in api_key_env")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise ConfigurationError("base_url must end before /chat/completions, which is appended to it")
    if parts.query or parts.fragment:
        raise ConfigurationError("base_url must not carry a query or a fragment")
    return base_url


def is_public_address(address: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4) is public if that one is.

    Args:
        address: As the operating system writes it, such as ``203.0.113.7`` or ``fe80::1%eth0``.

    >>> [is_public_address(one) for one in ("1.1.1.1", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False]
    """
    found: IPv4Address | IPv6Address = ip_address(address)
    if isinstance(found, IPv6Address):
        if (carried := found.ipv4_mapped or found.sixtofour) is not None:
            return is_public_address(str(carried))
        if found in _NAT64:
            return is_public_address(str(IPv4Address(int(found) & 0xFFFF_FFFF)))
        if found.is_site_local:
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved
