"""A frame that came in one piece is read as the parser reads it; any other is left to the parser."""

from __future__ import annotations

import os

import pytest
from websockets.frames import Frame, Opcode

from server.transport.private_api import read_whole


def frame(payload: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=mask)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 4000, 65_535])
def test_a_whole_text_is_told_with_its_mask(size: int) -> None:
    payload = os.urandom(size)
    data = frame(payload)
    whole, found = read_whole(data)
    assert whole and found is not None
    masked, mask = found
    assert bytes(one ^ mask[place % 4] for place, one in enumerate(masked)) == payload
    assert not any(read_whole(data[:-cut])[0] for cut in (1, 2) if len(data) > cut)
    assert read_whole(data + b"\x81") == (False, None)
    assert read_whole(data + data) == (False, None)


def test_what_leaves_the_parser_within_a_message_is_not_whole() -> None:
    assert read_whole(b"") == (False, None)
    assert read_whole(frame(b"part", fin=False)) == (False, None)
    assert read_whole(frame(b"rest", Opcode.CONT)) == (False, None)
    assert read_whole(frame(b"\x03\xe8", Opcode.CLOSE)) == (False, None)
    assert read_whole(frame(b"text", mask=False)) == (False, None)
    assert read_whole(bytes((0xC1,)) + frame(b"compressed")[1:]) == (False, None)
    assert read_whole(frame(b"x" * 65_536)) == (False, None)


@pytest.mark.parametrize("opcode", [Opcode.BINARY, Opcode.PING, Opcode.PONG])
def test_other_whole_frames_are_no_text(opcode: Opcode) -> None:
    assert read_whole(frame(b"x", opcode)) == (True, None)
