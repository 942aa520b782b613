"""Text from models and strangers loses what could harm a reader, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.text import clean_text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Bowl a yorker.\n\tThen a slower one", "Bowl a yorker.\n\tThen a slower one"),
        ("\x1b[2J\x1b[31mred\x07", "[2J[31mred"),
        ("a\r\nb\x00c\x7fd\x85e\x9bf", "a\nbcdef"),
        ("safe\u202eevil\u202c\u2066x\u2069\u200f", "safeevilx"),
        ("half \ud83c of a pair", "half  of a pair"),
        ("🏏 名 é ½ \u00ad", "🏏 名 é ½ \u00ad"),
        ("line\u2028separator\u2029", "lineseparator"),
        ("\ufefftext\uffff", "text"),
    ],
)
def test_cleaning(text: str, cleaned: str) -> None:
    assert clean_text(text, 100) == cleaned


@pytest.mark.parametrize(("limit", "cut"), [(6, "abcdef"), (5, "abcd…"), (1, "…")])
def test_cutting_counts_the_ellipsis(limit: int, cut: str) -> None:
    assert clean_text("abcdef", limit) == cut


def test_the_limit_holds_for_what_is_left_after_cleaning() -> None:
    assert clean_text("\x00" * 50 + "abc", 3) == "abc"


@given(st.text(st.characters(codec=None)), st.integers(1, 40))
def test_what_comes_out_can_be_encoded_and_no_reader_sees_other_lines_in_it(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    cleaned.encode()
    assert len(cleaned) <= limit
    assert clean_text(cleaned, limit) == cleaned
    assert [*cleaned.splitlines(), ""] == [*cleaned.removesuffix("\n").split("\n"), ""] or cleaned == ""
