"""HTTP connections to endpoints, with this library's errors instead of aiohttp's."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from spectator.errors import (
    EndpointError,
    EndpointPrivate,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.endpoints import is_public_address


class Reply(Protocol):
    """A response: its head has arrived, its body can be read."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def at_end(self) -> bool:
        """Whether the whole body is known to have been read."""
        ...

    def header(self, name: str) -> str | None:
        """Return a header; the name is case-insensitive."""
        ...

    async def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end."""
        ...


class Transport(Protocol):
    """The HTTP operations that a client needs."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Reply]:
        """Send a request; leaving the context early closes its connection.

        Raises:
            EndpointError: On entry or while reading the body: unreachable, closed, or silent for too long.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class HttpTransport:
    """Connections to endpoints, kept alive between requests; opened on first use.

    If a kept-alive connection turns out to be closed before any byte of an answer, the request is sent again
    at once on another connection: servers close idle connections, and some close after each answer without
    saying so.

    Redirects are not followed and cookies are not kept, so that a key reaches only the configured endpoint.
    Proxies from the process environment are not used.

    Args:
        max_connections: Maximum number of connections, at least 1.
        connect_s: Timeout for connecting, seconds.
        read_s: Longest silence of an endpoint that is answering, seconds; ``None`` for no limit here.
        public_only: Raise :class:`EndpointPrivate` instead of connecting to an address for which
            :func:`is_public_address` is false. Each address is checked when its socket is opened, after the
            host name is resolved. This also rejects a name that changes its address between a check and the
            connection, and every spelling of an address (``0x7f.1``, ``2130706433``).
        resolver: Resolves host names; by default, the operating system.
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
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=read_s)
        self._session: aiohttp.ClientSession | None = None

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Reply]:
        """See :meth:`Transport.post`."""
        return _Exchange(self._open(), url, body, headers)

    async def aclose(self) -> None:
        """Close every connection; later requests open new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(
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
    """The address is private; no socket was opened."""


def _public_socket(found: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = found
    if not is_public_address(str(address[0])):
        raise _PrivateAddress("a private address")
    return socket.socket(family, kind, protocol)


_reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the request of this task is sent on a connection that was used before."""


class _Connector(aiohttp.TCPConnector):
    """Sets :data:`_reused`; a ``TraceConfig`` would cost 40 us per request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        assert protocol is not None
        _reused.set(protocol in self._used)
        self._used.add(protocol)
        return connection


class _Exchange:
    """One request and its response.

    aiohttp's errors contain the headers and thus the key, so they are never chained to those raised here.
    """

    def __init__(
        self, session: aiohttp.ClientSession, url: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        self._session = session
        self._request = (url, body, headers)
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> _HttpReply:
        url, body, headers = self._request
        while True:
            _reused.set(False)
            try:
                self._response = await self._session.post(
                    url, data=body, headers=headers, allow_redirects=False
                )
            except (aiohttp.ClientError, OSError) as error:
                if _reused.get() and _closed_before_answer(error):
                    continue
                failure = _translate(error)
            else:
                return _HttpReply(self._response)
            raise failure

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.__aexit__(kind, error, trace)


def _closed_before_answer(error: Exception) -> bool:
    """Whether the endpoint closed the connection before any byte of an answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # otherwise (part of) the head of an answer
    return isinstance(error, ConnectionResetError | BrokenPipeError) or (
        isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)
    )


class _HttpReply:
    """A :class:`Reply` read by aiohttp."""

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
    """Translate aiohttp's error; only ``detail``, for the log, names the host."""
    if isinstance(error, TimeoutError):
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return EndpointUnavailable("connecting to the endpoint timed out")
        return EndpointTimeout("the endpoint stopped sending data")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return EndpointRefused("the endpoint's address is not a valid URL; use https://HOST/PATH")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return EndpointUnavailable("the endpoint's certificate is not trusted", detail=str(error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return EndpointUnavailable("cannot resolve the endpoint's host name", detail=str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, _PrivateAddress):
            return EndpointPrivate(str(error))
        return EndpointUnavailable("cannot connect to the endpoint", detail=str(error))
    if isinstance(error, aiohttp.ClientResponseError):
        return EndpointUnavailable("the endpoint does not speak HTTP")
    return EndpointUnavailable("the endpoint closed the connection")
