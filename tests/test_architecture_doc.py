"""docs/architecture.md names files, classes and functions as they are, and stays one page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = ("spectator", "server", "tools", "tests")
LONGEST = 120
"""Lines of the page: what a newcomer reads in one sitting, and can draw afterwards."""


def named(pattern: str) -> set[str]:
    """What stands in backticks on the page and has this form."""
    return set(re.findall(rf"`({pattern})`", PAGE))


def defined(functions: set[str], classes: set[str]) -> tuple[set[str], set[str]]:
    """Names of functions and classes, and ``Class.member`` of what classes define themselves.

    Only files that define one of ``functions`` or ``classes`` are parsed: all of them take seconds.
    """
    names: set[str] = set()
    members: set[str] = set()
    defines = re.compile(rf"\b(?:def (?:{'|'.join(functions)})|class (?:{'|'.join(classes)}))\b")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if defines.search(text) else ():
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
                if isinstance(node, ast.ClassDef):
                    members |= {f"{node.name}.{one.name}" for one in node.body if hasattr(one, "name")}
    return names, members


def test_every_file_on_the_page_is_there() -> None:
    paths = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    missing = {
        name for name in named(r"[\w/]+\.py") if not any(f"/{path}".endswith(f"/{name}") for path in paths)
    }
    assert not missing


def test_every_function_and_method_on_the_page_is_there() -> None:
    functions = {name.removesuffix("()") for name in named(r"\w+\(\)")}
    methods = named(r"[A-Z]\w+\.[a-z_]\w+")
    names, members = defined(functions, {name.partition(".")[0] for name in methods})
    assert len(functions) > 12 and functions <= names, functions - names
    assert len(methods) > 12 and methods <= members, methods - members


def test_it_is_one_page() -> None:
    assert len(PAGE.splitlines()) <= LONGEST
    trips = re.findall(r"^\*\*([^*]+)\.\*\*", PAGE.partition("## Eight trips")[2], re.MULTILINE)
    assert len(trips) == 8, trips
