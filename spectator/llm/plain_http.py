"""HTTP/1.1 to endpoints without TLS: where requests go, and the connections that are kept between them.

Whatever it does not speak (TLS, a compressed body, an address with a password or beyond ASCII) is left to
aiohttp; see :mod:`spectator.llm.transport`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from spectator.errors import EndpointUnavailable
from spectator.llm.places import FairPlaces
from spectator.llm.plain_connection import PlainConnection

KEPT_DESTINATIONS: Final = 4096
"""URLs whose parts are kept: an endpoint that keeps sessions has a URL for each of them."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a URL leads.

    Args:
        place: Name or address, without brackets, and port.
        head: The first lines of a request to it, up to and with the host.
    """

    place: tuple[str, int]
    head: bytes


@lru_cache(maxsize=KEPT_DESTINATIONS)
def destination_of(url: str) -> Destination | None:
    """Where ``url`` leads; ``None`` where it is not for this module.

    >>> destination_of("http://localhost:8000/v1/chat")
    Destination(place=('localhost', 8000), head=b'POST /v1/chat HTTP/1.1\\r\\nHost: localhost:8000\\r\\n')
    >>> destination_of("https://localhost/v1/chat") is destination_of("http://me:word@localhost/") is None
    True
    """
    parts = urlsplit(url)
    plain = parts.scheme == "http" and url.isascii() and url.isprintable() and " " not in url
    if not plain or not parts.hostname or "@" in parts.netloc or "\\" in url:
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n".encode()
    return Destination((parts.hostname, parts.port or 80), head)


class PlainConnections:
    """Connections without TLS, kept alive between requests; used from one event loop at a time.

    Args:
        max_connections: Most connections at once, at least 1.
        connect_s: Longest wait for a connection, seconds.
        read_s: Longest silence of an endpoint that is answering, seconds; ``None`` for no limit of its own.
    """

    def __init__(self, max_connections: int, connect_s: float, read_s: float | None) -> None:
        self._max_connections = max_connections
        self._connect_s = connect_s
        self._read_s = read_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = FairPlaces(max_connections)
        self._idle: dict[tuple[str, int], list[PlainConnection]] = {}
        self._open: set[PlainConnection] = set()
        self.unspoken: set[tuple[str, int]] = set()
        """Places that answered in a way that has to be left to aiohttp."""
        self._named = ""  # the lines of the headers that were sent last
        self._named_of: Mapping[str, str] | None = None

    def post(self, destination: Destination, body: bytes, headers: Mapping[str, str]) -> PlainRequest:
        """A request; gives the connection once the head of the answer is here.

        Leaving it before the body is read closes the connection.

        Raises:
            EndpointError: On entry or while the body is read.
        """
        if headers is not self._named_of:
            self._named = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            self._named_of = headers
        about = f"{self._named}Accept-Encoding: identity\r\nContent-Length: {len(body)}\r\n\r\n"
        return PlainRequest(self, destination.place, destination.head + about.encode("latin-1") + body)

    async def take(self, place: tuple[str, int]) -> PlainConnection:
        """A connection for one request.

        Raises:
            EndpointUnavailable: There is none to be had.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._begin_in(loop)
        if not self._places.take():
            await self._places.acquire()
        try:
            idle = self._idle.get(place)
            while idle:
                connection = idle.pop()
                if connection.usable(loop.time()):
                    return connection
                connection.abort()
            return await self._connect(loop, place)
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: PlainConnection, place: tuple[str, int]) -> None:
        """End the use of a connection; one whose answer was not read to its end is closed."""
        self._places.release()
        if connection.unspoken:
            self.unspoken.add(place)
        if self._loop is not None and connection.rest(self._loop.time()):
            self._idle.setdefault(place, []).append(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        """Close every connection; a later request opens new ones."""
        self._idle.clear()
        if self._loop is asyncio.get_running_loop():
            await asyncio.gather(*[connection.closed() for connection in self._open])
        self._open.clear()

    def _begin_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._places = loop, FairPlaces(self._max_connections)
        self._idle.clear()
        self._open.clear()

    async def _connect(self, loop: asyncio.AbstractEventLoop, place: tuple[str, int]) -> PlainConnection:
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: PlainConnection(self._open, self._read_s), *place
                )
        except TimeoutError:
            raise EndpointUnavailable("the endpoint could not be reached in time") from None
        except UnicodeError as error:
            raise EndpointUnavailable("nobody knows the endpoint's host by its name") from error
        except OSError as error:
            failure = _unreached(error)
        else:
            if connection.usable(loop.time()):
                self._open.add(connection)
            return connection
        raise failure


@dataclass(slots=True)
class PlainRequest:
    """A request on one of the connections; see :meth:`PlainConnections.post`.

    Args:
        connections: Those.
        place: Where it goes.
        request: Its bytes.
        connection: The one that it has now.
    """

    connections: PlainConnections
    place: tuple[str, int]
    request: bytes
    connection: PlainConnection | None = None

    async def __aenter__(self) -> PlainConnection:
        self.connection = connection = await self.connections.take(self.place)
        try:
            connection.send(self.request)
            while not connection.status:
                await connection.wait()
        except BaseException:
            self.connections.give_back(connection, self.place)
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.connection is not None
        self.connections.give_back(self.connection, self.place)


def _unreached(error: OSError) -> EndpointUnavailable:
    if isinstance(error, socket.gaierror):
        return EndpointUnavailable("nobody knows the endpoint's host by its name", detail=str(error))
    return EndpointUnavailable("the endpoint could not be reached", detail=str(error))
