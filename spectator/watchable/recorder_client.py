"""A loop's connection to its recorder: start it, encode values, never wait.

Each process has its own connection. A fork opens a new one with its first message, because the inherited
one is its parent's.
"""

from __future__ import annotations

import json
import logging
import math
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final, TypeVar

from spectator.errors import ConfigurationError, JournalError

_Result = TypeVar("_Result")

MAX_ITEMS: Final = 1_024
"""Items of a list, members of an object and numbers of an array that are kept."""

MAX_TEXT: Final = 1_000_000
"""Characters of a text that are kept."""

MAX_DEPTH: Final = 16
MAX_BITS: Final = 1_024
MAX_UNKNOWN: Final = 500


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` as finite JSON; what has no such form becomes words that say what it is.

    >>> plain({"at": (1, float("nan")), 3: {"a"}})
    {'at': [1, 'nan'], '3': ['a']}
    >>> plain("x" * 1_000_001)[1_000_000:]
    '… (1 more characters left out)'
    >>> plain(object)
    "<class 'object'>"
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        left = len(value) - MAX_TEXT
        return value if left <= 0 else f"{value[:MAX_TEXT]}… ({left} more characters left out)"
    if depth >= MAX_DEPTH:
        return "… (nested too deeply)"
    if isinstance(value, Mapping):
        return _members(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return plain(unusual(value), depth + 1)


def unusual(value: Any) -> Any:
    """An array, a tensor or a model by its parts; anything else in words.

    >>> import numpy
    >>> unusual(numpy.zeros((84, 84, 4)))
    'float64 array of shape 84 x 84 x 4'
    >>> unusual(numpy.float32(0.5))
    0.5
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, Sequence) and hasattr(value, "tolist"):
        if math.prod(shape) <= MAX_ITEMS:
            return value.tolist()
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        return f"{kind} array of shape {' x '.join(map(str, shape))}".strip()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump()
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return {name: getattr(value, name) for name in fields}
    return repr(value)[:MAX_UNKNOWN]


def encoded(message: Mapping[str, Any], most: int) -> bytes:
    """A message as a line of JSON.

    Args:
        message: Anything; members that :func:`plain` would change may be changed.
        most: Bytes above which texts and lists are cut.

    Raises:
        ValueError: It is longer even then.
    """
    try:
        line = _utf8(_QUICK(message))
    except (TypeError, ValueError, RecursionError):
        line = b""
    if not line or len(line) > most:
        line = _utf8(_QUICK(plain(message)))
    if len(line) > most:
        raise ValueError(f"it takes {len(line) >> 10} kB as JSON, and at most {most >> 10} kB are recorded")
    return line + b"\n"


def finite(value: Any) -> float | None:
    """``value`` as a finite number: a number, or an array or a tensor of one; ``None`` for anything else.

    >>> finite(True), finite(float("inf")), finite("1")
    (1.0, None, None)
    """
    known = None if isinstance(value, str | bytes) else attempted(float, value)[0]
    return known if known is not None and math.isfinite(known) else None


def words_of(value: object) -> str:
    """``value`` in words, whatever its own words do.

    >>> words_of(ValueError("no")), words_of([1, 2])
    ('no', '[1, 2]')
    """
    words, error = attempted(str, value)
    return (
        f"a {type(value).__name__} that cannot be shown: {type(error).__name__}"
        if words is None
        else words[:300]
    )


def attempted(work: Callable[..., _Result], *given: Any) -> tuple[_Result | None, Exception | None]:
    """What ``work`` returns, or what it raises: values of a loop may do anything when they are looked at."""
    try:
        return work(*given), None
    except Exception as error:  # noqa: BLE001  # the loop must go on
        return None, error


def _utf8(text: str) -> bytes:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text.encode("utf-8", "replace")


def _members(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for place, (name, member) in enumerate(value.items()):
        if place == MAX_ITEMS:
            kept["…"] = f"{len(value) - MAX_ITEMS} more left out"
            break
        kept[str(name)] = plain(member, depth + 1)
    return kept


def _items(value: Any, depth: int) -> list[Any]:
    kept = [plain(item, depth + 1) for item, _ in zip(value, range(MAX_ITEMS), strict=False)]
    return kept if len(value) <= MAX_ITEMS else [*kept, f"… ({len(value) - MAX_ITEMS} more left out)"]


_QUICK: Final = json.JSONEncoder(
    default=unusual, ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
"""Encodes most of what a loop holds as it is."""


OPEN_S: Final = 60.0
"""How long it may take."""

LONGEST_ADDRESS: Final = 90
"""Characters that the path of a socket may have, with some to spare."""

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from spectator.watchable.recorder import main; main({told!r})"
)


def begin_recorder(folder: Path, about: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """Begin the process that records, and wait until it listens.

    Args:
        folder: The run's.
        about: What the run says of itself.

    Returns:
        The process, and the path of its socket.

    Raises:
        ConfigurationError: Another process records in the folder, or none can be begun here.
        JournalError: The folder cannot be written.
    """
    room = Path(tempfile.mkdtemp(prefix="spectator-"))
    if len(str(room)) > LONGEST_ADDRESS:
        room.rmdir()
        room = Path(tempfile.mkdtemp(prefix="spectator-", dir="/tmp"))
    address = str(room / "line")
    told = json.dumps({"folder": str(folder), "address": address, "about": about})
    program = _PROGRAM.format(path=sys.path, told=told)
    try:
        recorder = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert recorder.stdout is not None
        with recorder.stdout as output:
            heard = select.select([output], [], [], OPEN_S)[0]
            answer = json.loads(output.readline() or b"{}") if heard else {}
    except (OSError, ValueError) as error:
        shutil.rmtree(room, ignore_errors=True)
        raise ConfigurationError(f"no process can be begun to record {folder}: {error}") from error
    if "ready" in answer:
        return recorder, address
    shutil.rmtree(room, ignore_errors=True)
    recorder.kill()
    recorder.wait()
    problem = answer.get("problem", "its recorder did not begin")
    wrong = JournalError if answer.get("kind") == "JournalError" else ConfigurationError
    raise wrong(f"{folder} cannot be recorded: {problem}")


logger = logging.getLogger("spectator.watchable")

MAX_WAITING: Final = 16 * 1024 * 1024
"""Bytes that may wait to be sent; steps beyond are left out."""

MAX_STEPS: Final = 4_000
"""Messages that may, so that what is shown is never more than a few seconds old."""

EXTRA_FOR_ENDS: Final = 4
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
        return self._bytes > MAX_WAITING // 4 or self._count > MAX_STEPS // 4

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
        more = EXTRA_FOR_ENDS if needed else 1
        if self.gone or self._bytes > more * MAX_WAITING or self._count > more * MAX_STEPS:
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
