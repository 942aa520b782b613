"""Episodes of other programs, in one form for all formats, and helpers to read their JSON.

Unknown values are ``None``. Members of the wrong type are rejected with a message.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from spectator.journal.encoding import ChatMessage
from spectator.json_values import json_encoder
from spectator.text import encodable


class UnreadableEntry(ValueError):
    """An entry does not fit its format; the message names the field and the rule."""


@dataclass(slots=True, kw_only=True)
class ForeignTurn:
    """One answer of a model.

    Args:
        asked: The messages between the previous answer and this one; the whole prompt if ``fresh_prompt``.
        reply: The answer as an assistant message.
        fresh_prompt: Whether ``asked`` is a whole prompt that does not continue from the previous answer.
        reward: Reward of the answer, if known.
        token_ids: Ids of the answer's tokens, shape ``(n,)``.
        logprobs: Their log probabilities in nats, shape ``(n,)``.
        usage: ``tokens_in`` and ``tokens_out``, if counted.
        latency_s: Duration of the request, seconds.
        weight_version: Version of the weights that answered.
        known: How many messages of a fresh prompt were shown before; viewers see the others.
    """

    asked: Sequence[ChatMessage]
    reply: ChatMessage
    fresh_prompt: bool = False
    reward: float | None = None
    prompt_token_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    at: datetime | None = None
    latency_s: float = 0.0
    weight_version: str | None = None
    known: int = 0


@dataclass(slots=True, kw_only=True)
class ForeignEpisode:
    """An episode that was played by another program.

    Args:
        key: Identity of the episode as JSON: its own ids or a digest of its content, never its line number.
        turns: The answers, in order.
        agent: The model or agent; empty if unknown.
        group: Name of the group of episodes with the same prompt.
        reward: Reward of the episode; ``None`` if unknown, which is not 0.
        error: Error that ended the episode without a score.
        ended: Whether it ended.
        tools: The offered tools, in the form of chat completions.
        notes: What is not shown, one sentence each.
        order_ms: Sort key of episodes without a time, 0 .. 2**48 - 1.
        anonymous: Whether the file gives it no id; equal ones in one file are then different episodes.
    """

    key: Sequence[Any]
    environment: str
    turns: Sequence[ForeignTurn]
    after: Sequence[ChatMessage] = ()
    agent: str = ""
    title: str = ""
    group: str | None = None
    seed: int | None = None
    reward: float | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    cut: str | None = None
    ended: bool = True
    result: str | None = None
    began: datetime | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    order_ms: int = 0
    anonymous: bool = False


def digest_of(value: object) -> str:
    """Return the SHA-256, in hex, of a JSON value: the same however it is written.

    Order of members, white space, and ``1`` for ``1.0`` make no difference.

    >>> digest_of({"a": 1, "b": [2.0]}) == digest_of({"b": [2], "a": 1.0})
    True
    """
    return sha256(_canonical(_same_numbers(value)).encode("utf-8", "replace")).hexdigest()


_canonical: Final = json_encoder(sorted_keys=True)


def _same_numbers(value: Any) -> Any:
    """Return the value with whole numbers as integers and ``None`` for non-finite numbers."""
    kind = type(value)
    if kind is dict:
        return {name: _same_numbers(one) for name, one in value.items()}
    if kind is list:
        return value if set(map(type, value)) <= {int, str} else [_same_numbers(one) for one in value]
    if kind is float:
        return None if not math.isfinite(value) else int(value) if value.is_integer() else value
    return value


def group_within(environment: str, name: str) -> str:
    """Name a group of one environment; no other environment has a group of this name.

    >>> group_within("adder", "g0"), group_within("a:b", "c") == group_within("a", "b:c")
    ('adder:g0', False)
    """
    return f"{environment.replace('%', '%25').replace(':', '%3A')}:{name}"


LATEST_S: Final = 253_402_300_799
"""The last Unix time with a four-digit year."""


def number(value: object) -> float | None:
    """Return a finite number or a boolean as float; ``None`` for anything else.

    >>> number(1), number(True), number("1"), number(float("nan"))
    (1.0, 1.0, None, None)
    """
    if not isinstance(value, bool | int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def numbers(value: object) -> dict[str, float]:
    """Return the numeric members of an object."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): known for name, one in value.items() if (known := number(one)) is not None}


def text(value: object) -> str:
    """Return ``value`` if it is a text, otherwise an empty one."""
    return encodable(value) if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return a non-negative number as int; ``None`` for anything else."""
    if type(value) is int:
        return value if value >= 0 else None
    known = number(value)
    return int(known) if known is not None and known >= 0 and not isinstance(value, bool) else None


def usage_of(value: object, tokens_in: str, tokens_out: str) -> dict[str, int] | None:
    """Return token counts from an object, given the names of its members.

    >>> usage_of({"input_tokens": 3, "output_tokens": None}, "input_tokens", "output_tokens")
    {'tokens_in': 3}
    """
    if not isinstance(value, Mapping):
        return None
    counted = {"tokens_in": count(value.get(tokens_in)), "tokens_out": count(value.get(tokens_out))}
    return {name: known for name, known in counted.items() if known is not None}


def integers(value: object) -> list[int] | None:
    """Return token ids; ``None`` if the list is empty or has an invalid id.

    >>> integers([0, 7]), integers([]), integers([1, -1]), integers([1, 2.0]), integers([2**63])
    ([0, 7], None, None, None, None)
    """
    if not isinstance(value, list) or not value:
        return None
    try:
        return value if min(array("q", value)) >= 0 else None
    except (TypeError, OverflowError):
        return None


def reals(value: object, length: int) -> list[float] | None:
    """Return ``length`` log probabilities with NaN for missing ones, or ``None``.

    >>> reals([-0.5, -1.5], 2), reals([-0.5, None, 1, float("inf")], 4), reals([-0.5], 2)
    ([-0.5, -1.5], [-0.5, nan, 1.0, nan], None)
    """
    if not isinstance(value, list) or len(value) != length:
        return None
    if set(map(type, value)) <= {float} and all(map(math.isfinite, value)):
        return value  # fast path for the usual case
    return [math.nan if (known := number(one)) is None else known for one in value]


def moment(value: object) -> datetime | None:
    """Parse a time: RFC 3339, or Unix time in seconds, or in thousandths down to nanoseconds.

    >>> moment(1_700_000_000_000) == moment(1_700_000_000) == moment("2023-11-14T22:13:20Z")
    True
    >>> moment(0) is None
    True
    """
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return None
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    known = number(value)
    if known is None or known <= 0 or isinstance(value, bool):
        return None
    for _ in range(3):  # milliseconds, microseconds, nanoseconds
        known = known / 1000 if known > LATEST_S / 10 else known
    return datetime.fromtimestamp(known, UTC) if known <= LATEST_S else None


def need(row: Mapping[str, Any], name: str, kind: type, rule: str) -> Any:
    """Return the member ``name``, which must be a ``kind``.

    Raises:
        UnreadableEntry: It is missing or has another type; the message ends with ``rule``.
    """
    if name not in row:
        raise UnreadableEntry(f"{name} is missing: {rule}")
    if not isinstance(row[name], kind):
        raise UnreadableEntry(f"{name} is {kind_of(row[name])}: {rule}")
    return row[name]


def kind_of(value: object) -> str:
    """Return the type of a JSON value, as text.

    >>> kind_of(None), kind_of([]), kind_of(3)
    ('null', 'a list', 'a number')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)
