"""What a voice is given is plain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.narration.commentary import MAX_SPOKEN, plain_speech


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Smith [[h@'loU]] out", "Smith h@'loU out"),
        ('<break time="60s"/> out', 'break time="60s"/ out'),
        ("one\n\ttwo\x00\x1b[31m", "one two 31m"),
        ("  spaced   out ", "spaced out"),
        ("‮backwards", "backwards"),
    ],
)
def test_markup_and_control_characters_are_left_out(text: str, plain: str) -> None:
    assert plain_speech(text) == plain


def test_a_long_text_ends_at_a_word() -> None:
    plain = plain_speech("word " * 200)
    assert len(plain) <= MAX_SPOKEN
    assert plain.endswith("word")


@given(st.text(max_size=2000))
def test_nothing_else_comes_through(text: str) -> None:
    plain = plain_speech(text)
    assert len(plain) <= MAX_SPOKEN
    assert not set(plain) & set("[]<>{}\\|\n\r\t\x00\x1b")
    assert plain_speech(plain) == plain
