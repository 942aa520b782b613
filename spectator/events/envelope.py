"""The envelope of events, and their one encoding.

An event is numbered by the episode's stream, encoded once, kept by the journal in that encoding, and sent to
every viewer as the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any, Final

from pydantic_core import from_json

from spectator.checked_dataclass import checked_dataclass
from spectator.json_encoders import json_encoder

SCHEMA_VERSION: Final = 1
"""Version of the envelope and of the core event types; a changed meaning raises it."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_encode: Final = json_encoder()


@checked_dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened in a world or to its episode, before it is numbered.

    Args:
        type: ``episode.ended``, ``counting.number_said``: a room and a past participle.
        data: Plain finite JSON, in the shape of the event type's model.
    """

    type: str
    data: Mapping[str, Any]


@checked_dataclass(frozen=True, slots=True)
class Event:
    """A numbered fact.

    Args:
        episode_id: Whose fact it is.
        epoch: Identity of the numbering; a new one makes older numbers meaningless.
        seq: 1, 2, 3, ... without a gap within ``(episode_id, epoch)``.
        at: When it was recorded, RFC 3339 UTC with milliseconds.
        turn: Which accepted or refused action it belongs to; 0 before the first.
        type: See :class:`Fact`.
        data: See :class:`Fact`.
        patch: RFC 7396 merge patch from the viewer's state before it to the one after it.
        v: Version of the envelope.
    """

    episode_id: str
    epoch: str
    seq: int
    at: str
    turn: int
    type: str
    data: Mapping[str, Any]
    patch: Mapping[str, Any] = field(default_factory=dict)
    v: int = SCHEMA_VERSION


class RecordedEvent:
    """An event together with its one encoding; it is never changed.

    Args:
        event: The decoded event.
        text: The envelope as JSON text; what the journal keeps and every reader gets.
    """

    def __init__(self, event: Event, text: str) -> None:
        self.event, self.text = event, text
        self.episode_id, self.seq, self.type = event.episode_id, event.seq, event.type

    @cached_property
    def event(self) -> Event:
        """The decoded event; decoded when it is first asked for, where nobody has needed it before."""
        return decode(self.text).event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedEvent) and (self.text, self.event) == (other.text, other.event)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"RecordedEvent({self.text!r})"


class EventEncoder:
    """Encodes the events of one episode without patches, from data that is encoded already.

    Args:
        episode_id: Whose events.
        epoch: Identity of their numbering.

    >>> encoder = EventEncoder("ep-1", "e")
    >>> encoder.encode(7, "2026-11-21T05:00:00.000Z", 2, "warning", '{"message":"late"}').event.data
    {'message': 'late'}
    """

    def __init__(self, episode_id: str, epoch: str) -> None:
        self._episode_id = episode_id
        self._head = (
            f'{{"v":{SCHEMA_VERSION},"episode_id":{encode_json(episode_id)},"epoch":{encode_json(epoch)}'
        )

    def encode(self, seq: int, at: str, turn: int, kind: str, data: str) -> RecordedEvent:
        """The same text as :func:`record` makes of such an event; decoded when somebody looks at it.

        Args:
            seq: See :class:`Event`.
            at: See :class:`Event`; as :func:`spectator.clock.timestamp` writes it.
            turn: See :class:`Event`.
            kind: Its type.
            data: Its data as :func:`encode_json` writes them.
        """
        recorded = RecordedEvent.__new__(RecordedEvent)
        recorded.episode_id, recorded.seq, recorded.type = self._episode_id, seq, kind
        recorded.text = (
            f'{self._head},"seq":{seq},"at":"{at}","turn":{turn},"type":{_quoted(kind)},'
            f'"data":{data},"patch":{{}}}}'
        )
        return recorded

    def renumbered(self, recorded: RecordedEvent, seq: int) -> RecordedEvent:
        """An event of :meth:`encode` under another number."""
        numbered = f'{self._head},"seq":'
        other = copy(recorded)
        other.seq = seq
        other.text = f"{numbered}{seq}{recorded.text.removeprefix(f'{numbered}{recorded.seq}')}"
        vars(other).pop("event", None)  # the decoded one, if somebody looked at it
        return other


def record(event: Event) -> RecordedEvent:
    """Encode ``event`` once.

    Raises:
        ValueError: A number in it is not finite, or a text has no UTF-8.
        TypeError: A value in it is not JSON.

    >>> event = Event("ep-1", "e", 1, "2026-11-21T05:00:00.000Z", 1, "counting.said", {"number": 7}, {})
    >>> record(event).text
    '{"v":1,"episode_id":"ep-1","epoch":"e","seq":1,...,"data":{"number":7},"patch":{}}'
    """
    in_order = {
        "v": event.v,
        "episode_id": event.episode_id,
        "epoch": event.epoch,
        "seq": event.seq,
        "at": event.at,
        "turn": event.turn,
        "type": event.type,
        "data": event.data,
        "patch": event.patch,
    }
    return RecordedEvent(event, encode_json(in_order))


def decode(text: str) -> RecordedEvent:
    """Inverse of :func:`record`: keeps the very text it was given.

    Raises:
        ValueError: The text is not an envelope of a version that this code reads.
    """
    fields = decode_json(text)
    if not isinstance(fields, dict) or fields.get("v") != SCHEMA_VERSION:
        raise ValueError(f"not an event envelope of version {SCHEMA_VERSION}: {text[:80]!r}")
    try:
        return RecordedEvent(Event(**fields), text)
    except TypeError as error:
        raise ValueError(f"not an event envelope: {error}") from error


def decode_json(text: str) -> Any:
    """``text`` as JSON: by the fast parser, or by the usual one where that gives up, as on deep nesting."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return _DECODER.decode(text)


def encode_json(value: Any) -> str:
    """Strict compact JSON on one line: no NaN, no infinity, no stringified objects, UTF-8 as itself.

    The three characters beyond ASCII at which some readers end a line are escaped.

    Raises:
        ValueError: A number is not finite, a text holds half a surrogate pair, which has no UTF-8, or a
            value is nested too deeply.
        TypeError: A value is not JSON.

    >>> encode_json({"name": "Zoë", "share": 0.5})
    '{"name":"Zoë","share":0.5}'
    >>> encode_json(float("nan"))
    Traceback (most recent call last):
        ...
    ValueError: Out of range float values are not JSON compliant...
    """
    try:
        text = _encode(value)
    except RecursionError as error:
        raise ValueError("a value is nested too deeply, or holds itself") from error
    if text.isascii():
        return text
    text.encode()
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


_quoted = lru_cache(maxsize=1024)(encode_json)
