from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from spectator.environments.collider import analysis
from tools import collider_validation

MODULES = [
    f"{package.__name__}.{found.name}"
    for package in (analysis, collider_validation)
    for found in pkgutil.iter_modules(package.__path__)
    if found.name != "__main__"
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = sum(
        bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))
    )
    assert examples >= 12
