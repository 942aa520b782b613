"""The order in which tests run: what takes long begins first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.conftest import LONGEST, ROOT, pytest_collection_modifyitems


def test_the_longest_files_come_first_and_nothing_else_changes_its_place() -> None:
    names = ["tests/a.py::one", f"{LONGEST[1]}::two[x::y]", "tests/b.py::three", f"{LONGEST[0]}::four",
             f"{LONGEST[1]}::five"]  # fmt: skip
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(items)
    assert [names.index(item.nodeid) for item in items] == [3, 1, 4, 0, 2]


def test_the_longest_files_are_there() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
