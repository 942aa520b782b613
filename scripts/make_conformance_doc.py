"""Write the tables of docs/conformance.md: ``python -m scripts.make_conformance_doc``.

Environments are what ``tests/watchable/test_real_packages.py`` last found, formats what can be imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spectator.importing.formats import FORMATS

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "conformance.md"
RESULTS: Final = ROOT / "test-results" / "conformance.json"


def conformance_page(page: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with its tables as the results and the declared formats are.

    Args:
        page: The page as it is.
        results: What each form of environment counted, or why it was refused.
    """
    environments = ["| package | version | form | |", "|---|---|---|---|"]
    for one in results:
        held = "lengths, rewards, ends" if one["held"] else "**differs**"
        held = f"refused: {one['refused']}" if "refused" in one else held
        named = one["form"].partition(": ")[2]
        environments.append(f"| {one['package']} | {one['version']} | {named} | {held} |")
    formats = ["| `--format` | files | laws |", "|---|---|---|"]
    formats += dict.fromkeys(f"| `{one.name}` | {one.files} | 1, 2, 3 |" for one in FORMATS if one.files)
    for name, table in (("environments", environments), ("formats", formats)):
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        page = before + mark + "\n".join(table) + rest[rest.index("\n<!-- end -->") :]
    return page


def rows_of(page: str) -> list[list[str]]:
    """Return the rows of the page's tables without versions, which differ between installations."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [[cell for cell in row if not re.fullmatch(r"\d[\w.+]*", cell)] for row in rows]


if __name__ == "__main__":
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(conformance_page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
