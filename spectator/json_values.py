"""Encode JSON values, and change them with merge patches (RFC 7396).

The encoders produce the bytes of the standard library's encoder, created once; ``orjson`` is used only when
it is certain to produce the same bytes.

States sent as merge patches contain no ``null``, because in a patch it removes a member. A patch replaces a
list as a whole, so long lists that grow are objects keyed by number.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

_PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Types whose values both encoders write alike, if they accept them."""

_MOST: Final = 65_536
"""Objects and arrays beyond which a value goes to the standard library: it may contain itself."""


def json_encoder(
    *, ascii_only: bool = False, sorted_keys: bool = False, item: str = ",", member: str = ":"
) -> Callable[[Any], str]:
    """Create an encoder that rejects non-finite numbers and does not detect circular values.

    The two encoders differ in numbers with an exponent, in non-finite numbers, and in types that only one of
    them supports: the standard library encodes values with any of these.

    Args:
        ascii_only: Whether to escape non-ASCII characters.
        sorted_keys: Whether to sort the members of objects by name.
        item: Separator between items.
        member: Separator between a name and its value.

    >>> json_encoder(sorted_keys=True)({"b": [1.5, None], "a": "é"})
    '{"a":"é","b":[1.5,null]}'
    """
    standard = _standard_encoder(ascii_only, sorted_keys, item, member)
    if (item, member) != (",", ":"):
        return lambda value: "".join(standard(value, 0))

    option = orjson.OPT_SORT_KEYS if sorted_keys else None

    def encode(value: Any) -> str:
        within: list[Iterable[Any]] = [(value,)]
        for members in within:  # which grows
            for one in members:
                kind = type(one)
                if kind in _PLAIN:
                    continue
                if kind is float and (1e-4 <= one < 1e15 or one == 0.0 or -1e15 < one <= -1e-4):
                    continue  # needs no exponent
                if len(within) < _MOST and isinstance(one, dict):
                    within.append(one.values())
                elif len(within) < _MOST and (kind is list or kind is tuple):
                    within.append(one)
                else:
                    return "".join(standard(value, 0))
        try:
            text = orjson.dumps(value, option=option).decode()
        except TypeError:  # an integer beyond 64 bits, half a surrogate pair, nested too deeply
            return "".join(standard(value, 0))
        if ascii_only and (not text.isascii() or "\x7f" in text):
            return "".join(standard(value, 0))
        return text

    return encode


def _standard_encoder(
    ascii_only: bool, sorted_keys: bool, item: str, member: str
) -> Callable[[Any, int], Iterable[str]]:
    """Create the standard library's compiled encoder once; ``json.JSONEncoder`` does so for every value."""
    plain = json.JSONEncoder(
        ensure_ascii=ascii_only,
        check_circular=False,
        allow_nan=False,
        sort_keys=sorted_keys,
        separators=(item, member),
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _level: plain.iterencode(value)
    text = json.encoder.encode_basestring_ascii if ascii_only else json.encoder.encode_basestring
    compiled: Callable[[Any, int], Iterable[str]] = make(
        None, plain.default, text, None, member, item, sorted_keys, False, False
    )
    return compiled


_PLAIN_TYPES: Final = frozenset({str, int, float, bool, list, type(None)})


def apply_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` applied; changes neither and shares unchanged parts.

    >>> apply_patch({"runs": 3, "over": {"ball": 2}}, {"runs": None, "over": {"ball": 3}})
    {'over': {'ball': 3}}
    """
    if not _is_object(patch):
        return patch
    result = dict(target) if _is_object(target) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_patch(result.get(key), value)
    return result


def merge_into(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Apply a patch in place, with the result of :func:`apply_patch`; the state must not be shared.

    >>> state = {"runs": 3, "over": {"ball": 2}}
    >>> merge_into(state, {"runs": None, "over": {"ball": 3}})
    >>> state
    {'over': {'ball': 3}}
    """
    for key, value in patch.items():
        kind = type(value)
        if value is None:
            target.pop(key, None)
        elif kind in _PLAIN_TYPES:
            target[key] = value
        elif kind is not dict:
            target[key] = apply_patch(target.get(key), value)
        elif type(current := target.get(key)) is dict:
            merge_into(current, value)
        else:
            target[key] = apply_patch(None, value)


def without_null(value: Any) -> Any:
    """Return JSON without object members that are null, because null removes a member in a merge patch."""
    if isinstance(value, Mapping):
        return {name: without_null(member) for name, member in value.items() if member is not None}
    return value


def make_patch(before: Any, after: Any) -> Any:
    """Return the patch that turns ``before`` into ``after``; neither may contain ``None``.

    For objects it names only the members that differ, and removes those that are gone.

    >>> make_patch({"runs": 3, "over": {"ball": 2}}, {"over": {"ball": 3}})
    {'runs': None, 'over': {'ball': 3}}
    """
    if not _is_object(before) or not _is_object(after):
        return after
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif not _same(before[key], value):
            patch[key] = make_patch(before[key], value)
    return patch


def _same(one: Any, other: Any) -> bool:
    """Return whether both are the same JSON; ``True`` is not ``1`` there, although equal in Python."""
    if _is_object(one) and _is_object(other):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _is_object(value: Any) -> bool:
    """Return whether it is a JSON object; checks plain types first, as ``isinstance`` is slow."""
    kind = type(value)
    return kind is dict or (kind not in _PLAIN_TYPES and isinstance(value, Mapping))
