"""Numbers are packed into as few bytes as keep every one, and messages as the usual encoder writes them."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.events import encode_json
from spectator.journal.encoding import json_bytes, pack_integers, unpack

IDS = st.one_of(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(ids=st.lists(IDS, max_size=20))
def test_integers_come_back_from_as_few_bytes_as_hold_them(ids: list[int]) -> None:
    packed = pack_integers(array("q", ids))
    assert unpack(packed) == array("q", ids)
    narrow = all(-(2**31) <= one < 2**31 for one in ids)
    assert packed == (b"i" if narrow else b"q") + array("i" if narrow else "q", ids).tobytes()


@pytest.mark.parametrize("edge", [2**31 - 1, 2**31, -1, -(2**31), -(2**31) - 1, 2**32, 2**32 - 1])
def test_the_edges_of_four_bytes_are_kept(edge: int) -> None:
    assert unpack(pack_integers(array("q", [7, edge]))) == array("q", [7, edge])


@given(message=st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.lists(TEXTS)), max_size=4))
def test_a_message_is_kept_as_the_usual_encoder_writes_it(message: dict[str, Any]) -> None:
    assert json_bytes(message) == encode_json(message).encode()


def test_half_a_surrogate_pair_in_a_message_is_escaped() -> None:
    assert json_bytes({"content": "\ud800"}) == b'{"content":"\\ud800"}'
