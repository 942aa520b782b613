"""The quick encoder writes what the standard library writes, byte for byte, and refuses what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.json_values import json_encoder

NUMBERS = st.one_of(
    st.floats(),
    st.floats(1e-7, 1e-3),
    st.floats(1e14, 1e18),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0.0, -0.0, 1e-4, 9.99e-5, 1e15, 1e16, 2**63, -(2**63), 2**64 - 1, 8.4e-05]),
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
KEYS = st.one_of(TEXTS, st.integers(), st.booleans(), st.none())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(TEXTS, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=2),
    ),
    max_leaves=12,
)


class Colour(Enum):
    """A value of its own kind."""

    RED = "red"


def written(encode: Callable[[Any], str], value: Any) -> str | None:
    """Its JSON; ``None`` where it is refused."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("sorted_keys", [False, True])
@given(value=VALUES)
def test_every_value_is_written_as_the_standard_library_writes_it(
    value: Any, ascii_only: bool, sorted_keys: bool
) -> None:
    def usual(one: Any) -> str:
        return json.dumps(
            one, ensure_ascii=ascii_only, sort_keys=sorted_keys, allow_nan=False, separators=(",", ":")
        )

    quick = json_encoder(ascii_only=ascii_only, sorted_keys=sorted_keys)
    assert written(quick, value) == written(usual, value)


@pytest.mark.parametrize(
    "value", [Colour.RED, UUID(int=1), date(2026, 11, 24), {1, 2}, b"x", {"deep": [float("nan")]}, {b"x": 1}]
)
def test_what_is_no_json_is_refused_and_not_written_as_a_text(value: Any) -> None:
    for wrapped in (value, [value], {"in": {"it": value}}):
        with pytest.raises((TypeError, ValueError)):
            json_encoder()(wrapped)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        json_encoder()(value)
