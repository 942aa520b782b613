"""The fast encoder tells what the strict one tells, and refuses what it refuses."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.openenv.worlds import strict_json
from spectator.events import encode_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["NaN", "null", "Infinity", "\u2028"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True, allow_infinity=True) | TEXTS
VALUES = st.recursive(LEAVES, lambda one: st.lists(one) | st.dictionaries(TEXTS, one), max_leaves=20)


def finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(finite(one) for one in members)


@given(VALUES)
def test_it_agrees_with_the_strict_encoder(value: Any) -> None:
    if finite(value):
        assert json.loads(strict_json(value)) == json.loads(encode_json(value)) == value
    else:
        with pytest.raises(ValueError, match="not JSON compliant"):
            strict_json(value)


@dataclasses.dataclass
class Point:
    """What is no JSON."""

    x: int = 1


@pytest.mark.parametrize("value", [Point(), datetime.date(2026, 1, 1), {1, 2}, b"x", object()])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        strict_json({"one": value})


def test_half_a_surrogate_pair_and_endless_nesting_are_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        strict_json(["\ud800"])
    holds: list[Any] = []
    holds.append(holds)
    with pytest.raises(ValueError, match="nested"):
        strict_json(holds)


def test_a_nan_beside_nulls_and_beside_the_word_is_found() -> None:
    for value in (
        [None, math.nan],
        {"a": None, "b": {"c": [math.inf]}},
        {"null": math.nan},
        [math.nan, "null"],
    ):
        with pytest.raises(ValueError, match="not JSON compliant"):
            strict_json(value)
    assert strict_json([None, "null", "NaN", (None,)]) == b'[null,"null","NaN",[null]]'
    assert strict_json({"large": 2**70}) == b'{"large":1180591620717411303424}'
