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


def read_whole(data: bytes) -> tuple[bool, tuple[bytes, bytes] | None]:
    """Whether ``data`` is one masked frame of under 64 KiB, all of it, that is a whole message or a ping.

    Returns:
        That, and payload and mask of the frame if it is also text; ``None`` of any other.

    >>> head = bytes((0x81, 0x82, 1, 2, 3, 4))
    >>> read_whole(head + b"ih")
    (True, (b'ih', b'\\x01\\x02\\x03\\x04'))
    >>> read_whole(head + b"i")
    (False, None)
    """
    if len(data) < 6 or data[0] not in MESSAGES or not data[1] & MASKED:
        return False, None
    head, length = 2, data[1] & ~MASKED
    if length >= SHORT:
        if length > SHORT:
            return False, None
        head, length = 4, int.from_bytes(data[2:4], "big")
    if len(data) != head + 4 + length:
        return False, None
    return True, (data[head + 4 :], data[head : head + 4]) if data[0] == FINAL | Opcode.TEXT else None
