"""A loop's connection to its recorder: start it, send to it, never block.

Each process has a separate connection. A fork opens a new one with its first message, because the inherited
one belongs to its parent.
"""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError, JournalError
from spectator.watchable.loop_values import CONSTANTS, MAX_ITEMS, MAX_ROWS, attempted, copied, words_of

OPEN_S: Final = 60.0
"""Timeout for the start of the recorder, seconds."""

LONGEST_ADDRESS: Final = 90
"""Maximum length of a socket's folder: socket paths are limited to about 100 characters."""

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from spectator.watchable.recorder import main; main({arguments!r})"
)


def begin_recorder(folder: Path, about: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """Start the recorder process and wait until it listens.

    Args:
        folder: Folder of the run.
        about: Description of the run.

    Returns:
        The process, and the path of its socket.

    Raises:
        ConfigurationError: Another process records in the folder, or no process can be started here.
        JournalError: The folder cannot be written.
    """
    socket_folder = Path(tempfile.mkdtemp(prefix="spectator-"))
    if len(str(socket_folder)) > LONGEST_ADDRESS:
        socket_folder.rmdir()
        socket_folder = Path(tempfile.mkdtemp(prefix="spectator-", dir="/tmp"))
    address = str(socket_folder / "line")
    arguments = json.dumps({"folder": str(folder), "address": address, "about": about})
    program = _PROGRAM.format(path=sys.path, arguments=arguments)
    try:
        recorder = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert recorder.stdout is not None
        with recorder.stdout as output:
            readable = select.select([output], [], [], OPEN_S)[0]
            answer = json.loads(output.readline() or b"{}") if readable else {}
    except (OSError, ValueError) as error:
        shutil.rmtree(socket_folder, ignore_errors=True)
        raise ConfigurationError(f"cannot start a process to record {folder}: {error}") from error
    if "ready" in answer:
        return recorder, address
    shutil.rmtree(socket_folder, ignore_errors=True)
    recorder.kill()
    recorder.wait()
    problem = answer.get("problem", "the recorder did not start")
    kind = JournalError if answer.get("kind") == "JournalError" else ConfigurationError
    raise kind(f"cannot record in {folder}: {problem}")


logger = logging.getLogger("spectator.watchable")

MAX_WAITING: Final = 16 * 1024 * 1024
"""Maximum bytes of unsent messages; further steps are omitted."""

MAX_STEPS: Final = 4_000
"""Maximum number of unsent messages, so that the shown state is at most a few seconds old."""

EXTRA_FOR_ENDS: Final = 4
"""Factor of the two limits for beginnings and ends of episodes."""

MAX_UNREAD: Final = 500
"""Maximum number of reports that wait for the sending thread; further ones are read by their own."""

PAUSE_S: Final = 0.1
"""How long messages are collected before they are sent together, seconds."""

HURRY: Final = 100
"""Number of waiting reports that ends the pause."""

READ: Final = 65_536
CONNECT_S: Final = 10.0
SEND_S: Final = 30.0
EXIT_S: Final = 5.0
"""How long an exiting process waits for unsent messages, seconds."""


class RecorderLine:
    """A connection to the recorder at ``address``; thread-safe.

    Args:
        address: Path of the recorder's socket.
    """

    def __init__(self, address: str) -> None:
        self._begin(address)

    def __getstate__(self) -> str:
        return self.address

    def __setstate__(self, address: str) -> None:
        self._begin(address)  # a spawned process gets a separate connection

    def _begin(self, address: str) -> None:
        self.address = address
        self._reset()
        reference = weakref.ref(self)
        os.register_at_fork(
            before=partial(_hold, reference),
            after_in_parent=partial(_release, reference),
            after_in_child=partial(_forget, reference),
        )

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._reading = threading.RLock()
        self._reader: int | None = None
        self._unread: deque[tuple[Callable[..., object], list[Any]]] = deque()
        self._waiting: list[bytes] = []
        self._bytes = self._count = 0
        self._news = threading.Event()
        self._asleep = True
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self._hurry = threading.Event()
        self._closing = False
        self._received = b""
        self._answer: dict[str, Any] | None = None
        self._warned: set[str] = set()
        self.gone = False
        """Whether the connection is closed."""

    def forget(self) -> None:
        """Close a connection inherited by a fork, and start without one."""
        if self._socket is not None:
            self._socket.close()
        self._reset()

    @property
    def busy(self) -> bool:
        """Whether many messages are unsent, so that optional ones should be omitted."""
        return self._bytes > MAX_WAITING // 4 or self._count > MAX_STEPS // 4

    def warn(self, kind: str, message: str) -> None:
        """Log a warning, once per kind and process."""
        if kind not in self._warned:
            self._warned.add(kind)
            attempted(logger.warning, "%s", message)

    def later(self, report: Callable[..., object], *given: Any, rows: int = 1) -> None:
        """Call ``report`` in the sending thread; at once if its values are large or may change.

        Reports are called in order, one at a time; one that another calls is called at once.

        Args:
            report: What reads the values and sends messages. An error is logged.
            given: Its arguments, copied by :func:`copied` if it is called later.
            rows: Number of environments in a batch.
        """
        if self.gone:
            return
        if self._reader is not None and self._reader == threading.get_ident():
            report(*given)
            return
        most = MAX_ITEMS if rows == 1 else 4 * MAX_ITEMS if rows <= MAX_ROWS else 0
        try:
            copies = [one if type(one) in CONSTANTS else copied(one, rows, most) for one in given]
        except Exception:  # noqa: BLE001  # the values are of the user
            self.read(report, given)
            return
        self._unread.append((report, copies))
        if self._asleep:
            self._wake()
        if len(self._unread) >= HURRY:
            self._hurry.set()
            if len(self._unread) >= MAX_UNREAD:
                self.read()

    def read(self, report: Callable[..., object] | None = None, given: Sequence[Any] = ()) -> None:
        """Call the waiting reports, and then another one."""
        with self._reading:
            if self._reader is not None:  # called by a report
                return
            self._reader = threading.get_ident()
            try:
                for _ in range(len(self._unread)):
                    self._call(*self._unread.popleft())
                if report is not None:
                    self._call(report, given)
            finally:
                self._reader = None

    def _call(self, report: Callable[..., object], given: Sequence[Any]) -> None:
        error = attempted(report, *given)[1]
        if error is not None:
            kind = type(error).__name__
            self.warn("form", f"an episode is not recorded completely: {kind}: {words_of(error)}")

    def _wake(self) -> None:
        """Let the sending thread look for reports and messages; start it first."""
        with self._lock:
            if self._thread is None and not self.gone:
                thread = threading.Thread(target=self._send_all, name="watched-loop", daemon=True)
                if (error := attempted(thread.start)[1]) is not None:
                    self.gone = True
                    self.warn("gone", f"no thread can be started ({error}); the loop is not recorded")
                    return
                self._thread = thread
                Finalize(None, _finish_at_exit, args=(weakref.ref(self),), exitpriority=10)
        self._news.set()

    def send(self, message: bytes, *, needed: bool = False) -> bool:
        """Queue a message for sending.

        Args:
            message: A line.
            needed: Whether it is a beginning or an end of an episode.

        Returns:
            Whether it was queued.
        """
        more = EXTRA_FOR_ENDS if needed else 1
        if self.gone or self._bytes > more * MAX_WAITING or self._count > more * MAX_STEPS:
            return False
        with self._lock:
            self._waiting.append(message)
            self._bytes += len(message)
            self._count += 1
        if self._asleep:
            self._wake()
        return not self.gone

    def close(self, patience_s: float) -> dict[str, Any] | None:
        """Wait until all messages are recorded; return the recorder's answer."""
        if self._thread is None:
            return None
        self.send(b'{"close":true}\n', needed=True)
        self.finish(patience_s)
        return self._answer

    def finish(self, patience_s: float) -> None:
        """Send all queued messages, and none after them."""
        self._closing = True
        self._hurry.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def connect(self) -> socket.socket:
        """Connect if not connected, and return the connection: the recorder stays as long as any is open.

        Raises:
            OSError: The recorder does not listen.
        """
        if self._socket is None:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(CONNECT_S)
                connected.connect(self.address)
                connected.settimeout(SEND_S)
            except OSError:
                connected.close()
                raise
            self._socket = connected
        return self._socket

    def _send_all(self) -> None:
        try:
            with self.connect() as connected:
                while self._send_some(connected):
                    self._receive_available(connected)
                    self._hurry.wait(PAUSE_S)
                    self._hurry.clear()
                connected.shutdown(socket.SHUT_WR)
                while data := connected.recv(READ):
                    self._receive(data)
        except OSError as error:
            self.warn("gone", f"the recorder stopped ({error}); the loop continues without being recorded")
        self.gone = True
        self._waiting.clear()
        with self._reading:  # another thread may be taking them
            self._unread.clear()

    def _send_some(self, connected: socket.socket) -> bool:
        """Wait for queued messages and send them; return whether more may come."""
        self._asleep = True
        if not (self._unread or self._waiting):
            self._news.wait()
        self._news.clear()
        self._asleep = False
        closing = self._closing
        self.read()
        with self._lock:
            taken, self._waiting = self._waiting, []
        connected.sendall(b"".join(taken))
        with self._lock:
            self._bytes -= sum(map(len, taken))
            self._count -= len(taken)
        return not closing

    def _receive_available(self, connected: socket.socket) -> None:
        """Handle the recorder's messages that have arrived."""
        while select.select([connected], [], [], 0)[0]:
            data = connected.recv(READ)
            if not data:
                raise ConnectionResetError("it has ended")
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for message in map(json.loads, lines):
            if "warning" in message:
                self.warn(message["kind"], message["warning"])
            else:
                self._answer = message


def _hold(reference: weakref.ref[RecorderLine]) -> None:
    """Let no report wait or be read during a fork, which would lose it to the child."""
    if (line := reference()) is not None:
        line._reading.acquire()
        line.read()


def _release(reference: weakref.ref[RecorderLine]) -> None:
    if (line := reference()) is not None:
        line._reading.release()


def _forget(reference: weakref.ref[RecorderLine]) -> None:
    if (line := reference()) is not None:
        line.forget()


def _finish_at_exit(reference: weakref.ref[RecorderLine]) -> None:
    if (line := reference()) is not None:
        line.finish(EXIT_S)
