"""The key shows itself nowhere but in its header."""

from __future__ import annotations

import copy
import pickle

import pytest

from spectator.errors import ConfigurationError
from spectator.llm.endpoints import ApiKey, mask

CANARY = "sk-canary-4711-do-not-print"


def test_it_is_in_the_header_and_in_no_representation() -> None:
    key = ApiKey(CANARY)
    assert key.header() == f"Bearer {CANARY}"
    for shown in (repr(key), str(key), f"{key}", repr([key]), repr({"key": key}), repr(vars)):
        assert CANARY not in shown
    assert not hasattr(key, "__dict__")


def test_it_is_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ApiKey(CANARY))
    with pytest.raises(TypeError):
        copy.deepcopy(ApiKey(CANARY))


@pytest.mark.parametrize("value", ["", "a b", "a\r\nX-Evil: 1", "schlüssel", "k" * 5_000])
def test_what_no_header_takes_is_refused_without_being_repeated(value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ApiKey(value)
    assert not value or value not in str(refused.value)


def test_a_repeated_key_is_masked() -> None:
    key = ApiKey(CANARY)
    assert mask(f"no such key: {CANARY}!", key) == "no such key: [key]!"
    assert CANARY not in mask(f"Authorization: bearer {CANARY}", None)
    assert (
        mask('{"authorization": "Bearer other-token", "x": 1}', key)
        == '{"authorization": "Bearer [key]", "x": 1}'
    )
