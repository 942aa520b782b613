"""The line from a loop to the process that records it: whoever puts something in never waits for it.

Each process has a connection of its own. A fork gets a new one with its first message, since what it has
inherited is its parent's.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import threading
import weakref
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, Final

logger = logging.getLogger("spectator.watchable")

MOST_WAITING: Final = 16 * 1024 * 1024
"""Bytes that may wait to be sent; steps beyond are left out."""

MOST_STEPS: Final = 4_000
"""Messages that may, so that what is shown is never more than a few seconds old."""

MORE_OF_ENDS: Final = 4
"""How many times as much may wait where beginnings and ends of episodes are added."""

PAUSE_S: Final = 0.1
"""How long messages gather before they are sent together."""

READ: Final = 65_536
CONNECT_S: Final = 10.0
SEND_S: Final = 30.0
EXIT_S: Final = 5.0
"""How long a process that exits waits for what it has still to send."""


class RecorderLine:
    """A line to the process that listens at ``address``; safe to use from any thread.

    Args:
        address: Path of its socket.
    """

    def __init__(self, address: str) -> None:
        self._begin(address)

    def __getstate__(self) -> str:
        return self.address

    def __setstate__(self, address: str) -> None:
        self._begin(address)  # a process that was spawned gets a line of its own

    def _begin(self, address: str) -> None:
        self.address = address
        self._reset()
        known = weakref.ref(self)
        os.register_at_fork(after_in_child=partial(_let_go, known))

    def _reset(self) -> None:
        self._order = threading.Lock()
        self._waiting: list[bytes] = []
        self._bytes = self._count = 0
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self._closing = threading.Event()
        self._heard = b""
        self._answer: dict[str, Any] | None = None
        self._told: set[str] = set()
        self.gone = False
        """Whether nothing can be recorded any more."""

    def let_go(self) -> None:
        """Forget a connection that a fork has inherited: it is its parent's."""
        if self._socket is not None:
            self._socket.close()
        self._reset()

    @property
    def busy(self) -> bool:
        """Whether so much waits that it is better not to add to it."""
        return self._bytes > MOST_WAITING // 4 or self._count > MOST_STEPS // 4

    def warn(self, kind: str, message: str) -> None:
        """Log a warning, once of its kind in each process."""
        if kind not in self._told:
            self._told.add(kind)
            logger.warning("%s", message)

    def send(self, message: bytes, *, needed: bool = False) -> bool:
        """Have a message sent, soon.

        Args:
            message: A line.
            needed: Whether it is a beginning or an end.

        Returns:
            Whether it will be, unless the line breaks.
        """
        more = MORE_OF_ENDS if needed else 1
        if self.gone or self._bytes > more * MOST_WAITING or self._count > more * MOST_STEPS:
            return False
        with self._order:
            self._waiting.append(message)
            self._bytes += len(message)
            self._count += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="watched-loop", daemon=True)
                self._thread.start()
                Finalize(None, _finish_at_exit, args=(weakref.ref(self),), exitpriority=10)
        if not self._news.is_set():
            self._news.set()
        return True

    def close(self, patience_s: float) -> dict[str, Any] | None:
        """Send what waits and wait until it is recorded; returns the recorder's answer, if there was one."""
        if self._thread is None:
            return None
        self.send(b'{"close":true}\n', needed=True)
        self.finish(patience_s)
        return self._answer

    def finish(self, patience_s: float) -> None:
        """Send what waits, and nothing after it."""
        self._closing.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _send_all(self) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as self._socket:
                self._socket.settimeout(CONNECT_S)
                self._socket.connect(self.address)
                self._socket.settimeout(SEND_S)
                while self._send_some(self._socket):
                    self._look(self._socket)
                    self._closing.wait(PAUSE_S)
                self._socket.shutdown(socket.SHUT_WR)
                while said := self._socket.recv(READ):
                    self._take_in(said)
        except OSError as error:
            self.warn(
                "gone", f"nothing more is recorded, and the loop goes on: its recorder is gone ({error})"
            )
        self.gone = True
        self._waiting.clear()

    def _send_some(self, connected: socket.socket) -> bool:
        """Send what waits, once something does; returns whether more may come."""
        self._news.wait()
        self._news.clear()
        closing = self._closing.is_set()
        with self._order:
            taken, self._waiting = self._waiting, []
        connected.sendall(b"".join(taken))
        with self._order:
            self._bytes -= sum(map(len, taken))
            self._count -= len(taken)
        return not closing

    def _look(self, connected: socket.socket) -> None:
        """Take in what the recorder said meanwhile."""
        while select.select([connected], [], [], 0)[0]:
            said = connected.recv(READ)
            if not said:
                raise ConnectionResetError("it has ended")
            self._take_in(said)

    def _take_in(self, said: bytes) -> None:
        *lines, self._heard = (self._heard + said).split(b"\n")
        for told in map(json.loads, lines):
            if "warning" in told:
                self.warn(told["kind"], told["warning"])
            else:
                self._answer = told


def _let_go(known: weakref.ref[RecorderLine]) -> None:
    if (line := known()) is not None:
        line.let_go()


def _finish_at_exit(known: weakref.ref[RecorderLine]) -> None:
    if (line := known()) is not None:
        line.finish(EXIT_S)
