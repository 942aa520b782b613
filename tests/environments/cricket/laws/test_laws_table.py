"""The table of docs/cricket-laws.md: every rule has its tests or is said not to be simulated."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent.parent
PAGE = (HERE.parents[2] / "docs" / "cricket-laws.md").read_text(encoding="utf-8")
COUNTS = {"O": 8, "N": 11, "W": 5, "S": 9, "K": 11, "F": 10, "R": 9, "T": 5, "A": 5, "D": 3}
"""How many statements of each kind the checklist of the Laws has."""


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows() -> dict[str, list[str]]:
    """Tests by rule, as the page names them."""
    found = re.findall(r"^\| ([A-Z]\d+) \| (.+) \|$", section("Which test holds which rule"), re.MULTILINE)
    return {rule: re.findall(r"`(test_\w+)`", tests) for rule, tests in found}


def spanned(text: str) -> set[str]:
    """Rules named in a text, ranges such as D1-D3 spelled out."""
    ranges = re.findall(r"\b([A-Z])(\d+)-\1(\d+)\b", text)
    spelled = {f"{kind}{n}" for kind, low, high in ranges for n in range(int(low), int(high) + 1)}
    return spelled | set(re.findall(r"\b[A-Z]\d+\b", text))


def test_every_rule_has_its_tests_or_is_said_not_to_be_simulated() -> None:
    rules = {f"{kind}{n}" for kind, count in COUNTS.items() for n in range(1, count + 1)}
    assert set(rows()) | spanned(section("Not simulated")) == rules


def test_every_test_in_the_table_exists_and_names_its_rule() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.rglob("test_*.py")))
    for rule, tests in rows().items():
        assert tests, rule
        for name in tests:
            assert f"def {name}(" in written, name
            assert rule in name.split("_") or "_to_" in name, (rule, name)
