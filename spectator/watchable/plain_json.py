"""Turns whatever a loop holds into JSON, within bounds: arrays, tensors, models, and anything else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

MOST_ITEMS: Final = 1_024
"""Items of a list, members of an object and numbers of an array that are kept."""

MOST_TEXT: Final = 1_000_000
"""Characters of a text that are kept."""

MOST_DEPTH: Final = 16
MOST_BITS: Final = 1_024
MOST_OF_UNKNOWN: Final = 500


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` as finite JSON; what has no such form becomes words that say what it is.

    >>> plain({"at": (1, float("nan")), 3: {"a"}})
    {'at': [1, 'nan'], '3': ['a']}
    >>> plain("x" * 1_000_001)[1_000_000:]
    '… (1 more characters left out)'
    >>> plain(object)
    "<class 'object'>"
    """
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        left = len(value) - MOST_TEXT
        return value if left <= 0 else f"{value[:MOST_TEXT]}… ({left} more characters left out)"
    if depth >= MOST_DEPTH:
        return "… (nested too deeply)"
    if isinstance(value, Mapping):
        return _members(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return plain(unusual(value), depth + 1)


def unusual(value: Any) -> Any:
    """An array, a tensor or a model by its parts; anything else in words.

    >>> import numpy
    >>> unusual(numpy.zeros((84, 84, 4)))
    'float64 array of shape 84 x 84 x 4'
    >>> unusual(numpy.float32(0.5))
    0.5
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, Sequence) and hasattr(value, "tolist"):
        if math.prod(shape) <= MOST_ITEMS:
            return value.tolist()
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        return f"{kind} array of shape {' x '.join(map(str, shape))}".strip()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump()
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return {name: getattr(value, name) for name in fields}
    return repr(value)[:MOST_OF_UNKNOWN]


def encoded(message: Mapping[str, Any], most: int) -> bytes:
    """A message as a line of JSON.

    Args:
        message: Anything; members that :func:`plain` would change may be changed.
        most: Bytes above which texts and lists are cut.

    Raises:
        ValueError: It is longer even then.
    """
    try:
        line = _utf8(_QUICK(message))
    except (TypeError, ValueError, RecursionError):
        line = b""
    if not line or len(line) > most:
        line = _utf8(_QUICK(plain(message)))
    if len(line) > most:
        raise ValueError(f"it takes {len(line) >> 10} kB as JSON, and at most {most >> 10} kB are recorded")
    return line + b"\n"


def finite(value: Any) -> float | None:
    """``value`` as a finite number: a number, or an array or a tensor of one; ``None`` for anything else.

    >>> finite(True), finite(float("inf")), finite("1")
    (1.0, None, None)
    """
    known = None if isinstance(value, str | bytes) else attempted(float, value)[0]
    return known if known is not None and math.isfinite(known) else None


def words_of(value: object) -> str:
    """``value`` in words, whatever its own words do.

    >>> words_of(ValueError("no")), words_of([1, 2])
    ('no', '[1, 2]')
    """
    words, error = attempted(str, value)
    return (
        f"a {type(value).__name__} that cannot be shown: {type(error).__name__}"
        if words is None
        else words[:300]
    )


def attempted(work: Callable[..., _Result], *given: Any) -> tuple[_Result | None, Exception | None]:
    """What ``work`` returns, or what it raises: values of a loop may do anything when they are looked at."""
    try:
        return work(*given), None
    except Exception as error:  # noqa: BLE001  # the loop must go on
        return None, error


def _utf8(text: str) -> bytes:
    """``text`` with a question mark for every half of a surrogate pair, which has no UTF-8."""
    return text.encode("utf-8", "replace")


def _members(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for place, (name, member) in enumerate(value.items()):
        if place == MOST_ITEMS:
            kept["…"] = f"{len(value) - MOST_ITEMS} more left out"
            break
        kept[str(name)] = plain(member, depth + 1)
    return kept


def _items(value: Any, depth: int) -> list[Any]:
    kept = [plain(item, depth + 1) for item, _ in zip(value, range(MOST_ITEMS), strict=False)]
    return kept if len(value) <= MOST_ITEMS else [*kept, f"… ({len(value) - MOST_ITEMS} more left out)"]


_QUICK: Final = json.JSONEncoder(
    default=unusual, ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
"""Encodes most of what a loop holds as it is."""
