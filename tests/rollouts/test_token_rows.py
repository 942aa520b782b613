"""Rows of tokens: joined where they agree, labelled where they do not, nothing trained on twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.exports.tokens import SampledCall, token_rows


def test_calls_that_grow_are_one_row() -> None:
    rows = token_rows(
        [
            SampledCall([1, 2], [3], [-0.1], "v1"),
            SampledCall([1, 2, 3, 4], [5, 6], [-0.2, -0.3], ["v1", "v2"]),
        ]
    )
    (row,) = rows
    assert row.token_ids == [1, 2, 3, 4, 5, 6]
    assert row.loss_mask == [0, 0, 1, 0, 1, 1]
    assert row.logprobs == [None, None, -0.1, None, -0.2, -0.3]
    assert row.weight_versions == [None, None, "v1", None, "v1", "v2"]
    assert row.joins == ["first", "clean"]


def test_an_end_mark_shown_in_another_form_is_realigned() -> None:
    (row,) = token_rows([SampledCall([1, 2], [3, 4, 99]), SampledCall([1, 2, 3, 4, 77, 5], [6])])
    assert row.token_ids == [1, 2, 3, 4, 77, 5, 6]
    assert row.loss_mask == [0, 0, 1, 1, 0, 0, 1]
    assert row.joins == ["first", "realigned"]


def test_a_long_answer_shown_in_another_form_begins_a_new_row_and_keeps_its_own() -> None:
    thought = list(range(100, 120))
    rows = token_rows([SampledCall([1, 2], thought), SampledCall([1, 2, 119, 5], [6])])
    assert [row.joins for row in rows] == [["first"], ["forked"]]
    assert sum(rows[0].loss_mask) == 20
    assert rows[1].loss_mask == [0, 0, 0, 0, 1]


def test_a_short_answer_that_is_not_shown_again_keeps_its_own_row() -> None:
    """However few its tokens are: given up are only those at the end of an answer, never all of it."""
    rows = token_rows(
        [SampledCall([1, 2, 3], [4]), SampledCall([1, 2, 3], [5]), SampledCall([1, 2, 3, 9], [6])]
    )
    assert [row.joins for row in rows] == [["first"], ["forked"], ["forked"]]
    assert [row.loss_mask for row in rows] == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0, 1]]


def test_a_trimmed_history_begins_a_new_row() -> None:
    rows = token_rows([SampledCall([1, 2, 3], [4]), SampledCall([1, 3, 4], [5])])
    assert [row.calls for row in rows] == [[0], [1]]


def test_an_answer_that_a_fallback_replaced_is_context_only() -> None:
    (row,) = token_rows(
        [SampledCall([1], [2, 3], [-1.0, -1.0], trainable=False), SampledCall([1, 2, 3], [4])]
    )
    assert row.loss_mask == [0, 0, 0, 1]
    assert row.logprobs == [None] * 4


@pytest.mark.parametrize(
    ("wrong", "named"), [({"logprobs": [0.0]}, "logprobs"), ({"weight_versions": ["v"]}, "weight_versions")]
)
def test_lengths_must_agree(wrong: dict[str, list[float]], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SampledCall([1], [2, 3], **wrong)  # type: ignore[arg-type]


tokens = st.lists(st.integers(0, 3), max_size=8)
calls = st.lists(st.builds(SampledCall, tokens, tokens), max_size=8)


@given(calls=calls, realign=st.integers(0, 4))
def test_any_calls(calls: list[SampledCall], realign: int) -> None:
    rows = token_rows(calls, realign_tokens=realign)
    assert [place for row in rows for place in row.calls] == list(range(len(calls)))
    for row in rows:
        lengths = {len(row.token_ids), len(row.loss_mask), len(row.logprobs), len(row.weight_versions)}
        assert len(lengths) == 1
        last = calls[row.calls[-1]]
        assert row.token_ids == [*last.prompt_ids, *last.completion_ids], "what the engine saw, to the token"
    written = sum(len(call.completion_ids) for call in calls)
    trained = sum(sum(row.loss_mask) for row in rows)
    given_up = sum(join == "realigned" for row in rows for join in row.joins) * realign
    assert written - given_up <= trained <= written
