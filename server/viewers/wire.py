"""The live protocol: frames to viewers, and messages from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spectator.clock import timestamp
from spectator.core_events import UNDECIDED_IN
from spectator.episodes.stream import JournalTrouble
from spectator.errors import FieldError, ProtocolError
from spectator.events import RecordedEvent, encode_json, record

from ..security.bodies import parse_json
from ..security.faults import Close
from ..security.masking import NameMask

EPISODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Pattern of an episode's id."""

MAX_SEQ: Final = 2**53 - 1
"""Largest number of an event, the largest exact integer in JavaScript."""

PROTOCOL: Final = 1
"""Version of the live protocol, sent in every hello."""

MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Longest message of a viewer, in bytes."""

MAX_T: Final = 2**63
"""Bound on the number in a ping."""

WRITE_BYTES: Final = 64 * 1024
"""Approximate size up to which messages are written together."""

SEND_TEXT: Final = "bad message: send text"
"""Reason sent to a viewer that sends binary messages."""

VOTER_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
"""Pattern of a viewer's secret."""

CARDS: Final = 3
MAX_NAME: Final = 24
"""Most characters of a viewer's name."""

EPOCH: Final = re.compile(r"[0-9A-Za-z_-]{1,32}")
SEQ: Final = re.compile(r"-?\d{1,20}")


@dataclass(frozen=True, slots=True)
class Frame:
    """One message to viewers, encoded once for all of them.

    Args:
        epoch: The numbering that ``seq`` belongs to, for frames that advance a viewer.
        seq: The viewer's position after it; ``None`` if it does not advance viewers.
    """

    text: str
    epoch: str | None = None
    seq: int | None = None
    message: bytes = field(init=False, repr=False, compare=False)
    """The frame as a WebSocket message; servers send unmasked frames (RFC 6455, 5.1)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", framed(self.text.encode()))


@dataclass(frozen=True, slots=True)
class Batch:
    """Frames that are written together, joined once for all viewers.

    Args:
        size: Characters of their texts.
        first: The smallest ``seq`` among them; ``None`` if they do not advance viewers.
    """

    frames: Sequence[Frame]
    message: bytes
    size: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Position:
    """A viewer's position: it has everything up to ``seq`` of ``epoch``."""

    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A viewer measures its latency."""

    t: float


@dataclass(frozen=True, slots=True)
class VoteMessage:
    """A viewer's call before a decision.

    Args:
        card: From 0.
        token: A secret of the viewer's own, as in :data:`VOTER_TOKEN`.
        name: A name for the table; empty for none.
    """

    turn: int
    card: int
    token: str
    name: str


def masked(frame: Frame, mask: NameMask) -> Frame:
    """Return the frame without the names that ``mask`` hides."""
    text = mask.json(frame.text)
    return frame if text is frame.text else replace(frame, text=text)


def hello(episode_id: str, epoch: str, head_seq: int, viewers: int) -> Frame:
    """Announce the episode that is shown from now on."""
    return _frame(
        "hello", protocol=PROTOCOL, episode_id=episode_id, epoch=epoch, head_seq=head_seq, viewers=viewers
    )


def waiting() -> Frame:
    """Announce that no episode is live; a hello follows once one is."""
    return _frame("waiting", protocol=PROTOCOL)


def snapshot(epoch: str, seq: int, state: Mapping[str, Any]) -> Frame:
    """Send the whole state after event ``seq``."""
    return Frame(_frame("snapshot", epoch=epoch, seq=seq, state=state).text, epoch, seq)


def event_frame(recorded: RecordedEvent) -> Frame:
    """Send a recorded event: its own encoding, with the frame's name in front.

    A decision's exchanges with its model are long and serve only replays, so they are omitted.
    """
    event, text = recorded.event, recorded.text
    if event.type in UNDECIDED_IN and "undecided" in event.data:
        asked = {**event.data["undecided"], "exchanges": None}
        text = record(replace(event, data={**event.data, "undecided": asked})).text
    elif event.type == "decision.made" and event.data.get("exchanges"):
        text = record(replace(event, data={**event.data, "exchanges": None})).text
    return Frame('{"frame":"event",' + text[1:], event.epoch, event.seq)


def viewers(count: int) -> Frame:
    """Send the number of viewers of this episode."""
    return _frame("viewers", count=count)


def crowd(**fields: Any) -> Frame:
    """Send a question to viewers, the number of their votes on it, or its result.

    It is never recorded.
    """
    return _frame("crowd", **fields)


def vote(turn: int, **fields: Any) -> Frame:
    """Answer a viewer's vote: its public id, or why it was not counted."""
    return _frame("vote", turn=turn, **fields)


