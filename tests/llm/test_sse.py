"""Server-sent events, cut anywhere, with any line ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.llm.answer_reader import EventReader

STREAM = (
    ': hello\nevent: x\nid: 1\ndata: {"a": "ä"}\n\ndata:tight\n\n: ping\n\n'
    "data: two\ndata: lines\n\ndata\n\ndata: [DONE]\n\n"
)
EVENTS = ['{"a": "ä"}', "tight", "two\nlines", "[DONE]"]


def read(pieces: list[bytes]) -> list[str]:
    reader = EventReader()
    found = [data for piece in pieces for data in reader.feed(piece)]
    return [data.decode() for data in [*found, *reader.end()]]


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 200), max_size=10))
def test_events_are_the_same_wherever_the_stream_is_cut(line_end: str, cuts: list[int]) -> None:
    stream = STREAM.replace("\n", line_end).encode()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read([stream[start:end] for start, end in pairwise(places)]) == EVENTS


def test_an_event_is_there_as_soon_as_it_is_complete() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data: one\n")) == []
    assert list(reader.feed(b"\nda")) == [b"one"]
    assert list(reader.feed(b"ta: two\n\n")) == [b"two"]


@pytest.mark.parametrize("stream", [b"data: last\n", b"data: last", b"data: last\r"])
def test_a_last_event_without_its_blank_line_counts_at_the_end(stream: bytes) -> None:
    assert read([stream]) == ["last"]


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(stream: bytes) -> None:
    for data in read_bytes(stream):
        assert b"\n\n" not in data


def read_bytes(stream: bytes) -> list[bytes]:
    reader = EventReader()
    return [*reader.feed(stream), *reader.end()]
