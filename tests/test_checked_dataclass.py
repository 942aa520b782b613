"""A checked dataclass behaves like a frozen one but for what only the type checker sees."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from spectator.checked_dataclass import checked_dataclass


@checked_dataclass(frozen=True, slots=True)
class Over:
    """Something that is made often."""

    runs: int
    wickets: int = 0


def test_equal_ones_are_one_in_a_set() -> None:
    assert Over(6) == Over(6, 0) != Over(7)
    assert len({Over(6), Over(6, 0), Over(7)}) == 2


def test_a_copy_is_made_with_other_values() -> None:
    assert replace(Over(6), wickets=1) == Over(6, 1)


def test_it_has_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Over(6).balls = 6  # type: ignore[attr-defined]


def test_it_is_copied_and_pickled() -> None:
    assert copy.deepcopy(Over(6, 1)) == pickle.loads(pickle.dumps(Over(6, 1))) == Over(6, 1)


def test_the_type_checker_keeps_it_from_being_changed() -> None:
    over = Over(6)
    over.runs = 7  # type: ignore[misc]  # mypy, which is strict, would find this comment needless
    assert over.runs == 7  # at run time nothing does