def thought(actor: str, turn: int, **fields: Any) -> Frame:
    """Send a part of a decision in progress; see docs/live-protocol.md.

    It is never recorded.
    """
    return _frame("thought", actor=actor, turn=turn, **fields)


def trouble(found: JournalTrouble | None) -> Frame:
    """Send why the record cannot be written; nulls mean that this is over.

    Play waits meanwhile.
    """
    if found is None:
        return _frame("trouble", message=None, since=None)
    return _frame("trouble", message=found.message, since=timestamp(found.since))


def pong(t: float) -> Frame:
    """Answer a ping."""
    return _frame("pong", t=t)


def bye(close: Close, detail: str | None = None) -> Frame:
    """Send the last frame before a close."""
    return _frame("bye", code=close.code, reconnect=close.reconnect, reason=detail or close.reason)


def batches(frames: Sequence[Frame]) -> Iterator[Batch]:
    """Split ``frames`` into batches of about :data:`WRITE_BYTES` at most."""
    start = 0
    while start < len(frames):
        end, size = start, 0
        while end < len(frames) and size < WRITE_BYTES:
            size += len(frames[end].message)
            end += 1
        together, start = frames[start:end], end
        numbers = [frame.seq for frame in together if frame.seq is not None]
        yield Batch(
            together,
            b"".join([frame.message for frame in together]),
            sum([len(frame.text) for frame in together]),
            min(numbers, default=None),
            max(numbers, default=None),
        )


def _frame(name: str, **fields: Any) -> Frame:
    return Frame(encode_json({"frame": name, **fields}))


def close_frame(code: int, reason: str = "") -> bytes:
    """Return the closing WebSocket frame."""
    return framed(code.to_bytes(2, "big") + reason.encode(), opcode=0x8)


def framed(payload: bytes, *, opcode: int = 0x1) -> bytes:
    """Return a final, unmasked WebSocket frame (RFC 6455, 5.2), of text by default."""
    head, length = bytes((0x80 | opcode,)), len(payload)
    if length < 126:
        return head + bytes((length,)) + payload
    if length < 65_536:
        return head + b"\x7e" + length.to_bytes(2, "big") + payload
    return head + b"\x7f" + length.to_bytes(8, "big") + payload


def parse_message(text: str) -> Ping | Position | VoteMessage:
    """Parse a viewer's message."""
    try:
        message = parse_json(text)
    except ValueError as error:
        raise _bad("not JSON") from error
    match message:
        case {"frame": "ping", "t": int() | float() as t, **rest} if (
            not rest and not isinstance(t, bool) and abs(t) < MAX_T
        ):
            return Ping(t)
        case {"frame": "resume", "epoch": str() as epoch, "seq": int() as seq, **rest} if (
            not rest and not isinstance(seq, bool) and EPOCH.fullmatch(epoch)
        ):
            return Position(epoch, seq)
        case {
            "frame": "vote", "turn": int() as turn, "card": int() as card, "token": str() as token,
            "name": str() as name, **rest,
        } if not rest and not isinstance(turn, bool) and not isinstance(card, bool):  # fmt: skip
            return VoteMessage(turn, card, token, name.strip())
    raise _bad(
        'send {"frame":"ping","t":number}, {"frame":"resume","epoch":text,"seq":integer} or '
        '{"frame":"vote","turn":integer,"card":integer,"token":text,"name":text}'
    )


def wrong_in(vote: VoteMessage) -> list[FieldError]:
    """Return the fields of a vote that break a rule."""
    found = []
    if not 0 <= vote.card < CARDS:
        found.append(FieldError("card", f"must be from 0 to {CARDS - 1}"))
    if not VOTER_TOKEN.fullmatch(vote.token):
        found.append(FieldError("token", "must be 16 to 64 letters, digits, _ and -"))
    if len(vote.name) > MAX_NAME or not vote.name.isprintable():
        rule = f"must have at most {MAX_NAME} characters on one line, none of them invisible"
        found.append(FieldError("name", rule))
    return found


def asked_position(query: Mapping[str, str]) -> Position | None:
    """Return the position in ``?epoch=&seq=``; ``None`` if both are missing.

    Raises:
        ProtocolError: Only one of them is given, or one is malformed.
    """
    epoch, seq = query.get("epoch"), query.get("seq")
    if epoch is None and seq is None:
        return None
    if epoch is None or seq is None or not EPOCH.fullmatch(epoch) or not SEQ.fullmatch(seq):
        raise _bad("to resume, send both epoch (text) and seq (integer)")
    return Position(epoch, int(seq))


def _bad(why: str) -> ProtocolError:
    return ProtocolError(f"bad message: {why}", close_code=Close.BAD_MESSAGE.code)
