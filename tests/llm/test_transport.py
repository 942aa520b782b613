"""The transport: every shape of a response, and connections that are kept, replaced or refused."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spectator.errors import EndpointError, EndpointRefused, EndpointTimeout, EndpointUnavailable
from spectator.llm.transport import HttpTransport

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
    assert isinstance(found[0], EndpointUnavailable) and str(found[0]) == "the endpoint closed the connection"
    assert found[1] == (200, b"hello")
    assert fake.connections == 2


@pytest.mark.parametrize(
    "response",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"],
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


def test_an_endpoint_may_compress_its_answers() -> None:
    packed = gzip.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    found, fake = asked(head % len(packed) + packed, head % len(packed) + packed, times=2)
    assert found == [(200, b"hello")] * 2
    assert fake.connections == 1


def test_an_endpoint_may_end_lines_without_a_carriage_return() -> None:
    found, _ = asked(b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
    assert found == [(200, b"hello")]


@pytest.mark.parametrize("url", ["http:///v1", "ftp://localhost/v1", "localhost/v1"])
async def test_an_address_that_is_not_a_url_is_refused(url: str) -> None:
    transport = HttpTransport()
    with pytest.raises(EndpointRefused, match="not a valid URL"):
        await ask(transport, url)
    await transport.aclose()


class ClosingAfterEachAnswer(asyncio.Protocol):
    """A server that answers once, keeps the connection open, and closes it once the next request is there.

    So llama.cpp looks to a client whose request crosses the end of the connection.

    Args:
        answers: Answers on each connection before it closes.
    """

    connections = 0
    requests = 0

    def __init__(self, answers: int) -> None:
        self._left = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).connections += 1
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not data.endswith(b"{}"):
            return
        type(self).requests += 1
        if self._left:
            self._left -= 1
            self._transport.write(WHOLE)  # type: ignore[attr-defined]
        else:
            self._transport.close()


@asynccontextmanager
async def closing_after(answers: int) -> AsyncIterator[tuple[str, type[ClosingAfterEachAnswer]]]:
    fake = type("Fake", (ClosingAfterEachAnswer,), {})
    server = await asyncio.get_running_loop().create_server(lambda: fake(answers), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", fake


async def test_a_request_on_a_kept_connection_that_died_is_sent_again_at_once() -> None:
    async with closing_after(1) as (url, fake):
        transport = HttpTransport()
        for _ in range(5):
            assert await ask(transport, url) == (200, b"hello")
        assert (fake.connections, fake.requests) == (5, 9)
        await transport.aclose()


async def test_a_new_connection_that_dies_is_a_failure() -> None:
    async with closing_after(0) as (url, fake):
        transport = HttpTransport()
        with pytest.raises(EndpointUnavailable, match="the endpoint closed the connection"):
            await ask(transport, url)
        assert fake.connections == 1
        await transport.aclose()


def test_a_kept_connection_that_dies_within_an_answer_is_a_failure() -> None:
    async def half_a_head(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-")

    found, fake = asked(WHOLE, half_a_head, WHOLE, times=2)
    assert found[0] == (200, b"hello")
    assert isinstance(found[1], EndpointUnavailable)
    assert (fake.connections, len(fake.requests)) == (1, 2)


def test_silence_is_told_from_a_broken_connection() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    (error,), _ = asked(silent, read_s=0.01)
    assert isinstance(error, EndpointTimeout) and str(error) == "the endpoint stopped sending data"
