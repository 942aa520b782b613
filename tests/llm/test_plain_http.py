"""HTTP/1.1 by the short way: every shape of a response, and what is left to aiohttp."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spectator.errors import EndpointError, EndpointTimeout, EndpointUnavailable
from spectator.llm import plain_connection
from spectator.llm.plain_http import PlainConnections, destination_of
from spectator.llm.transport import HttpTransport
from tests.fakes import until

Script = Sequence[bytes | Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]]

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Scripted:
    """An endpoint that answers each request by the next line of its script, and hangs up after the last."""

    def __init__(self, script: Script) -> None:
        self._script = list(script)
        self.requests: list[bytes] = []
        self.connections = 0
        self.base = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._script:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                step = self._script.pop(0)
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                else:
                    await step(writer)
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def answering(*script: Any, host: str = "127.0.0.1") -> AsyncIterator[Scripted]:
    fake = Scripted(script)
    server = await asyncio.start_server(fake.serve, host, 0)
    port = server.sockets[0].getsockname()[1]
    fake.base = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1?a=b"
    async with server:
        yield fake


async def ask(transport: HttpTransport, url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    async with transport.post(url, body, {"X-Own": "1"}) as reply:
        pieces = []
        while not reply.at_end and (piece := await reply.read()):
            pieces.append(piece)
        return reply.status, b"".join(pieces)


def asked(*script: Any, times: int = 1, **limits: Any) -> tuple[list[Any], Scripted]:
    """What each of so many requests came to: status and body, or the error."""

    async def run() -> tuple[list[Any], Scripted]:
        found: list[Any] = []
        async with answering(*script) as fake:
            transport = HttpTransport(**limits)
            for _ in range(times):
                try:
                    found.append(await ask(transport, fake.base))
                except EndpointError as error:
                    found.append(error)
            await transport.aclose()
        return found, fake

    return asyncio.run(run())


def chunked(*parts: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [
        WHOLE,
        chunked(b"he", b"l", b"lo"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + WHOLE,
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nCONTENT-LENGTH: 5\r\n\r\nhello",
    ],
)
def test_a_response_in_any_shape_and_its_connection_is_used_again(response: bytes) -> None:
    found, fake = asked(response, response, response, times=3)
    assert found == [(200, b"hello")] * 3
    assert fake.connections == 1
    assert fake.requests[0].startswith(b"POST /v1?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-Own: 1\r\n" in fake.requests[0] and fake.requests[0].endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        WHOLE + b"and more that nobody asked for",
        WHOLE + WHOLE,
    ],
)
def test_a_connection_that_must_not_be_used_again_is_not(response: bytes) -> None:
    found, fake = asked(response, response, times=2)
    assert found == [(200, b"hello")] * 2
    assert fake.connections == 2


async def end_without_a_length(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nhel")
    await writer.drain()
    writer.write(b"lo")


async def byte_by_byte(writer: asyncio.StreamWriter) -> None:
    for byte in chunked(b"hello"):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", [end_without_a_length, byte_by_byte])
def test_a_body_that_comes_in_pieces(step: Any) -> None:
    found, _ = asked(step)
    assert found == [(200, b"hello")]


async def cut(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")


async def cut_between_chunks(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


async def hang_up(writer: asyncio.StreamWriter) -> None:
    return


@pytest.mark.parametrize("step", [cut, cut_between_chunks, hang_up])
def test_half_a_response_is_an_error_and_the_next_request_is_fine(step: Any) -> None:
    found, fake = asked(step, WHOLE, times=2)
    assert isinstance(found[0], EndpointUnavailable) and str(found[0]) == "the endpoint broke off"
    assert found[1] == (200, b"hello")
    assert fake.connections == 2


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ],
)
def test_what_is_not_http_is_said_to_be_none(response: bytes) -> None:
    (error,), _ = asked(response)
    assert isinstance(error, EndpointUnavailable) and str(error) == "the endpoint does not speak HTTP"


def test_a_head_without_end_is_not_read_to_the_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"X-More: " + 1000 * b"x" + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    (error,), _ = asked(endless)
    assert isinstance(error, EndpointUnavailable)


def test_an_endpoint_that_compresses_unasked_is_left_to_aiohttp_from_then_on() -> None:
    packed = gzip.compress(b"hello")
    response = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (
        len(packed),
        packed,
    )
    found, fake = asked(response, response, response, times=3)
    assert isinstance(found[0], EndpointUnavailable)
    assert found[1:] == [(200, b"hello")] * 2
    assert fake.connections == 2


def test_an_endpoint_that_ends_lines_as_only_aiohttp_reads_them_is_left_to_it() -> None:
    response = b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"
    found, _ = asked(response, response, times=2)
    assert isinstance(found[0], EndpointUnavailable)
    assert found[1] == (200, b"hello")


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/v1",
        "http://me:word@localhost/v1",
        "http://exämple.org/v1",
        "http://localhost/v 1",
        "http://localhost/v1\r\nX-Evil: 1",
        "http:///v1",
    ],
)
def test_addresses_that_are_not_for_it(url: str) -> None:
    assert destination_of(url) is None


def test_an_address_of_version_six() -> None:
    destination = destination_of("http://[::1]:80/v1")
    assert destination is not None and destination.place == ("::1", 80)
    assert b"Host: [::1]:80\r\n" in destination.head


def test_a_server_that_closed_an_idle_connection_costs_no_request() -> None:
    async def run() -> None:
        async with answering(WHOLE) as fake:
            transport = HttpTransport()
            assert await ask(transport, fake.base) == (200, b"hello")  # then it hangs up
            await until(lambda: not transport._plain._open)
            fake._script.append(WHOLE)
            assert await ask(transport, fake.base) == (200, b"hello")
            assert fake.connections == 2
            await transport.aclose()

    asyncio.run(run())


def test_a_connection_that_idled_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_connection, "IDLE_S", 0.0)
    found, fake = asked(WHOLE, WHOLE, times=2)
    assert found == [(200, b"hello")] * 2
    assert fake.connections == 2


def test_a_reader_that_does_not_keep_up_holds_the_socket_back() -> None:
    size = 4 * plain_connection.MAX_AHEAD

    async def run() -> None:
        async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + size * b"x") as fake:
            transport = HttpTransport()
            async with transport.post(fake.base, b"{}", {}) as reply:
                connection = next(iter(transport._plain._open))
                await until(lambda: connection._paused)
                read = 0
                while piece := await reply.read():
                    assert len(piece) < 2 * plain_connection.MAX_AHEAD
                    read += len(piece)
                assert read == size
            await transport.aclose()

    asyncio.run(run())


def test_silence_is_told_from_a_broken_connection() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        async with answering(silent) as fake:
            connections = PlainConnections(1, 1.0, 0.01)
            destination = destination_of(fake.base)
            assert destination is not None
            with pytest.raises(EndpointTimeout, match="fell silent"):
                async with connections.post(destination, b"{}", {}):
                    pass
            assert not connections._places.locked()
            await connections.aclose()
            await connections.aclose()

    asyncio.run(run())


def test_it_can_be_used_in_one_loop_after_another() -> None:
    transport = HttpTransport()

    async def run() -> None:
        async with answering(WHOLE) as fake:
            assert await ask(transport, fake.base) == (200, b"hello")
            for connection in list(transport._plain._open):
                await connection.closed()

    asyncio.run(run())
    asyncio.run(run())
