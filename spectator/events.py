"""Events: their envelope, their encoding, and the base of their data.

An episode's stream numbers each event and encodes it once. The journal stores these bytes, and every viewer
receives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from spectator.json_values import json_encoder

SCHEMA_VERSION: Final = 1
"""Version of the envelope and of the core event types; increased when a meaning changes."""


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)
_encode: Final = json_encoder()


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened in a world or to its episode, before it is numbered.

    Args:
        type: A namespace and a past participle: ``episode.ended``, ``counting.number_said``.
        data: Plain finite JSON that fits the event type's model.
    """

    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A numbered fact.

    Args:
        epoch: Id of the numbering; sequence numbers of another epoch are meaningless.
        seq: 1, 2, 3, ... without a gap within ``(episode_id, epoch)``.
        at: When it was recorded, RFC 3339 UTC with milliseconds.
        turn: Number of the accepted or refused action it belongs to; 0 before the first.
        type: See :class:`Fact`.
        data: See :class:`Fact`.
        patch: RFC 7396 merge patch from the viewers' state before the event to the state after it.
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
    """An event and its one encoding; never changed.

    Args:
        text: The envelope as JSON text, as the journal stores it and every reader receives it.
    """

    def __init__(self, event: Event, text: str) -> None:
        self.event, self.text = event, text
        self.episode_id, self.seq, self.type = event.episode_id, event.seq, event.type

    @cached_property
    def event(self) -> Event:
        """The event; decoded on first use."""
        return decode(self.text).event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedEvent) and (self.text, self.event) == (other.text, other.event)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"RecordedEvent({self.text!r})"


class EventEncoder:
    """Encodes the events of one episode without patches, from encoded data.

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
        """Encode an event to the same text as :func:`record`; it is decoded on first use.

        Args:
            seq: See :class:`Event`.
            at: See :class:`Event`; in the format of :func:`spectator.clock.timestamp`.
            turn: See :class:`Event`.
            data: Its data, encoded by :func:`encode_json`.
        """
        recorded = RecordedEvent.__new__(RecordedEvent)
        recorded.episode_id, recorded.seq, recorded.type = self._episode_id, seq, kind
        recorded.text = (
            f'{self._head},"seq":{seq},"at":"{at}","turn":{turn},"type":{_quoted(kind)},'
            f'"data":{data},"patch":{{}}}}'
        )
        return recorded

    def renumbered(self, recorded: RecordedEvent, seq: int) -> RecordedEvent:
        """Return an event of :meth:`encode` with another sequence number."""
        prefix = f'{self._head},"seq":'
        other = copy(recorded)
        other.seq = seq
        other.text = f"{prefix}{seq}{recorded.text.removeprefix(f'{prefix}{recorded.seq}')}"
        vars(other).pop("event", None)  # the cached decoded event
        return other


def record(event: Event) -> RecordedEvent:
    """Encode ``event``.

    Raises:
        ValueError: A number is not finite, or a text has no UTF-8 encoding.
        TypeError: A value is not JSON.

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
    """Decode an envelope, keeping its text unchanged; the inverse of :func:`record`.

    Raises:
        ValueError: The text is not an envelope of a supported version.
    """
    fields = decode_json(text)
    if not isinstance(fields, dict) or fields.get("v") != SCHEMA_VERSION:
        raise ValueError(f"not an event envelope of version {SCHEMA_VERSION}: {text[:80]!r}")
    try:
        return RecordedEvent(Event(**fields), text)
    except TypeError as error:
        raise ValueError(f"not an event envelope: {error}") from error


def decode_json(text: str) -> Any:
    """Parse JSON with the fast parser, or with the standard one if that fails, as on deep nesting."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return _DECODER.decode(text)


def encode_json(value: Any) -> str:
    """Encode strict, compact JSON on one line: no NaN, no infinity, non-ASCII unescaped.

    The three non-ASCII characters that some readers take for a line break are escaped.

    Raises:
        ValueError: A number is not finite, a text contains a lone surrogate, which has no UTF-8 encoding,
            or a value is nested too deeply.
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
        raise ValueError("a value is nested too deeply, or contains itself") from error
    if text.isascii():
        return text
    text.encode()
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


_quoted = lru_cache(maxsize=1024)(encode_json)


class EventData(BaseModel):
    """Base class of the models of event data; frozen, rejects undeclared fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def optional_field(description: str, *, default: Any = None, **rules: Any) -> Any:
    """Declare a field that the record omits while it has its default.

    Args:
        default: The value that an absent field stands for.
        rules: Further arguments of pydantic's ``Field``, such as ``pattern``.
    """
    return Field(default=default, description=description, exclude_if=lambda value: value == default, **rules)
