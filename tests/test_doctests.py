"""Every example in a docstring runs and shows what it says; there are enough of them."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEAST_EXAMPLES = 40
"""Functions, classes and modules whose docstring shows how they are used."""


def modules_with_examples() -> list[str]:
    """Names of the modules of the library and the server that hold an example."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("spectator", "server")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_show_what_happens(name: str) -> None:
    module = importlib.import_module(name)
    failed, attempted = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert attempted, f"{name} holds >>> outside of a docstring"
    assert not failed, f"{failed} of {attempted} examples; run `python -m doctest` over the file"


def test_there_are_examples_where_a_reader_would_try_one() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    documented = {
        found.name
        for name in modules_with_examples()
        for found in finder.find(importlib.import_module(name))
        if found.examples
    }
    assert len(documented) >= LEAST_EXAMPLES, sorted(documented)
