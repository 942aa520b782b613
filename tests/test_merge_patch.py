"""Merge patches do what RFC 7396 says, and the patches that we make do what they are for."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.json_values import apply_patch, make_patch

VECTORS = json.loads((Path(__file__).parent / "vectors" / "merge_patch.json").read_text(encoding="utf-8"))

names = st.sampled_from(["a", "b", "c", "__proto__", "0"])
scalars = st.one_of(
    st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, -1.5]), st.sampled_from(["", "x"])
)


def states(leaves: st.SearchStrategy[Any] = scalars) -> st.SearchStrategy[Any]:
    return st.dictionaries(
        names,
        st.recursive(
            leaves | st.lists(leaves, max_size=2),
            lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=2),
            max_leaves=8,
        ),
        max_size=4,
    )


patches = states(scalars | st.none())


def as_json(value: Any) -> str:
    """Unlike ``==``, tells ``true`` from ``1`` and ``1`` from ``1.0``."""
    return json.dumps(value, sort_keys=True)


def test_the_shared_vectors_are_all_there() -> None:
    assert sum("RFC 7396" in vector["name"] for vector in VECTORS) == 15
    assert len(VECTORS) > 20


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_shared_vector(vector: dict[str, Any]) -> None:
    target, patch = copy.deepcopy(vector["target"]), copy.deepcopy(vector["patch"])
    assert as_json(apply_patch(target, patch)) == as_json(vector["result"])
    assert (target, patch) == (vector["target"], vector["patch"]), "the arguments were changed"


def test_untouched_parts_are_shared_and_touched_ones_are_not() -> None:
    target = {"kept": {"x": 1}, "changed": {"y": 1}}
    result = apply_patch(target, {"changed": {"y": 2}})
    assert result["kept"] is target["kept"]
    assert target["changed"] == {"y": 1}


@given(states(), states())
def test_the_patch_between_two_states_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    patch = make_patch(before, after)
    assert as_json(apply_patch(before, patch)) == as_json(after)


@given(states())
def test_the_patch_between_equal_states_is_empty(state: Any) -> None:
    assert make_patch(state, copy.deepcopy(state)) == {}


@given(states(), patches)
def test_applying_twice_is_applying_once(state: Any, patch: Any) -> None:
    once = apply_patch(state, patch)
    assert as_json(apply_patch(once, patch)) == as_json(once)


@given(states(), patches)
def test_a_state_without_nulls_stays_without_nulls_but_in_lists(state: Any, patch: Any) -> None:
    def nulls_in_objects(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return any(item is None or nulls_in_objects(item) for item in value.values())

    assert not nulls_in_objects(apply_patch(state, patch))


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), ([1], [True]), ({"x": [0]}, {"x": [False]}), (1, 1.0)]
)
def test_what_python_calls_equal_but_json_does_not_is_a_change(before: Any, after: Any) -> None:
    patch = make_patch({"v": before}, {"v": after})
    assert as_json(apply_patch({"v": before}, patch)) == as_json({"v": after})


def test_an_object_can_be_replaced_without_the_old_one_shining_through() -> None:
    patch = make_patch({"d": {"a": 1, "b": {"c": 1}}}, {"d": {"b": {"e": 2}}})
    assert patch == {"d": {"a": None, "b": {"c": None, "e": 2}}}
