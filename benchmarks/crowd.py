"""Many viewers in one thread, at almost no cost to the load client."""

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
"""Occurs once in every event on the wire."""

PING = b"\x89\x00"
"""The server's pings; these bytes occur neither in ASCII text nor in the length of an event."""

PONG = b"\x8a\x80\x00\x00\x00\x00"
"""The answer to a ping."""

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
        port: Port of its server.
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
        """Read what has arrived."""
        try:
            chunk = self.connection.recv(65_536)  # a larger buffer would be a memory mapping each
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
        """Return how many segments with data have arrived, without pings."""
        found: tuple[int] = DATA_SEGMENTS_IN.unpack(
            self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_IN.size)
        )
        return found[0] - self.pings


class Crowd:
    """Viewers that read everything at once; call :meth:`run` on its own thread."""

    def __init__(self) -> None:
        self.seats: dict[int, ViewerSocket] = {}
        self.arrivals: list[tuple[float, bytes]] | None = None
        """Each chunk with its arrival in wall-clock seconds; not collected if ``None``."""
        self._poll = select.epoll()
        self._over = False

    def join(self, port: int, count: int, path: str | None = None) -> None:
        """Connect more viewers up to ``count``; with a ``path`` they open a WebSocket."""
        while len(self.seats) < count:
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            if path is not None:
                _shake_hands(connection, port, path)
            connection.setblocking(False)
            self.seats[connection.fileno()] = ViewerSocket(connection, port)
            self._poll.register(connection, select.EPOLLIN)

    def run(self) -> None:
        """Read until :meth:`dismiss`."""
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
        """Disconnect all viewers."""
        self._poll.close()
        for seat in self.seats.values():
            seat.connection.close()

    def received(self) -> int:
        """Return the bytes that all viewers have received."""
        return sum(seat.bytes for seat in self.seats.values())

    def events(self) -> list[int]:
        """Return how many events each viewer has received."""
        return [seat.events for seat in self.seats.values()]

    def segments(self, port: int) -> int:
        """Return the segments received from one server; on loopback one per write."""
        return sum(seat.segments() for seat in self.seats.values() if seat.port == port)

    def noted(self, seconds: float) -> list[tuple[float, bytes]]:
        """Return what arrives within ``seconds``."""
        arrivals: list[tuple[float, bytes]] = []
        self.arrivals = arrivals
        time.sleep(seconds)
        self.arrivals = None
        return arrivals

    def settle(self, quiet_s: float = 0.5, patience_s: float = 20.0) -> None:
        """Wait until nothing arrives for ``quiet_s``."""
        until = time.monotonic() + patience_s
        before = -1
        while (now := self.received()) != before and time.monotonic() < until:
            before = now
            time.sleep(quiet_s)


def stall(port: int, path: str) -> socket.socket:
    """Connect a viewer that reads only the beginning of the handshake."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    _shake_hands(connection, port, path)
    return connection


def _shake_hands(connection: socket.socket, port: int, path: str) -> None:
    connection.sendall(HANDSHAKE.format(path=path, port=port).encode())
    if connection.recv(12) != b"HTTP/1.1 101":
        raise RuntimeError("the server rejected a viewer; see its log")


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Run a crowd on a thread."""
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
