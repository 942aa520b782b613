"""A key that an endpoint echoes, whole or in pieces, is told to nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.llm.answers import Assembly
from spectator.llm.chat import DeltaKind
from spectator.llm.endpoints import ApiKey

KEY = "sk-canary-0123456789abcdef"


def told(pieces: list[tuple[str, str]]) -> tuple[str, str, str]:
    """What viewers heard while the pieces came, and the thought and text of the answer."""
    heard: list[str] = []

    def hear(kind: DeltaKind, text: str) -> None:
        heard.append(text)

    assembly = Assembly(ApiKey(KEY), hear)
    for member, text in pieces:
        assembly.feed({"model": f"echo {KEY}", "choices": [{"delta": {member: text}}]})
    assembly.feed({"weight_version": KEY, "choices": [{"delta": {}, "finish_reason": KEY}]})
    answer = assembly.answer(latency_s=0.0, first_token_s=None, attempts=1)
    for masked in (answer.model, answer.weight_version, answer.finish_reason):
        assert masked is not None and KEY not in masked
    return "".join(heard), answer.thought, answer.text


@given(st.lists(st.integers(1, len(KEY) + 6), max_size=12), st.sampled_from(["content", "reasoning_content"]))
def test_however_the_key_is_cut_nobody_hears_it(cuts: list[int], member: str) -> None:
    text = f"before {KEY} after"
    places = sorted({min(len(text), sum(cuts[: number + 1])) for number in range(len(cuts))} | {len(text)})
    pieces = [(member, text[start:end]) for start, end in zip([0, *places], places, strict=False)]
    heard, thought, said = told(pieces)
    assert heard == "before [key] after" == (thought or said)


@pytest.mark.parametrize("shown", [8, 12, len(KEY) - 1])
def test_most_of_the_key_is_not_told_either(shown: int) -> None:
    heard, _, _ = told([("content", f"it is {KEY[:shown]}")])
    assert heard == "it is [key]"
    heard, _, _ = told([("reasoning_content", f"it is {KEY[:shown]}"), ("content", "hm")])
    assert KEY[:shown] not in heard and heard.endswith("hm")


def test_a_word_that_begins_like_the_key_is_told_once_it_is_whole() -> None:
    assert told([("content", "ask"), ("content", " again, sk"), ("content", "ip")])[0] == "ask again, skip"
    assert told([("content", "sk-can")])[0] == "sk-can"
