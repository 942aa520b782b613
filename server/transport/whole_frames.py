"""Reads a WebSocket message that came in one piece, as nearly all do, without a parser's state."""

from __future__ import annotations

from typing import Final

from websockets.frames import Opcode

FINAL: Final = 0x80
MASKED: Final = 0x80
SHORT: Final = 126
"""Lengths below it stand in the second byte; it says that two bytes follow."""

MESSAGES: Final = frozenset(FINAL | one for one in (Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG))
"""First bytes of the frames after which another one begins anew."""


def ends_whole(data: bytes) -> bool:
    """Whether ``data`` is one masked frame of under 64 KiB, all of it, that is a whole message or a ping.

    >>> head = bytes((0x81, 0x82, 0, 0, 0, 0))
    >>> ends_whole(head + b"hi"), ends_whole(head + b"h")
    (True, False)
    """
    if len(data) < 6 or data[0] not in MESSAGES or not data[1] & MASKED:
        return False
    length = data[1] & ~MASKED
    if length < SHORT:
        return len(data) == 6 + length
    return length == SHORT and len(data) == 8 + int.from_bytes(data[2:4], "big")


def masked_text(data: bytes) -> tuple[bytes, bytes] | None:
    """Payload and mask of a frame for which :func:`ends_whole`, if it is text; ``None`` of any other.

    >>> masked_text(bytes((0x81, 0x82, 1, 2, 3, 4)) + b"ih")
    (b'ih', b'\\x01\\x02\\x03\\x04')
    """
    if data[0] != FINAL | Opcode.TEXT:
        return None
    head = 2 if data[1] & ~MASKED < SHORT else 4
    return data[head + 4 :], data[head : head + 4]
