"""The words of the live channel."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import websockets.frames
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Opcode
from websockets.streams import StreamReader

from server.security.faults import Close
from server.viewers import wire
from server.viewers.wire import Frame, Ping, Position
from spectator.errors import ProtocolError
from spectator.events import Event, record

ROOT = Path(__file__).resolve().parents[3]


@settings(deadline=None)
@given(
    st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps)
)
def test_whatever_a_viewer_says_is_understood_or_refused(text: str) -> None:
    try:
        said = wire.parse_message(text)
    except ProtocolError as refused:
        assert refused.close_code == 4400
        return
    assert isinstance(said, Ping | Position)


@settings(deadline=None)
@given(st.integers(-(2**62), 2**62) | st.floats(-1e15, 1e15))
def test_a_ping_comes_back_as_it_was(t: float) -> None:
    said = wire.parse_message(json.dumps({"frame": "ping", "t": t}))
    assert isinstance(said, Ping)
    assert json.loads(wire.pong(said.t).text) == {"frame": "pong", "t": t}


@settings(deadline=None)
@given(st.from_regex(r"[0-9A-Za-z_-]{1,32}", fullmatch=True), st.integers(-(10**19), 10**19))
def test_a_position_is_the_same_in_a_message_and_in_a_query(epoch: str, seq: int) -> None:
    message = wire.parse_message(json.dumps({"frame": "resume", "epoch": epoch, "seq": seq}))
    assert message == wire.asked_position({"epoch": epoch, "seq": str(seq)}) == Position(epoch, seq)


def test_an_event_frame_holds_the_recorded_encoding() -> None:
    recorded = record(Event("ep-1", "ab", 3, "2026-11-21T00:00:00.000Z", 1, "warning", {"message": "ö\n"}))
    frame = wire.event_frame(recorded)
    assert frame.text == '{"frame":"event",' + recorded.text[1:]
    assert json.loads(frame.text) == {"frame": "event", **json.loads(recorded.text)}
    assert (frame.epoch, frame.seq) == ("ab", 3)


def test_what_only_a_replay_needs_is_not_sent_to_viewers() -> None:
    data = {
        "actor": "a",
        "raw_text": "ö",
        "exchanges": [{"request": "0" * 64, "reply": {"content": "x" * 9999}}],
    }
    recorded = record(Event("ep-1", "ab", 3, "2026-11-21T00:00:00.000Z", 1, "decision.made", data, {"a": 1}))
    frame = wire.event_frame(recorded)
    sent = json.loads(frame.text)
    assert sent == {"frame": "event", **json.loads(recorded.text), "data": {**data, "exchanges": None}}
    assert len(frame.text) < 400 and len(recorded.text) > 9999
    failed = record(replace(recorded.event, type="episode.suspended", data={"actor": "a", "undecided": data}))
    sent = json.loads(wire.event_frame(failed).text)
    assert sent["data"] == {"actor": "a", "undecided": {**data, "exchanges": None}}
    bare = record(replace(recorded.event, data={"actor": "a", "exchanges": None}))
    assert wire.event_frame(bare).text == '{"frame":"event",' + bare.text[1:]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 200_000])
def test_a_frame_is_a_websocket_message(length: int) -> None:
    reader = StreamReader()
    reader.feed_data(Frame("ö" + "x" * length).message)
    parsing = websockets.frames.Frame.parse(reader.read_exact, mask=False)
    with pytest.raises(StopIteration) as done:
        next(parsing)
    parsed = done.value.value
    assert (parsed.opcode, parsed.fin, bytes(parsed.data).decode()) == (Opcode.TEXT, True, "ö" + "x" * length)


def test_nothing_that_is_not_json_is_ever_sent() -> None:
    with pytest.raises(ValueError):
        wire.snapshot("ab", 1, {"x": float("nan")})


@pytest.mark.parametrize("close", Close, ids=lambda close: close.name)
def test_every_close_code_is_documented(close: Close) -> None:
    page = (ROOT / "docs" / "live-protocol.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if re.match(rf"\| {close.code} \|", line))
    assert f"| {'yes' if close.reconnect else 'no'}" in row
    assert len(close.reason.encode()) <= 123, "what a close frame holds"
    assert json.loads(wire.bye(close).text) == {
        "frame": "bye",
        "code": close.code,
        "reconnect": close.reconnect,
        "reason": close.reason,
    }


def test_every_frame_is_documented() -> None:
    page = (ROOT / "docs" / "live-protocol.md").read_text(encoding="utf-8")
    for name in ("hello", "waiting", "snapshot", "event", "viewers", "pong", "bye", "ping", "resume"):
        assert f'"frame":"{name}"' in page
    assert f'"protocol":{wire.PROTOCOL}' in page
