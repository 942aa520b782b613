"""Write the tables of docs/import.md: ``python -m tools.import_page``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spectator.importing.declaration import FIELDS
from spectator.importing.formats import FORMATS

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "import.md"


def import_page(page: str) -> str:
    """Return the page with the tables of formats and of fields as they are in the code."""
    formats = ["| `--format` | files | an episode is |", "|---|---|---|"]
    rows = (f"| `{one.name}` | {one.files} | {one.entry} |" for one in FORMATS if one.files)
    formats += dict.fromkeys(rows)
    fields = [
        "| field | what is at its path |",
        "|---|---|",
        "| `each` | a list in the row whose items are episodes: `it` |",
    ]
    fields += [f"| `{name}` | {said} |" for name, said in FIELDS.items()]
    for name, table in (("formats", formats), ("fields", fields)):
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        page = before + mark + "\n".join(table) + rest[rest.index("\n<!-- end -->") :]
    return page


if __name__ == "__main__":
    PAGE.write_text(import_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
