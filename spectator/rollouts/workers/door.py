"""Lets workers in over TCP, once both sides have shown that they know the key of the run.

The key travels with whatever starts the workers. Nothing that a peer sends is read as a message before it
has answered; what follows is neither encrypted nor signed, so the network is to be your own, as with Ray.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
from typing import Final, Self, cast

from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.worker import work

logger = logging.getLogger(__name__)

NONCE: Final = 32
"""Bytes of a question, and of the answer to it."""

ANSWER_S: Final = 10.0
"""Seconds that a peer may take to answer."""


def answer(key: bytes, side: bytes, *asked: bytes) -> bytes:
    """What one side answers to the other's question.

    Args:
        key: The key of the run.
        side: Which side answers, so that neither can be made to answer for the other.
        asked: What the answer is to.
    """
    return hmac.digest(key, b"|".join((side, *asked)), "sha256")


class Door:
    """Listens for workers. Use :meth:`open`."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._expected: dict[bytes, WorkerLink] = {}
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, host: str, key: bytes) -> Self:
        """Listen on a free port of ``host``.

        Raises:
            OSError: It cannot be listened on.
        """
        door = cls(key)
        loop = asyncio.get_running_loop()
        door._server = await loop.create_server(lambda: _Greeting(door._key, door._expected), host, 0)
        return door

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def expect(self, link: WorkerLink) -> None:
        """Let the worker of this name in, once."""
        self._expected[link.name.encode()] = link

    def close(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()


class _Greeting(asyncio.Protocol):
    """A connection until its peer has answered."""

    def __init__(self, key: bytes, expected: dict[bytes, WorkerLink]) -> None:
        self._key = key
        self._expected = expected
        self._asked = secrets.token_bytes(NONCE)
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's derives from nothing of asyncio's
        self._transport.write(self._asked)
        self._patience = asyncio.get_running_loop().call_later(ANSWER_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Take the answer: 32 bytes, the peer's own question of 32, the length of its name, its name."""
        self._buffer += data
        head = 2 * NONCE + 1
        if len(self._buffer) < head or len(self._buffer) < head + self._buffer[head - 1]:
            return
        end = head + self._buffer[head - 1]
        given, asked, name = self._buffer[:NONCE], self._buffer[NONCE : 2 * NONCE], self._buffer[head:end]
        assert self._transport is not None
        if not hmac.compare_digest(given, answer(self._key, b"worker", self._asked, asked, name)):
            logger.warning("a peer that does not know the key of the run is not let in")
            return self._transport.abort()
        link = self._expected.pop(name, None)
        if link is None:
            return self._transport.abort()
        self._let_in(link, answer(self._key, b"desk", asked), self._buffer[end:])

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._patience is not None:
            self._patience.cancel()

    def _let_in(self, link: WorkerLink, told: bytes, rest: bytes) -> None:
        assert self._transport is not None and self._patience is not None
        self._patience.cancel()
        self._transport.write(told)
        self._transport.set_protocol(link)
        link.connection_made(self._transport)
        if rest:
            link.data_received(rest)


def knock(host: str, port: int, key: bytes, name: str) -> socket.socket:
    """Connect to a door as the worker ``name``; blocks.

    Raises:
        OSError: Nobody listens there, or whoever does will not let this worker in.
    """
    connection = socket.create_connection((host, port), timeout=ANSWER_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        told, asked = name.encode(), secrets.token_bytes(NONCE)
        question = _exactly(connection, NONCE)
        connection.sendall(answer(key, b"worker", question, asked, told) + asked + bytes([len(told)]) + told)
        if not hmac.compare_digest(_exactly(connection, NONCE), answer(key, b"desk", asked)):
            raise OSError(f"whoever listens at {host}:{port} does not know the key of the run")
    except BaseException:
        connection.close()
        raise
    return connection


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise OSError("the desk let go of the connection")
        data += more
    return data


def work_for(host: str, port: int, key: bytes, name: str) -> None:
    """Be the worker ``name`` of the desk that listens there.

    Raises:
        OSError: It does not let this worker in.
    """
    work(knock(host, port, key, name))
