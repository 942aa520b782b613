"""A frame that came in one piece is read as the parser reads it; any other is left to the parser."""

from __future__ import annotations

import os

import pytest
from websockets.frames import Frame, Opcode

from server.transport.whole_frames import ends_whole, masked_text


def frame(payload: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=mask)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 4000, 65_535])
def test_a_whole_text_is_told_with_its_mask(size: int) -> None:
    payload = os.urandom(size)
    data = frame(payload)
    assert ends_whole(data)
    found = masked_text(data)
    assert found is not None
    masked, mask = found
    assert bytes(one ^ mask[place % 4] for place, one in enumerate(masked)) == payload
    assert not any(ends_whole(data[:-cut]) for cut in (1, 2) if len(data) > cut)
    assert not ends_whole(data + b"\x81")
    assert not ends_whole(data + data)


def test_what_leaves_the_parser_within_a_message_is_not_whole() -> None:
    assert not ends_whole(b"")
    assert not ends_whole(frame(b"part", fin=False))
    assert not ends_whole(frame(b"rest", Opcode.CONT))
    assert not ends_whole(frame(b"\x03\xe8", Opcode.CLOSE))
    assert not ends_whole(frame(b"text", mask=False))
    assert not ends_whole(bytes((0xC1,)) + frame(b"compressed")[1:])
    assert not ends_whole(frame(b"x" * 65_536))


@pytest.mark.parametrize("opcode", [Opcode.BINARY, Opcode.PING, Opcode.PONG])
def test_other_whole_frames_are_no_text(opcode: Opcode) -> None:
    assert ends_whole(frame(b"x", opcode))
    assert masked_text(frame(b"x", opcode)) is None
