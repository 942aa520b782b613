"""HTTP connections to endpoints, with this library's errors in place of aiohttp's."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver

from spectator.errors import (
    EndpointError,
    EndpointPrivate,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.address import is_public_address
from spectator.llm.plain_http import PlainConnections, destination_of


class Reply(Protocol):
    """A response whose head is here and whose body is on its way."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def at_end(self) -> bool:
        """Whether the whole body is read; where it is not yet known, ``False``."""
        ...

    def header(self, name: str) -> str | None:
        """A header by its name, in any case."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body, once it is here; empty at its end."""
        ...


class Transport(Protocol):
    """What a client needs of HTTP."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Reply]:
        """Send a request; leaving the context early closes its connection.

        Raises:
            EndpointError: On entry or while the body is read: unreachable, broken off, silent for too long.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class HttpTransport:
    """Connections to endpoints, kept alive between requests; opened on first use, in the loop that uses it.

    Without TLS, requests take the shorter way of :mod:`spectator.llm.plain_http`, except to endpoints that
    answer in a way that it does not speak; those, and TLS, are aiohttp's.

    Redirects are not followed and cookies not kept, so that a key goes nowhere but where it was sent; proxies
    from the process environment are not used.

    Args:
        max_connections: Most connections at once, at least 1.
        connect_s: Longest wait for a connection, seconds.
        read_s: Longest silence of an endpoint that is answering, seconds; ``None`` for no limit of its own.
        public_only: Raise :class:`EndpointPrivate` instead of connecting to an address for which
            :func:`is_public_address` is false. Each address is checked when its socket is opened, after the
            host name is resolved, so a name that changes its address between a check and the connection is
            rejected too, as is every spelling of an address (``0x7f.1``, ``2130706433``).
        resolver: Resolves host names; the operating system when left out.
    """

    def __init__(
        self,
        *,
        max_connections: int = 128,
        connect_s: float = 10.0,
        read_s: float | None = None,
        public_only: bool = False,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._public_only = public_only
        self._resolver = resolver
        self._max_connections = max_connections
        self._plain = PlainConnections(max_connections, connect_s, read_s)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=read_s)
        self._session: aiohttp.ClientSession | None = None

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Reply]:
        """See :meth:`Transport.post`."""
        destination = None if self._public_only or self._resolver else destination_of(url)
        if destination is not None and destination.place not in self._plain.unspoken:
            return self._plain.post(destination, body, headers)
        return _Exchange(self._open().post(url, data=body, headers=headers, allow_redirects=False))

    async def aclose(self) -> None:
        """Close every connection; a later request opens new ones."""
        session, self._session = self._session, None
        try:
            await self._plain.aclose()
        finally:
            if session is not None:
                await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._max_connections,
                    ttl_dns_cache=300,
                    resolver=self._resolver,
                    socket_factory=_public_socket if self._public_only else None,
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


class _PrivateAddress(OSError):
    """No socket was opened, because the address is private."""


def _public_socket(found: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = found
    if not is_public_address(str(address[0])):
        raise _PrivateAddress("a private address")
    return socket.socket(family, kind, protocol)


class _Exchange:
    """One request and its response. aiohttp's errors hold the headers, and with them the key: none leaves."""

    def __init__(self, request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> None:
        self._request = request

    async def __aenter__(self) -> _HttpReply:
        try:
            return _HttpReply(await self._request.__aenter__())
        except (aiohttp.ClientError, OSError) as error:
            failure = _translate(error)
        raise failure

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._request.__aexit__(kind, error, trace)


class _HttpReply:
    """A response of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def at_end(self) -> bool:
        return self._content.at_eof()

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    async def read(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            failure = _translate(error)
        raise failure


def _translate(error: Exception) -> EndpointError:
    """This library's error for one of aiohttp's, in words that name no host; for the log, its own."""
    if isinstance(error, TimeoutError):
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return EndpointUnavailable("the endpoint could not be reached in time")
        return EndpointTimeout("the endpoint fell silent")
    if isinstance(error, aiohttp.InvalidURL):
        return EndpointRefused("the endpoint's address is not a valid URL; use https://HOST/PATH")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return EndpointUnavailable("the endpoint's certificate is not to be trusted", detail=str(error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return EndpointUnavailable("nobody knows the endpoint's host by its name", detail=str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, _PrivateAddress):
            return EndpointPrivate(str(error))
        return EndpointUnavailable("the endpoint could not be reached", detail=str(error))
    if isinstance(error, aiohttp.ClientResponseError):
        return EndpointUnavailable("the endpoint does not speak HTTP")
    return EndpointUnavailable("the endpoint broke off")
