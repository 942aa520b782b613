"""Encoders of JSON whose compiled part is made once; ``json.JSONEncoder`` makes it anew for every value."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any


def json_encoder(
    *, ascii_only: bool = False, sorted_keys: bool = False, item: str = ",", member: str = ":"
) -> Callable[[Any], str]:
    """An encoder that refuses what is not finite and does not look for values that hold themselves.

    Args:
        ascii_only: Whether what is beyond ASCII is escaped.
        sorted_keys: Whether members of objects are sorted by name.
        item: Between items.
        member: Between a name and its value.

    >>> json_encoder(sorted_keys=True)({"b": [1.5, None], "a": "é"})
    '{"a":"é","b":[1.5,null]}'
    """
    plain = json.JSONEncoder(
        ensure_ascii=ascii_only,
        check_circular=False,
        allow_nan=False,
        sort_keys=sorted_keys,
        separators=(item, member),
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    text = json.encoder.encode_basestring_ascii if ascii_only else json.encoder.encode_basestring
    compiled = make(None, plain.default, text, None, member, item, sorted_keys, False, False)
    return lambda value: "".join(compiled(value, 0))
