"""Encode JSON values, and change them by merge patches (RFC 7396).

The encoders are those of the standard library, created once; ``orjson`` is used only where it is certain to
write the same bytes.

States that travel by merge patch hold no ``null``, because a patch uses it to remove a member, and replace
lists as a whole; long lists that grow are therefore objects keyed by number.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson


class PlainObject(dict[str, Any]):
    """A JSON object that both encoders write alike, by its maker's word: nobody looks through it again.

    It holds only texts, integers, booleans, null, and reals of :func:`is_plain_real`, at any depth. It is
    changed no more.
    """


def is_plain_real(real: float) -> bool:
    """Whether both encoders write ``real`` alike: it needs no exponent.

    >>> is_plain_real(0.7), is_plain_real(1e-7), is_plain_real(float("nan"))
    (True, False, False)
    """
    return 1e-4 <= real < 1e15 or real == 0.0 or -1e15 < real <= -1e-4


_PLAIN: Final = frozenset({str, int, bool, type(None), PlainObject})
"""Types of which both encoders write every value alike, where they write it at all."""

_MOST: Final = 65_536
"""Objects and arrays in a value beyond which it is left to the standard library: it may hold itself."""


def json_encoder(
    *, ascii_only: bool = False, sorted_keys: bool = False, item: str = ",", member: str = ":"
) -> Callable[[Any], str]:
    """An encoder that refuses what is not finite and does not look for values that hold themselves.

    The two encoders differ in numbers with an exponent, in what is not finite, and in types that only one of
    them knows: a value with any of these is left to the standard library.

    Args:
        ascii_only: Whether what is beyond ASCII is escaped.
        sorted_keys: Whether members of objects are sorted by name.
        item: Between items.
        member: Between a name and its value.

    >>> json_encoder(sorted_keys=True)({"b": [1.5, None], "a": "é"})
    '{"a":"é","b":[1.5,null]}'
    """
    standard = _standard_encoder(ascii_only, sorted_keys, item, member)
    if (item, member) != (",", ":"):
        return lambda value: "".join(standard(value, 0))

    option = orjson.OPT_SORT_KEYS if sorted_keys else None

    def encode(value: Any) -> str:
        within: list[Iterable[Any]] = [] if type(value) is PlainObject else [(value,)]
        for members in within:  # which grows
            for one in members:
                kind = type(one)
                if kind in _PLAIN:
                    continue
                if kind is float and (1e-4 <= one < 1e15 or one == 0.0 or -1e15 < one <= -1e-4):
                    continue  # as is_plain_real, whose call would take as long as all else here
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


def encode_ascii_texts(value: Mapping[str, Any]) -> bytes | None:
    """The usual encoding of an object that holds only texts in ASCII, as most messages do, at half the cost.

    Returns:
        ``None`` where ``value`` is not such an object.

    >>> encode_ascii_texts({"role": "user", "content": "Well?"})
    b'{"role":"user","content":"Well?"}'
    """
    for one in value.values():
        if type(one) is not str:
            return None
    try:
        text = orjson.dumps(value)
    except TypeError:  # a name that is no text, half a surrogate pair
        return None
    return text if text.isascii() else None


def _standard_encoder(
    ascii_only: bool, sorted_keys: bool, item: str, member: str
) -> Callable[[Any, int], Iterable[str]]:
    """The standard library's encoder, whose compiled part ``json.JSONEncoder`` makes anew for every value."""
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
    """Return ``target`` with ``patch`` applied; neither is changed, untouched parts are shared.

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
    """Apply a patch in place: what :func:`apply_patch` returns, for a state that nobody else holds.

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
        elif type(held := target.get(key)) is dict:
            merge_into(held, value)
        else:
            target[key] = apply_patch(None, value)


def make_patch(before: Any, after: Any) -> Any:
    """Return the patch that turns ``before`` into ``after``; both hold no ``None``.

    For objects it names only what differs, so that an object can be replaced without what it held
    before shining through.

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
    """Whether both are the same JSON; ``True`` is not ``1`` there, though Python calls them equal."""
    if _is_object(one) and _is_object(other):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _is_object(value: Any) -> bool:
    """Whether it is a JSON object; most values are plain, and asking those a question of type is slow."""
    kind = type(value)
    return kind is dict or (kind not in _PLAIN_TYPES and isinstance(value, Mapping))
