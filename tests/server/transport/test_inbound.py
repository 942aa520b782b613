"""What viewers send, read from bytes that come in any pieces."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from server.security.faults import Close
from server.transport.connection import MessageReader, Unreadable
from server.transport.keepalive import MAX_FRAGMENTS
from server.viewers.wire import MAX_MESSAGE_BYTES, close_frame, framed


def sent(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    """A frame as a client sends it; its mask is always the same, since frames name test cases."""
    with patch("websockets.frames.secrets.token_bytes", return_value=b"mask"):
        return Frame(opcode, data, fin=fin).serialize(mask=True)


def read(*pieces: bytes) -> list[tuple[Opcode, bytes]]:
    incoming = MessageReader()
    return [message for piece in pieces for message in incoming.feed(piece)]


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG]), st.binary(max_size=125)
    ),
    max_size=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MESSAGES, st.lists(st.integers(1, 40), min_size=1))
def test_however_bytes_are_cut_the_messages_are_the_same(
    messages: list[tuple[Opcode, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(sent(opcode, data) for opcode, data in messages)
    incoming, got, at = MessageReader(), [], 0
    while at < len(stream):
        step = cuts[at % len(cuts)]
        got += list(incoming.feed(stream[at : at + step]))
        at += step
    assert got == messages
    assert incoming.idle


def test_fragments_are_one_message_and_pings_may_come_between() -> None:
    pieces = [
        sent(Opcode.TEXT, b"one ", fin=False),
        sent(Opcode.PING, b"?"),
        sent(Opcode.CONT, b"two ", fin=False),
        sent(Opcode.CONT, b"three"),
    ]
    assert read(*pieces) == [(Opcode.PING, b"?"), (Opcode.TEXT, b"one two three")]


@pytest.mark.parametrize(
    ("data", "close"),
    [
        (framed(b"unmasked"), Close.BROKEN),
        (b"\xf1\x80" + b"\x00" * 4, Close.BROKEN),
        (b"\x83\x80" + b"\x00" * 4, Close.BROKEN),
        (sent(Opcode.CONT, b"of nothing"), Close.BROKEN),
        (sent(Opcode.TEXT, b"a", fin=False) + sent(Opcode.TEXT, b"b"), Close.BROKEN),
        (b"\x09\x80" + b"\x00" * 4, Close.BROKEN),
        (b"\x89\xfe\x00\x7e" + b"\x00" * 130, Close.BROKEN),
        (b"\x88\x81" + b"\x00" * 4 + b"x", Close.BROKEN),
        (sent(Opcode.CLOSE, b"\x03\xe8\xff\xfe"), Close.NOT_UTF8),
        (b"\x81\xfe" + (MAX_MESSAGE_BYTES + 1).to_bytes(2, "big"), Close.TOO_BIG),
        (b"\x81\xff" + (2**20).to_bytes(8, "big"), Close.TOO_BIG),
        (b"\x81\xff" + b"\xff" * 8, Close.TOO_BIG),
        (sent(Opcode.TEXT, b"x" * 9000, fin=False) + sent(Opcode.CONT, b"x" * 9000), Close.TOO_BIG),
        (sent(Opcode.TEXT, b"", fin=False) + sent(Opcode.CONT, b"", fin=False) * 70, Close.TOO_BIG),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, close: Close) -> None:
    with pytest.raises(Unreadable) as refused:
        read(data)
    assert refused.value.close is close


def test_what_comes_before_the_unreadable_is_read() -> None:
    incoming = MessageReader()
    coming = incoming.feed(sent(Opcode.TEXT, b"hello") + b"\xff" * 20)
    assert next(coming) == (Opcode.TEXT, b"hello")
    with pytest.raises(Unreadable):
        next(coming)


def test_half_a_message_is_not_idle() -> None:
    incoming = MessageReader()
    assert incoming.idle
    assert list(incoming.feed(sent(Opcode.TEXT, b"hello")[:3])) == [] and not incoming.idle
    other = MessageReader()
    assert list(other.feed(sent(Opcode.TEXT, b"hello", fin=False))) == [] and not other.idle


def test_so_many_fragments_are_read() -> None:
    parts = [sent(Opcode.TEXT, b"a", fin=False), *[sent(Opcode.CONT, b"a", fin=False)] * (MAX_FRAGMENTS - 2)]
    assert read(*parts, sent(Opcode.CONT, b"a")) == [(Opcode.TEXT, b"a" * MAX_FRAGMENTS)]


def test_a_close_frame_is_one() -> None:
    data = bytearray(close_frame(1012, "the server restarts"))
    data[1] |= 0x80
    assert read(bytes(data[:2]) + bytes(4) + bytes(data[2:])) == [
        (Opcode.CLOSE, b"\x03\xf4the server restarts")
    ]
