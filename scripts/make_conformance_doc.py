"""Write the tables of docs/conformance.md: ``python -m scripts.make_conformance_doc``.

Environments are what ``tests/watchable/test_real_packages.py`` last found, formats what can be imported.
``tools.try_packages`` writes the table of packages that it tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from spectator.importing.formats import FORMATS

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "conformance.md"
RESULTS: Final = ROOT / "test-results" / "conformance.json"
TRIED: Final = ROOT / "test-results" / "tried.json"


def conformance_page(page: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with its tables as the results and the declared formats are.

    Args:
        page: The page as it is.
        results: What each form of environment counted, or why it was refused.
    """
    environments = ["| package | version | form | |", "|---|---|---|---|", *map(_row, results)]
    formats = ["| `--format` | files | laws |", "|---|---|---|"]
    formats += dict.fromkeys(f"| `{one.name}` | {one.files} | 1, 2, 3 |" for one in FORMATS if one.files)
    return _with(_with(page, "environments", environments), "formats", formats)


def tried_page(page: str, results: Sequence[Mapping[str, Any]], day: date) -> str:
    """Return the page with the table of what ``tools.try_packages`` found.

    Args:
        page: The page as it is.
        results: What each form counted, by releases that the first table lacks.
        day: When they were tried.
    """
    known = page.partition("<!-- tried -->")[0].splitlines()
    table = [f"| package | version on {day} | form | |", "|---|---|---|---|"]
    rows = dict.fromkeys(row for row in map(_row, results) if row not in known)
    return _with(page, "tried", [*table, *rows])


def _row(one: Mapping[str, Any]) -> str:
    held = "lengths, rewards, ends" if one["held"] else "**differs**"
    held = f"refused: {one['refused']}" if "refused" in one else held
    return f"| {one['package']} | {one['version']} | {one['form'].partition(': ')[2]} | {held} |"


def _with(page: str, name: str, table: Sequence[str]) -> str:
    """Return the page with another table of this name."""
    before, mark, rest = page.partition(f"<!-- {name} -->\n")
    return before + mark + "\n".join(table) + rest[rest.index("\n<!-- end -->") :]


def rows_of(page: str) -> list[list[str]]:
    """Return the rows of the page's tables without versions, which differ between installations."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [[cell for cell in row if not re.fullmatch(r"\d[\w.+]*", cell)] for row in rows]


if __name__ == "__main__":
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(conformance_page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
