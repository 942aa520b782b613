"""JSON merge patches (RFC 7396) on plain JSON values.

States that travel by merge patch hold no ``null``, because a patch uses it to remove a member, and
replace lists whole; long growing things are therefore objects keyed by their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PLAIN: Final = frozenset({str, int, float, bool, list, type(None)})


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
        elif kind in _PLAIN:
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
    return kind is dict or (kind not in _PLAIN and isinstance(value, Mapping))
