"""Strict JSON of answers, by the fastest encoder that there is."""

from __future__ import annotations

from typing import Any, Final

import orjson
from pydantic_core import to_json

from spectator.events import encode_json

PLAIN: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What is no JSON is an error, not a text that looks like it."""


def strict_json(value: Any) -> bytes:
    """``value`` as :func:`spectator.events.encode_json` tells it, in UTF-8 and in a tenth of the time.

    ``orjson`` makes null of NaN and of infinity: where there are more nulls than the value holds, another
    encoder says whether it was one. What ``orjson`` does not take, such as an integer of more than 64 bits,
    is left to the slow way.

    Raises:
        ValueError: A number is not finite, a text holds half a surrogate pair, or it is nested too deeply.
        TypeError: A value is not JSON.

    >>> strict_json({"name": "Zoë", "left": None})
    b'{"name":"Zo\\xc3\\xab","left":null}'
    >>> strict_json([float("inf")])
    Traceback (most recent call last):
        ...
    ValueError: Out of range float values are not JSON compliant...
    """
    try:
        told = orjson.dumps(value, option=PLAIN)
    except TypeError:
        return encode_json(value).encode()
    if (nulls := told.count(b"null")) and not _holds(value, nulls):
        checked = to_json(value, inf_nan_mode="constants")
        if b"NaN" in checked or b"Infinity" in checked:  # perhaps within a text
            return encode_json(value).encode()
    return told


def _holds(value: Any, nulls: int) -> bool:
    """Whether ``value`` holds ``None`` so many times; looked for level by level, no deeper than needed."""
    level = [value]
    while nulls > 0 and level:
        below = []
        for one in level:
            for member in (
                one.values() if type(one) is dict else one if type(one) in (list, tuple) else (one,)
            ):
                if member is None:
                    nulls -= 1
                elif type(member) in (dict, list, tuple):
                    below.append(member)
        level = below
    return nulls == 0
