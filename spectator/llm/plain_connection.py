"""A connection without TLS: a parser in C on a socket, and nothing that a request does not need."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from spectator.errors import EndpointError, EndpointTimeout, EndpointUnavailable
from spectator.llm.usual_head import HEADERS_THAT_MATTER, USUAL_HEAD, length_of_body

IDLE_S: Final = 15.0
"""Seconds after which a connection is not used again, for its server may be about to close it."""

MAX_HEAD: Final = 65_536
"""Bytes of a response before its body."""

MAX_AHEAD: Final = 262_144
"""Bytes of a body that are kept before somebody reads them; beyond it the socket is left alone."""


class PlainConnection(asyncio.Protocol):
    """A connection, and the answer that is read from it; the callbacks are those of httptools too.

    Args:
        among: The open connections, which it leaves when it is closed.
        read_s: Longest silence of an endpoint that is answering, seconds; ``None`` for no limit.
    """

    def __init__(self, among: set[PlainConnection], read_s: float | None) -> None:
        self._among = among
        self._read_s = read_s
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._closed: asyncio.Future[None] | None = None
        self._rested_at = asyncio.get_running_loop().time()
        self.unspoken = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._done = False
        self._error: EndpointError | None = None
        self._asked = False
        self._ahead = self._head_bytes = 0
        self._keeps = self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    def usable(self, now: float) -> bool:
        """Whether a request can be sent on it; ``now`` by the loop's time."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and now - self._rested_at < IDLE_S

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._asked = True
        if self._transport is None:
            self._fail("the endpoint broke off")
        else:
            self._transport.write(request)

    async def wait(self) -> None:
        """Wait for anything new.

        Raises:
            EndpointError: It broke off, or nothing came in time.
        """
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if self._read_s is None:
                await self._waiter
                return
            try:
                async with asyncio.timeout(self._read_s):
                    await self._waiter
            except TimeoutError:
                raise EndpointTimeout("the endpoint fell silent") from None
        finally:
            self._waiter = None

    @property
    def at_end(self) -> bool:
        """Whether the whole body is read."""
        return self._done and not self._pieces

    def header(self, name: str) -> str | None:
        """A header by its name, in any case."""
        value = self._headers.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            EndpointError: It broke off, or nothing came in time.
        """
        while not self._pieces and not self._done:
            await self.wait()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._ahead = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def rest(self, now: float) -> bool:
        """Make it ready for another request, ``now``; ``False`` where it cannot be."""
        if not (self._done and self._keeps and self._error is None) or self._paused:
            return False
        self._begin()
        self._rested_at = now
        return self.usable(now)

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Close it, and wait until it is."""
        if self._transport is not None:
            self._closed = asyncio.get_running_loop().create_future()
            self._transport.abort()
            await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's derives from nothing of asyncio's

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if not self._asked or self._done:
            return self.abort()  # nobody asked
        if not self._head_bytes and self._take_whole(data):
            return self._wake()
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.unspoken = not self.status  # aiohttp's parser is more lenient
            self._fail("the endpoint does not speak HTTP")
        if not self.status and self._head_bytes > MAX_HEAD:
            self._fail("the endpoint does not speak HTTP")
        self._wake()

    def _take_whole(self, data: bytes) -> bool:
        """Take an answer that came in one piece, under a head that says nothing unusual; whether it did."""
        end = data.find(b"\r\n\r\n", 0, USUAL_HEAD)
        body = data[end + 4 :]
        if end < 0 or length_of_body(data[:end]) != len(body) or len(body) > MAX_AHEAD:
            return False
        self.status, self._done, self._keeps = 200, True, True
        if body:
            self._pieces.append(body)
        return True

    def eof_received(self) -> None:
        """The other end is done; that ends a body whose length nobody stated."""
        self._end_at_eof()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits."""
        self._transport = None
        self._among.discard(self)
        self._end_at_eof()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the few that matter."""
        name = name.lower()
        if name in HEADERS_THAT_MATTER:
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        """The answer begins."""
        if self._done:
            self._keeps = False  # a second answer, which nobody asked for
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
            return
        if self._headers.get(b"content-encoding", b"identity").lower() != b"identity":
            self.unspoken = True
            return self._fail("the endpoint compresses its answers unasked")
        self.status = status

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        if self._done or self._error is not None:
            return
        self._pieces.append(piece)
        self._ahead += len(piece)
        if self._ahead > MAX_AHEAD and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is whole; what merely announces one (100 Continue) is none."""
        if self.status and not self._done:
            self._done, self._keeps = True, self._parser.should_keep_alive()

    def _end_at_eof(self) -> None:
        if self._done or not self._asked:
            return
        if self.status and not self._headers.keys() & {b"content-length", b"transfer-encoding"}:
            self._done = True
        else:
            self._fail("the endpoint broke off")
        self._wake()

    def _fail(self, why: str) -> None:
        self._error = self._error or EndpointUnavailable(why)
        self.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
