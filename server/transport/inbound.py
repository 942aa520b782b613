"""Reads what a viewer sends: bytes in, whole messages out, no more than is allowed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close as CloseFrame
from websockets.frames import Frame, Opcode

from ..close_codes import Close
from ..viewers.wire import MAX_MESSAGE_BYTES
from .limits import MAX_FRAGMENTS
from .private_api import parse_frame

CONTROL: Final = (Opcode.CLOSE, Opcode.PING, Opcode.PONG)
"""Frames that stand between the fragments of a message."""


class Unreadable(Exception):
    """What came cannot be read; nothing after it can.

    Args:
        close: Why.
    """

    def __init__(self, close: Close) -> None:
        self.close = close
        super().__init__(close.reason)


class MessageReader:
    """One connection's bytes, as far as they are half read; let it go whenever it is :attr:`idle`."""

    __slots__ = ("_buffer", "_opcode", "_parsing", "_parts")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parsing: Generator[None, None, Frame] | None = None
        self._parts: list[bytes] = []
        self._opcode = Opcode.TEXT

    @property
    def idle(self) -> bool:
        """Whether nothing is half read."""
        return self._parsing is None and not self._parts

    def feed(self, data: bytes) -> Iterator[tuple[Opcode, bytes]]:
        """Whole messages and control frames that ``data`` completes.

        Raises:
            Unreadable: The rest is not to be read.
        """
        self._buffer += data
        try:
            while self._buffer:
                if self._parsing is None:
                    self._parsing = parse_frame(self._read, MAX_MESSAGE_BYTES)
                frame = _advance(self._parsing)
                if frame is None:
                    return
                self._parsing = None
                if (message := self._whole(frame)) is not None:
                    yield message
        except PayloadTooBig as error:
            raise Unreadable(Close.TOO_BIG) from error
        except UnicodeDecodeError as error:
            raise Unreadable(Close.NOT_UTF8) from error
        except ProtocolError as error:
            raise Unreadable(Close.BROKEN) from error

    def _whole(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        """The message that ``frame`` ends; ``None`` when more of it is to come."""
        data = bytes(frame.data)
        if frame.opcode in CONTROL:
            if frame.opcode is Opcode.CLOSE:
                CloseFrame.parse(data)
            return frame.opcode, data
        if (frame.opcode is Opcode.CONT) is not bool(self._parts):
            raise Unreadable(Close.BROKEN)
        if not self._parts:
            self._opcode = frame.opcode
        self._parts.append(data)
        if len(self._parts) > MAX_FRAGMENTS or sum(map(len, self._parts)) > MAX_MESSAGE_BYTES:
            raise Unreadable(Close.TOO_BIG)
        if not frame.fin:
            return None
        message, self._parts = b"".join(self._parts), []
        return self._opcode, message

    def _read(self, count: int) -> Generator[None, None, bytes | bytearray]:
        while len(self._buffer) < count:
            yield
        taken = self._buffer[:count]
        del self._buffer[:count]
        return taken


def _advance(parsing: Generator[None, None, Frame]) -> Frame | None:
    try:
        next(parsing)
    except StopIteration as done:
        frame: Frame = done.value
        return frame
    return None
