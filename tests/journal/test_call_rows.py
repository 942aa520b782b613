"""The rows of calls: no longer than what is known, and of types that SQLite's driver takes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spectator.journal.inserts import CALL_COLUMNS, REQUIRED, CallRows, Prompt
from spectator.journal.schema import calls
from spectator.model_calls import ModelCall
from tests.journal.calls import call_of, decided, user

QUESTIONS = [user("first"), user("second")]
FIRST = call_of(QUESTIONS[:1])
TOKENS: dict[str, Any] = {"tokens": [7, 8], "logprobs": [-0.5, -0.25]}


def rows_of(call: ModelCall, before: Mapping[str, Prompt], *, long: bool = False) -> CallRows:
    rows = CallRows()
    rows.add(decided("ep-1", 2, [call], long=long).event, [call], before)
    return rows


def after_first() -> Mapping[str, Prompt]:
    return CallRows().add(decided("ep-1", 1, [FIRST]).event, [FIRST], {})


def test_a_row_has_every_column_of_the_table_and_those_that_are_never_null_first() -> None:
    assert sorted(CALL_COLUMNS) == sorted(calls.c.keys())
    assert set(CALL_COLUMNS[:REQUIRED]) == {one.name for one in calls.c if not one.nullable}


@pytest.mark.parametrize(
    ("call", "long", "last"),
    [
        (call_of(QUESTIONS), False, "beside"),
        (call_of(QUESTIONS, **TOKENS), False, "logprobs"),
        (call_of(QUESTIONS, prompt=[1, 2], **TOKENS), False, "prompt_token_ids"),
        (call_of(QUESTIONS, tools=()), False, "tools"),
        (call_of(QUESTIONS), True, "reply"),
    ],
)
def test_a_row_ends_with_the_last_column_that_is_known(call: ModelCall, long: bool, last: str) -> None:
    (row,) = rows_of(call, after_first(), long=long).calls
    assert CALL_COLUMNS[len(row) - 1] == last and row[-1] is not None


def test_bytes_are_of_the_type_that_the_driver_need_not_adapt() -> None:
    rows = rows_of(call_of(QUESTIONS, prompt=[1, 2], **TOKENS), {}, long=True)
    values = [value for row in (*rows.calls, *rows.message_rows()) for value in row]
    assert {type(value) for value in values} == {str, int, bytearray}


def test_calls_are_told_apart_by_the_length_of_their_rows() -> None:
    rows = CallRows()
    before = after_first()
    for seq, call in enumerate((call_of(QUESTIONS), call_of(QUESTIONS, **TOKENS), call_of(QUESTIONS)), 2):
        rows.add(decided("ep-1", seq, [call]).event, [call], before)
    assert {length: [row[1] for row in alike] for length, alike in rows.by_length().items()} == {
        REQUIRED: [2, 4],
        REQUIRED + 2: [3],
    }
