"""Values of a loop as JSON: converted, copied, encoded, described."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from spectator.text import encodable

_Result = TypeVar("_Result")

MAX_ITEMS: Final = 1_024
"""Maximum items of a list, members of an object, and numbers of an array."""

MAX_TEXT: Final = 1_000_000
"""Maximum characters of a text."""

MAX_DEPTH: Final = 16
MAX_BITS: Final = 1_024
MAX_UNKNOWN: Final = 500


def plain(value: Any, depth: int = 0) -> Any:
    """Convert ``value`` to finite JSON; anything else becomes a description.

    >>> plain({"at": (1, float("nan")), 3: {"a"}})
    {'at': [1, 'nan'], '3': ['a']}
    >>> plain("x" * 1_000_001)[1_000_000:]
    '… (1 more characters left out)'
    >>> plain(object)
    "<class 'object'>"
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        left = len(value) - MAX_TEXT
        return value if left <= 0 else f"{value[:MAX_TEXT]}… ({left} more characters left out)"
    if depth >= MAX_DEPTH:
        return "… (nested too deeply)"
    if isinstance(value, Mapping):
        return _members(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return plain(unusual(value), depth + 1)


def unusual(value: Any) -> Any:
    """Convert an array, tensor, pydantic model or dataclass; describe anything else.

    >>> import numpy
    >>> unusual(numpy.zeros((84, 84, 4)))
    'float64 array of shape 84 x 84 x 4'
    >>> unusual(numpy.float32(0.5))
    0.5
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, Sequence) and hasattr(value, "tolist"):
        if math.prod(shape) <= MAX_ITEMS:
            return value.tolist()
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        return f"{kind} array of shape {' x '.join(map(str, shape))}".strip()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump()
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return {name: getattr(value, name) for name in fields}
    return repr(value)[:MAX_UNKNOWN]


def encoded(message: Mapping[str, Any], most: int) -> bytes:
    """Encode a message as a line of JSON.

    Args:
        message: The message; converted by :func:`plain` if needed.
        most: Maximum size, bytes; texts and lists of longer messages are cut.

    Raises:
        ValueError: The message is too long even then.
    """
    try:
        line = orjson.dumps(message, _quick, _OPTIONS)
    except (TypeError, RecursionError):
        line = b""
    if not line or len(line) > most or b"null" in line:  # orjson writes null for numbers that are not finite
        line = _COMPLETE(plain(message)).encode("utf-8", "replace") + b"\n"
    if len(line) > most:
        raise ValueError(f"its JSON has {len(line) >> 10} kB, more than the limit of {most >> 10} kB")
    return line


CONSTANTS: Final = frozenset((type(None), bool, int, float))

MEMBERS: Final = 16
"""Maximum members of a container that is copied."""

MAX_ROWS: Final = 64
"""Maximum environments of a batch whose values are copied."""


def copied(value: Any, rows: int = 1, most: int = MAX_ITEMS) -> Any:
    """Copy a small value that may change; describe large arrays.

    Args:
        value: The value.
        rows: Number of environments in a batch.
        most: Maximum numbers, and a quarter of the maximum characters.

    Raises:
        ValueError: Not a small value of a known type.

    >>> import numpy
    >>> copied((1, numpy.arange(3), {"at": "exit"}))
    (1, array([0, 1, 2]), {'at': 'exit'})
    >>> copied(numpy.zeros((2, 84, 84)), rows=2)
    ['float64 array of shape 84 x 84', 'float64 array of shape 84 x 84']
    """
    kind = type(value)
    if kind in CONSTANTS or (kind is str and len(value) <= 4 * most):
        return value
    if kind.__module__ == "numpy" and not value.dtype.hasobject:
        if value.size <= most:
            return value.copy() if rows == 1 else value.tolist()
        if value.size > rows * MAX_ITEMS:
            return unusual(value) if rows == 1 else [unusual(value[0])] * rows
    elif kind in (dict, list, tuple) and len(value) <= max(MEMBERS, rows) and most >= MEMBERS:
        most //= MEMBERS
        if kind is not dict:
            return kind([copied(item, 1 if kind is list else rows, most) for item in value])
        if all(type(name) is str for name in value):
            return {name: copied(member, rows, most) for name, member in value.items()}
    raise ValueError("not small")


def finite(value: Any) -> float | None:
    """Return a number, or an array with one number, as finite float, or ``None``.

    >>> finite(True), finite(float("inf")), finite("1")
    (1.0, None, None)
    """
    known = None if isinstance(value, str | bytes) else attempted(float, value)[0]
    return known if known is not None and math.isfinite(known) else None


def words_of(value: object) -> str:
    """Return ``value`` as text that can be encoded, even if its ``__str__`` fails.

    >>> words_of(ValueError("no")), words_of([1, 2])
    ('no', '[1, 2]')
    """
    text, error = attempted(str, value)
    return (
        f"a {type(value).__name__} that cannot be shown: {type(error).__name__}"
        if text is None
        else encodable(text[:300])
    )


def attempted(work: Callable[..., _Result], *given: Any) -> tuple[_Result | None, Exception | None]:
    """Return the result of ``work`` or its exception."""
    try:
        return work(*given), None
    except Exception as error:  # noqa: BLE001  # the loop must go on
        return None, error


def _members(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for index, (name, member) in enumerate(value.items()):
        if index == MAX_ITEMS:
            kept["…"] = f"{len(value) - MAX_ITEMS} more left out"
            break
        kept[str(name)] = plain(member, depth + 1)
    return kept


def _items(value: Any, depth: int) -> list[Any]:
    kept = [plain(item, depth + 1) for item, _ in zip(value, range(MAX_ITEMS), strict=False)]
    return kept if len(value) <= MAX_ITEMS else [*kept, f"… ({len(value) - MAX_ITEMS} more left out)"]


def _quick(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else unusual(value)


_OPTIONS: Final = (
    orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_COMPLETE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Encodes what orjson does not: long integers, lone surrogates, other names than texts."""
