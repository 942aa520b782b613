"""Thoughts and answers in one text, however it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.llm.answers import ThoughtSplitter, split_thought


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("plain", "", "plain"),
        ("<think>why</think>what", "why", "what"),
        ("<think>\nwhy\n</think>\n\nwhat", "why", "what"),
        ("before <think>why</think> after", "why", "before  after"),
        ("the template opened it</think>what", "the template opened it", "what"),
        ("a</think>b<think>c</think>d", "a\n\nc", "bd"),
        ("<think>never closed", "never closed", ""),
        ("<think>a</think>b<think>c", "a\n\nc", "b"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("1 < 2 <b>", "", "1 < 2 <b>"),
        ("", "", ""),
        ("<think></think>x", "", "x"),
    ],
)
def test_a_whole_text(text: str, thought: str, answer: str) -> None:
    assert split_thought(text) == (thought, answer)


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "<", ">", "/", "think", "a", " ", "<think", "</", "ä"]),
        max_size=12,
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_the_pieces_of_a_stream_add_up_wherever_it_is_cut(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]

    def split(pieces: list[str]) -> list[tuple[str, str]]:
        splitter, merged = ThoughtSplitter(), list[tuple[str, str]]()
        for kind, part in [found for piece in pieces for found in splitter.feed(piece)] + list(
            splitter.end()
        ):
            if merged and merged[-1][0] == kind:
                merged[-1] = (kind, merged[-1][1] + part)
            else:
                merged.append((kind, part))
        return merged

    pieces = [text[start:end] for start, end in pairwise(places)]
    assert split(pieces) == split([text])


def test_nothing_is_held_back_longer_than_a_mark() -> None:
    splitter = ThoughtSplitter()
    assert list(splitter.feed("go <thi")) == [("text", "go ")]
    assert list(splitter.feed("nk>so")) == [("thought", "so")]
    assert list(splitter.feed(" a<b and more")) == [("thought", " a<b and more")]


@pytest.mark.parametrize("text", ["</think>" * 100, "<think>" * 20_000, "</think>" * 20_000, "<" * 200_000])
def test_a_hostile_text_is_split_and_does_not_grow(text: str) -> None:
    thought, answer = split_thought(text)
    assert len(thought) + len(answer) <= len(text)
