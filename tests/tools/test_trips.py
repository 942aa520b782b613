"""The trips of docs/architecture.md are shorter than once, and as long as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"\| ([a-z: ]+) \| \d+ files, (\d+) functions \| \d+ files, (\d+) functions \|")
FOUND = re.compile(r"^(.+?) +\d+ files +(\d+) hops$", re.MULTILINE)

EITHER_WAY = 10
"""How many functions a trip may enter more or fewer than the page says: tidying runs beside a recovery."""


@pytest.mark.timeout(300)
def test_trips_are_shorter_than_once_and_as_long_as_the_page_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = [(name, int(once), int(now)) for name, once, now in ROW.findall(page)]
    made = subprocess.run(
        [sys.executable, "-m", "tools.trips"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    found = [(name, int(count)) for name, count in FOUND.findall(made.stdout)]
    assert [name.partition(":")[0] for name, _, _ in told] == [name for name, _ in found], made.stdout
    for (name, once, now), (_, count) in zip(told, found, strict=True):
        assert count < once, f"{name} enters {count} functions; `python -m tools.trips` lists them"
        assert abs(count - now) <= EITHER_WAY, (
            f"docs/architecture.md says {now} of {name}, which enters {count}"
        )
