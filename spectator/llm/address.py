"""Endpoint addresses: the base URL, and the session name that some endpoints want in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from spectator.errors import ConfigurationError

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


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
