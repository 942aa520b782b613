"""Checks of the page's pure modules: Node's runner, and the vectors that Python shares with it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spectator.json_values import apply_patch, make_patch

ROOT = Path(__file__).resolve().parents[2]
VECTORS: list[dict[str, Any]] = json.loads(
    (ROOT / "tests" / "vectors" / "merge_patch.json").read_text("utf-8")
)


def test_the_pure_modules_pass_their_own_tests(node: str) -> None:
    """Every tests/js/*.test.mjs passes, and there are some."""
    files = sorted(str(path) for path in (ROOT / "tests" / "js").glob("*.test.mjs"))
    assert len(files) >= 5
    ran = subprocess.run(
        [node, "--test", *files], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_python_applies_the_vectors_that_the_page_applies(vector: dict[str, Any]) -> None:
    """The same patch gives the same state on both sides of the wire."""
    assert apply_patch(vector["target"], vector["patch"]) == vector["result"]


@pytest.mark.parametrize(
    "vector", [one for one in VECTORS if "null" not in json.dumps(one)], ids=lambda vector: vector["name"]
)
def test_a_made_patch_leads_to_the_vectors_result(vector: dict[str, Any]) -> None:
    """What the server would send for this change brings it about; states hold no null."""
    patch = make_patch(vector["target"], vector["result"])
    assert apply_patch(vector["target"], patch) == vector["result"]


@pytest.mark.parametrize("path", sorted((ROOT / "static").rglob("*.js")), ids=lambda path: path.name)
def test_the_page_never_makes_markup_from_text(path: Path) -> None:
    """No module names a way to turn a string into markup or code."""
    source = path.read_text("utf-8")
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert forbidden not in source, f"{path.name} uses {forbidden}"


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "static").rglob("*.js")), *sorted((ROOT / "spectator").rglob("panel/*.js"))],
    ids=lambda path: path.name,
)
def test_modules_are_small_checked_and_say_what_they_are(path: Path) -> None:
    """At most 200 lines, type-checked by comment, with one reason to exist."""
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= 200
    assert lines[0] == "// @ts-check"
    assert (lines[1].startswith("// ") and lines[1].endswith((".", ":", ";"))) or lines[1].startswith(
        "// Owns "
    ), lines[1]
