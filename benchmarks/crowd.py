"""A crowd of viewers in one thread, which cost the load client next to nothing."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

EVENT = b'"frame":"event"'
"""Stands once in every event on the wire."""

PING = b"\x89\x00"
"""Our pings; these bytes stand in no ASCII text, and in no length of an event of ours."""

PONG = b"\x8a\x80\x00\x00\x00\x00"
"""The answer to one."""

DATA_SEGMENTS_IN = struct.Struct("=152xI")
"""The field ``tcpi_data_segs_in`` of Linux's ``struct tcp_info``."""

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class ViewerSocket:
    """What one viewer has received.

    Args:
        connection: Its socket.
        port: Its server's.
    """

    def __init__(self, connection: socket.socket, port: int) -> None:
        self.connection = connection
        self.port = port
        self.bytes = 0  # pings left out
        self.events = 0
        self.pings = 0
        self.open = True
        self._tail = b""

    def read(self) -> bytes:
        """Take what has arrived."""
        try:
            chunk = self.connection.recv(65_536)  # more would make a mapping of its own for each
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        self.open = bool(chunk)
        pings = chunk.count(PING)
        self.pings += pings
        self.bytes += len(chunk) - len(PING) * pings
        data = self._tail + chunk
        self.events += data.count(EVENT)
        self._tail = data[1 - len(EVENT) :]
        if pings:
            self.connection.send(PONG)
        return chunk

    def segments(self) -> int:
        """Segments with data that have arrived, pings left out."""
        found: tuple[int] = DATA_SEGMENTS_IN.unpack(
            self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_IN.size)
        )
        return found[0] - self.pings


class Crowd:
    """Viewers that read everything at once; call :meth:`run` on a thread of its own."""

    def __init__(self) -> None:
        self.seats: dict[int, ViewerSocket] = {}
        self.arrivals: list[tuple[float, bytes]] | None = None
        """When it is a list: when each chunk arrived, in wall-clock seconds, and the chunk."""
        self._poll = select.epoll()
        self._over = False

    def join(self, port: int, count: int, path: str | None = None) -> None:
        """Let more viewers connect until there are ``count``; those with a ``path`` open a WebSocket."""
        while len(self.seats) < count:
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            if path is not None:
                _shake_hands(connection, port, path)
            connection.setblocking(False)
            self.seats[connection.fileno()] = ViewerSocket(connection, port)
            self._poll.register(connection, select.EPOLLIN)

    def run(self) -> None:
        """Read until the crowd is dismissed."""
        while not self._over:
            for number, _ in self._poll.poll(0.2):
                seat = self.seats[number]
                chunk = seat.read()
                if (arrivals := self.arrivals) is not None:
                    arrivals.append((time.time(), chunk))
                if not seat.open:
                    self._poll.unregister(number)

    def dismiss(self) -> None:
        """Stop reading."""
        self._over = True

    def close(self) -> None:
        """Leave."""
        self._poll.close()
        for seat in self.seats.values():
            seat.connection.close()

    def received(self) -> int:
        """What all have received."""
        return sum(seat.bytes for seat in self.seats.values())

    def events(self) -> list[int]:
        """How many events each has received."""
        return [seat.events for seat in self.seats.values()]

    def segments(self, port: int) -> int:
        """Segments from one server that have arrived: on the loopback one for each write."""
        return sum(seat.segments() for seat in self.seats.values() if seat.port == port)

    def noted(self, seconds: float) -> list[tuple[float, bytes]]:
        """What arrives within so many seconds."""
        arrivals: list[tuple[float, bytes]] = []
        self.arrivals = arrivals
        time.sleep(seconds)
        self.arrivals = None
        return arrivals

    def settle(self, quiet_s: float = 0.5, patience_s: float = 20.0) -> None:
        """Wait until nothing has arrived for a while."""
        until = time.monotonic() + patience_s
        before = -1
        while (now := self.received()) != before and time.monotonic() < until:
            before = now
            time.sleep(quiet_s)


def stall(port: int, path: str) -> socket.socket:
    """A viewer that reads nothing but the beginning of the handshake."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    _shake_hands(connection, port, path)
    return connection


def _shake_hands(connection: socket.socket, port: int, path: str) -> None:
    connection.sendall(HANDSHAKE.format(path=path, port=port).encode())
    if connection.recv(12) != b"HTTP/1.1 101":
        raise RuntimeError("the server refused a viewer")


@contextmanager
def crowd() -> Iterator[Crowd]:
    """A crowd that reads."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.closing(Crowd()) as viewers:
        reading = threading.Thread(target=viewers.run)
        reading.start()
        try:
            yield viewers
        finally:
            viewers.dismiss()
            reading.join()
