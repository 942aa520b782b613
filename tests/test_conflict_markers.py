"""No page keeps the marks that a merge left where two changes met."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MARK: Final = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_conflict_markers(page: Path) -> None:
    assert not MARK.findall(page.read_text(encoding="utf-8"))
