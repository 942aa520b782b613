"""Reads the members of foreign JSON: as what they should be, or not at all, with a sentence that says why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from spectator.importing.foreign import NotReadable

LATEST_S: Final = 253_402_300_799
"""Unix time up to which a date has four digits for its year."""


def number(value: object) -> float | None:
    """A finite number, a truth value as 0 or 1; ``None`` for anything else, so that nothing becomes 0.

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
    """The members of an object that are numbers."""
    if not isinstance(value, Mapping):
        return {}
    return {str(name): known for name, one in value.items() if (known := number(one)) is not None}


def text(value: object) -> str:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """A whole number of at least 0; ``None`` for anything else."""
    known = number(value)
    return int(known) if known is not None and known >= 0 and not isinstance(value, bool) else None


def usage_of(value: object, tokens_in: str, tokens_out: str) -> dict[str, int] | None:
    """Counted tokens, by the names under which an object has them; ``None`` where it is none.

    >>> usage_of({"input_tokens": 3, "output_tokens": None}, "input_tokens", "output_tokens")
    {'tokens_in': 3}
    """
    if not isinstance(value, Mapping):
        return None
    counted = {"tokens_in": count(value.get(tokens_in)), "tokens_out": count(value.get(tokens_out))}
    return {name: known for name, known in counted.items() if known is not None}


def integers(value: object) -> list[int] | None:
    """Token ids; ``None`` where there are none, or something that is none.

    >>> integers([0, 7]), integers([]), integers([1, -1]), integers([1, 2.0]), integers([2**63])
    ([0, 7], None, None, None, None)
    """
    if not isinstance(value, list) or not value:
        return None
    whole = set(map(type, value)) <= {int, bool} and 0 <= min(value) and max(value) < 2**63
    return value if whole else None


def reals(value: object, length: int) -> list[float] | None:
    """``length`` log probabilities; a missing one is not a number; ``None`` where there are not so many.

    >>> reals([-0.5, -1.5], 2), reals([-0.5, None, 1, float("inf")], 4), reals([-0.5], 2)
    ([-0.5, -1.5], [-0.5, nan, 1.0, nan], None)
    """
    if not isinstance(value, list) or len(value) != length:
        return None
    if set(map(type, value)) <= {float} and all(map(math.isfinite, value)):
        return value  # as nearly all are: not looked at one by one
    return [math.nan if (known := number(one)) is None else known for one in value]


def moment(value: object) -> datetime | None:
    """A time, from RFC 3339 or Unix time in seconds or milliseconds; ``None`` where it is none.

    >>> moment(1_700_000_000_000) == moment(1_700_000_000) == moment("2023-11-14T22:13:20Z")
    True
    >>> moment(0) is None
    True
    """
    if isinstance(value, str):
        try:
            said = datetime.fromisoformat(value)
        except ValueError:
            return None
        return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
    known = number(value)
    if known is None or known <= 0 or isinstance(value, bool):
        return None
    seconds = known / 1000 if known > LATEST_S / 10 else known
    return datetime.fromtimestamp(seconds, UTC) if seconds <= LATEST_S else None


def need(row: Mapping[str, Any], name: str, kind: type, rule: str) -> Any:
    """The member ``name``, which must be a ``kind``.

    Raises:
        NotReadable: It is not there or something else; ``rule`` says what it should be.
    """
    if name not in row:
        raise NotReadable(f"{name} is missing: {rule}")
    if not isinstance(row[name], kind):
        raise NotReadable(f"{name} is {kind_of(row[name])}: {rule}")
    return row[name]


def kind_of(value: object) -> str:
    """What a JSON value is, in words.

    >>> kind_of(None), kind_of([]), kind_of(3)
    ('null', 'a list', 'a number')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)
